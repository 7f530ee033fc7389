"""Runs steps, one after another or side by side, under one budget. A step that fails, hangs or crashes costs itself."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

from gpu_day.model import Outcome, State, Step
from gpu_day.reading import bench_of, tail_of, tests_of

GUARD = Path(__file__).parent / "guard.py"
AFTER_LIMIT_S = 20.0
"""What a guard needs at most past the limit of its command: grace, killing, the rest of the output."""
NOT_HERE = 77
NO_TESTS = 5


class Budget:
    """Seconds for all steps together, from now on."""

    def __init__(self, total_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.total_s = total_s
        self._clock = clock
        self._began = clock()

    def used_s(self) -> float:
        return self._clock() - self._began

    def left_s(self) -> float:
        return self.total_s - self.used_s()


class Runner:
    """Runs steps and hands each outcome to `done` as it comes.

    `known`: outcomes of an earlier try, which are not run again. `missing`: asked before each
    step, which of what a step may need is not there, with the reason.
    """

    def __init__(
        self,
        *,
        logs: Path,
        budget: Budget,
        done: Callable[[Outcome], None],
        known: Mapping[str, Outcome] | None = None,
        missing: Callable[[], Mapping[str, str]] = dict,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._logs = logs
        self._budget = budget
        self._done = done
        self._outcomes = dict(known or {})
        self._known = frozenset(self._outcomes)
        self._missing = missing
        self._environment = dict(os.environ if environment is None else environment)
        logs.mkdir(parents=True, exist_ok=True)

    def run(self, steps: Sequence[Step]) -> None:
        """All of them, in their order."""
        for group in _side_by_side(step for step in steps if step.name not in self._known):
            ready: list[Step] = []
            for step in group:
                reason = self._reason_to_skip(step)
                if reason:
                    self._take(Outcome(name=step.name, words=step.words, state="skipped", why=reason))
                else:
                    ready.append(step)
            if not ready:
                continue
            with ThreadPoolExecutor(len(ready)) as pool:
                for outcome in pool.map(self._run_step, ready):
                    self._take(outcome)

    def _take(self, outcome: Outcome) -> None:
        self._outcomes[outcome.name] = outcome
        self._done(outcome)

    def _reason_to_skip(self, step: Step) -> str:
        if step.skip:
            return step.skip
        missing = self._missing()
        for module in step.modules:
            if module in missing:
                return missing[module]
        for name in step.needs:
            before = self._outcomes.get(name)
            if before is None or before.state != "passed":
                return f"{name}, which it needs, {'was not run' if before is None else before.state}"
        left = self._budget.left_s()
        if left < step.least_s:
            return f"{max(left, 0):.0f} s are left of {self._budget.total_s:.0f} s, and it needs {step.least_s:.0f} s"
        return ""

    def _run_step(self, step: Step) -> Outcome:
        limit_s = min(step.limit_s, self._budget.left_s())
        log = self._logs / f"{step.name}.log"
        junit = self._logs / f"{step.name}.xml"
        for old in (log, junit):
            old.unlink(missing_ok=True)
        command = [*step.command, f"--junitxml={junit}"] if step.kind == "tests" else list(step.command)
        report = self._guarded(command, step.cwd, limit_s, log)
        return _judged(step, report, log, junit, limit_s)

    def _guarded(self, command: Sequence[str], cwd: Path, limit_s: float, log: Path) -> dict[str, Any]:
        """The guard's report; `code` None when the guard itself broke."""
        began = time.monotonic()
        trouble = "the guard wrote no report"
        try:
            guard = subprocess.run(
                [sys.executable, str(GUARD), f"{limit_s:.3f}", str(log), *command],
                cwd=cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=limit_s + AFTER_LIMIT_S,
                check=False,
                text=True,
            )
            return dict(json.loads(guard.stdout))
        except subprocess.TimeoutExpired:
            trouble = "what it started could not be ended"
        except OSError as error:
            trouble = f"{error.filename}: {error.strerror}"
        except (TypeError, ValueError):
            pass
        took_s = round(time.monotonic() - began, 3)
        return {"code": None, "timed_out": False, "took_s": took_s, "left": [], "trouble": trouble}


def _side_by_side(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Neighbours with the same `beside` together, all others alone."""
    for word, group in groupby(steps, key=lambda step: step.beside):
        if word:
            yield list(group)
        else:
            yield from ([step] for step in group)


def _judged(step: Step, report: Mapping[str, Any], log: Path, junit: Path, limit_s: float) -> Outcome:
    """What a report, a log and a test report together say."""
    code = report["code"]
    device = ""
    rows: tuple[dict[str, Any], ...] = ()
    tests: dict[str, Any] = {}
    state, why = _by_code(step, report, limit_s)
    try:
        if step.kind == "bench" and state != "skipped":
            device, rows = bench_of(log)
        elif step.kind == "tests":
            tests = tests_of(junit)
            state, why = _by_tests(state, why, tests)
    except ValueError as error:
        if state == "passed":
            state, why = "failed", str(error)
    return Outcome(
        name=step.name,
        words=step.words,
        state=state,
        why=why,
        took_s=report["took_s"],
        limit_s=round(limit_s, 1),
        code=code,
        tail="" if state == "passed" else tail_of(log),
        said=tail_of(log, 200).rpartition("\n")[2] if state == "passed" and step.kind == "plain" else "",
        left=tuple(report["left"]),
        device=device,
        rows=rows,
        tests=tests,
    )


def _by_code(step: Step, report: Mapping[str, Any], limit_s: float) -> tuple[State, str]:
    code = report["code"]
    if code is None:
        return "failed", str(report.get("trouble", "the guard broke"))
    if report["timed_out"]:
        return "timed out", f"not done after {limit_s:.0f} s"
    if code == 0:
        return "passed", ""
    if code == NOT_HERE and step.optional:
        return "skipped", "not possible on this machine; its output says why"
    if code < 0:
        return "failed", f"ended by signal {-code}"
    if code == NO_TESTS and step.kind == "tests":
        return "failed", "there are no tests"
    return "failed", f"exit code {code}"


def _by_tests(state: State, why: str, tests: Mapping[str, Any]) -> tuple[State, str]:
    """Tests that were all left out have shown nothing."""
    if tests["failed"] and state != "timed out":
        return "failed", f"{len(tests['failed'])} of {sum(map(_size, tests.values()))} tests failed"
    if state == "passed" and not tests["passed"]:
        reasons = sorted(set(tests["skipped"].values()))
        return ("skipped", "; ".join(reasons)) if reasons else ("failed", "there are no tests")
    return state, why


def _size(count: object) -> int:
    return count if isinstance(count, int) else len(count)  # type: ignore[arg-type]
