"""What a step is, and what came of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

State = Literal["passed", "failed", "timed out", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command. It knows nothing of the others, but for those that it names in `needs`."""

    name: str
    words: str
    """What it shows, for the table."""
    command: tuple[str, ...]
    cwd: Path
    limit_s: float
    """It is ended after so long, or when the whole budget is up."""
    least_s: float = 10.0
    """It is not started when less is left."""
    kind: Literal["plain", "tests", "bench"] = "plain"
    """tests: pytest, which gets `--junitxml`; bench: the last line is JSON with `rows`."""
    needs: tuple[str, ...] = ()
    """Steps that must have passed."""
    modules: tuple[str, ...] = ()
    """What the jobs' Python must have, or the machine: the runner is told what is missing."""
    beside: str = ""
    """Steps with the same word, one behind the other in the list, run at the same time."""
    skip: str = ""
    """Why it is not to be run here; "": it is."""
    optional: bool = False
    """It may exit with 77 for "not possible here"."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a step, as the JSON file has it."""

    name: str
    words: str
    state: State
    why: str = ""
    """One sentence; "" where it passed."""
    took_s: float = 0.0
    limit_s: float = 0.0
    code: int | None = None
    """The exit code; minus the signal that ended it; None where it did not run."""
    tail: str = ""
    """The end of its output, kept where it did not pass."""
    said: str = ""
    """The last line of a plain step that passed."""
    left: tuple[str, ...] = ()
    """Processes that it left behind, which were ended."""
    device: str = ""
    """A bench's word for where its figures are from."""
    rows: tuple[dict[str, Any], ...] = ()
    tests: dict[str, Any] = field(default_factory=dict)
    """passed, failed: {name: message}, skipped: {name: reason}."""
