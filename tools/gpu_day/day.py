"""One call of on_gpu: runs the steps, and writes what comes of them after each."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_day import tree
from gpu_day.model import Outcome, Step
from gpu_day.reading import tail_of
from gpu_day.record import Record, passed_before
from gpu_day.runner import Budget, Runner
from gpu_day.steps import DRIVER, Places
from gpu_day.table import markdown

LOG_CHARACTERS = 200_000


class Day:
    """Writes on-gpu.json (after each step), on-gpu.md and on-gpu.log into `out`."""

    def __init__(self, *, places: Places, steps: Sequence[Step], out: Path, budget_s: float) -> None:
        self._places = places
        self._steps = steps
        self._out = out
        self._budget = Budget(budget_s)
        self._machine_file = places.work / "machine.json"
        self._tree = tree.digest(tree.ROOT)
        head = {
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "simulated": places.simulated,
            "tree": self._tree,
            "budget_s": budget_s,
            "took_s": 0.0,
            "machine": {},
        }
        self._record = Record(out / "on-gpu.json", head)

    def run(self, *, resume: bool = False) -> int:
        """1 when a step failed or was not reached, else 0. Raises NotOurs."""
        if resume:
            before = passed_before(self._record.path, tree=self._tree, simulated=self._places.simulated)
            self._record.outcomes |= {name: outcome for name, outcome in before.items() if self._stands(name)}
        self._places.work.mkdir(parents=True, exist_ok=True)
        self._machine_file.unlink(missing_ok=True)
        logs = self._places.work / "logs"
        runner = Runner(
            logs=logs,
            budget=self._budget,
            done=self._done,
            known=self._record.outcomes,
            missing=self._missing,
        )
        try:
            runner.run(self._steps)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        finally:
            self._write(logs)
        outcomes = self._record.outcomes
        bad = any(outcome.state in ("failed", "timed out") for outcome in outcomes.values())
        return 1 if bad or any(step.name not in outcomes for step in self._steps) else 0

    def _stands(self, name: str) -> bool:
        """Whether an earlier pass is still one: what a machine is may have changed, and what was built be gone."""
        if name == "build" and self._places.wheels:
            return Path(self._places.gpud_python).exists() and tree.digest(self._places.tree) == self._tree
        return name != "machine"

    def _done(self, outcome: Outcome) -> None:
        self._record.add(outcome)
        why = f": {outcome.why}" if outcome.why else ""
        print(f"[{self._budget.used_s():5.1f} s] {outcome.name}: {outcome.state}{why}", flush=True)

    def _machine(self) -> dict[str, Any]:
        try:
            found = json.loads(self._machine_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _missing(self) -> Mapping[str, str]:
        """What steps may ask for and is not there, as far as the machine has been looked at."""
        machine = self._machine()
        if not machine:
            return {}
        there = machine.get("modules", {})
        python = self._places.jobs_python
        names = {name for step in self._steps for name in step.modules}
        lacking = {name: f"{python} has no {name}" for name in names - set(there)}
        lacking.pop(DRIVER, None)
        if machine.get("driver") != "ok" and not self._places.simulated:
            lacking[DRIVER] = f"no GPU: {machine.get('driver')}"
        return lacking

    def _write(self, logs: Path) -> None:
        """All three files."""
        order = {step.name: number for number, step in enumerate(self._steps)}
        record = self._record
        record.outcomes = dict(sorted(record.outcomes.items(), key=lambda item: order.get(item[0], len(order))))
        record.write(took_s=round(self._budget.used_s(), 1), machine=self._machine())
        text = markdown(record.head, list(record.outcomes.values()))
        (self._out / "on-gpu.md").write_text(text, encoding="utf-8")
        with (self._out / "on-gpu.log").open("w", encoding="utf-8") as log:
            for name in record.outcomes:
                log.write(f"===== {name}\n{tail_of(logs / f'{name}.log', LOG_CHARACTERS)}\n")
        print(text)
