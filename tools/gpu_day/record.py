"""The JSON file: written after each step, so that what has been found is never lost, and read again to go on."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu_day.model import Outcome

FORMAT = 1


class NotOurs(Exception):
    """The file there cannot be gone on with. The text is a sentence."""


class Record:
    """What has come of a day so far, and its file."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path = path
        self.head = head
        """machine, simulated, tree, budget_s, began."""
        self.outcomes: dict[str, Outcome] = {}

    def add(self, outcome: Outcome) -> None:
        """Takes one outcome in and writes the file."""
        self.outcomes[outcome.name] = outcome
        self.write()

    def write(self, **more: Any) -> None:
        """Whole or not at all."""
        self.head |= more
        text = {"format": FORMAT, **self.head, "steps": [asdict(outcome) for outcome in self.outcomes.values()]}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(self.path.name + ".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(text, file, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)


def passed_before(path: Path, *, tree: str, simulated: bool) -> dict[str, Outcome]:
    """Outcomes of an earlier try at the same tree that need not be run again: those that passed.

    Empty when there is no file. Raises NotOurs for one that is garbage or of another tree.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NotOurs(f"{path}: {(error.strerror or str(error)).lower()}") from None
    try:
        old = json.loads(text)
        if old["format"] != FORMAT:
            raise NotOurs(f"{path} is of format {old['format']}, not {FORMAT}")
        if old["tree"] != tree or old["simulated"] != simulated:
            raise NotOurs(f"{path} is of another state of the tree, or of another device: run without --resume")
        outcomes = [_outcome(step) for step in old["steps"]]
    except (ValueError, TypeError, KeyError):
        raise NotOurs(f"{path} is no record of on_gpu") from None
    return {outcome.name: outcome for outcome in outcomes if outcome.state == "passed"}


def _outcome(step: dict[str, Any]) -> Outcome:
    """Raises TypeError, KeyError or ValueError for anything else."""
    return Outcome(**step | {"rows": tuple(step["rows"]), "left": tuple(step["left"])})
