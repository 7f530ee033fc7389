"""Steps under a budget: each is bounded, its failure is its own, and what it found is kept."""

import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_day.model import Outcome, Step
from gpu_day.runner import Budget, Runner

ROW = {"name": "a_ns", "value": 3.5, "unit": "ns", "target": 4, "better": "lower"}
BENCH = f"print('table'); print({json.dumps({'bench': 'a', 'device': 'simulated', 'rows': [ROW]})!r})"


def step(name: str, text: str, **more: Any) -> Step:
    return Step(
        **{"name": name, "words": name, "command": (sys.executable, "-c", text), "cwd": Path("/"), "limit_s": 60} | more
    )


Run = Callable[..., dict[str, Outcome]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(steps, budget_s=…, known=…, missing=…): what came of each."""

    def run(steps: Sequence[Step], budget_s: float = 600, **more: Any) -> dict[str, Outcome]:
        outcomes: list[Outcome] = []
        Runner(logs=tmp_path / "logs", budget=Budget(budget_s), done=outcomes.append, **more).run(steps)
        return {outcome.name: outcome for outcome in outcomes}

    return run


def test_a_failure_is_its_own(run: Run) -> None:
    found = run(
        [
            step("exits", "print('why it failed'); raise SystemExit(4)"),
            step("crashes", "import os; os.kill(os.getpid(), 11)"),
            step("absent", "", command=("/nowhere",)),
            step("hangs", "print('it hangs', flush=True); import time; time.sleep(600)", limit_s=3),
            step("works", "print('fine')"),
        ]
    )
    assert {name: outcome.state for name, outcome in found.items()} == {
        "exits": "failed",
        "crashes": "failed",
        "absent": "failed",
        "hangs": "timed out",
        "works": "passed",
    }
    assert (found["exits"].why, found["exits"].tail) == ("exit code 4", "why it failed")
    assert found["crashes"].why == "ended by signal 11"
    assert "it hangs" in found["hangs"].tail
    assert (found["works"].why, found["works"].tail, found["works"].said) == ("", "", "fine")


def test_a_step_needs_another(run: Run) -> None:
    found = run([step("build", "raise SystemExit(1)"), step("test", "", needs=("build",)), step("alone", "")])
    assert (found["test"].state, found["test"].why) == ("skipped", "build, which it needs, failed")
    assert found["test"].code is None
    assert found["alone"].state == "passed"


def test_what_a_step_needs_was_never_run(run: Run) -> None:
    assert run([step("test", "", needs=("build",))])["test"].why == "build, which it needs, was not run"


def test_what_is_missing_is_asked_when_it_is_due(run: Run, tmp_path: Path) -> None:
    """The step before may have found out."""
    file = tmp_path / "torch"
    steps = [
        step("machine", f"open({str(file)!r}, 'w').write('no torch')"),
        step("torch", "", modules=("torch",)),
        step("numpy", "", modules=("numpy",)),
    ]
    found = run(steps, missing=lambda: {"torch": file.read_text()} if file.exists() else {})
    assert (found["torch"].state, found["torch"].why) == ("skipped", "no torch")
    assert found["numpy"].state == "passed"


def test_not_here(run: Run) -> None:
    found = run([step("optional", "raise SystemExit(77)", optional=True), step("must", "raise SystemExit(77)")])
    assert found["optional"].state == "skipped"
    assert found["must"].state == "failed"


class Clock:
    """Seconds, as told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_budget_is_for_all(tmp_path: Path) -> None:
    """What is left bounds a step; what is too little for it is not begun."""
    clock = Clock()
    outcomes: list[Outcome] = []

    def done(outcome: Outcome) -> None:
        outcomes.append(outcome)
        clock.now += 30

    runner = Runner(logs=tmp_path, budget=Budget(100, clock), done=done)
    runner.run([step(name, "", limit_s=60, least_s=20) for name in "abcd"] + [step("e", "", least_s=5)])
    assert [(outcome.state, outcome.limit_s) for outcome in outcomes[:3]] == [
        ("passed", 60),
        ("passed", 60),
        ("passed", 40),
    ]
    assert [outcome.state for outcome in outcomes[3:]] == ["skipped", "skipped"]
    assert outcomes[3].why == "10 s are left of 100 s, and it needs 20 s"


def test_the_budget_ends_a_step(run: Run) -> None:
    found = run([step("hangs", "import time; time.sleep(600)", least_s=0.5)], budget_s=1.5)
    assert found["hangs"].state == "timed out"
    assert found["hangs"].limit_s <= 1.5


def test_side_by_side(run: Run, tmp_path: Path) -> None:
    """Two that wait for each other can only pass together; the one after them comes when both are done."""
    first, second = tmp_path / "1", tmp_path / "2"
    text = (
        "import pathlib, time; pathlib.Path({own!r}).touch(); t = time.monotonic()\n"
        "while not pathlib.Path({other!r}).exists():\n"
        "    assert time.monotonic() - t < 50; time.sleep(0.01)"
    )
    steps = [
        step("one", text.format(own=str(first), other=str(second)), beside="tests"),
        step("skipped", "", beside="tests", skip="not here"),
        step("two", text.format(own=str(second), other=str(first)), beside="tests"),
        step("after", f"assert open({str(first)!r}) and open({str(second)!r})"),
    ]
    found = run(steps)
    assert [outcome.state for outcome in found.values()] == ["skipped", "passed", "passed", "passed"]


def test_done_is_called_by_one_thread_at_a_time(run: Run, tmp_path: Path) -> None:
    threads: set[int] = set()
    runner = Runner(logs=tmp_path / "more", budget=Budget(60), done=lambda outcome: threads.add(threading.get_ident()))
    runner.run([step(str(number), "", beside="x") for number in range(4)])
    assert threads == {threading.get_ident()}


def test_a_bench(run: Run) -> None:
    found = run([step("bench", BENCH, kind="bench")])["bench"]
    assert (found.state, found.device, found.rows) == ("passed", "simulated", (ROW,))


def test_a_bench_that_fails_keeps_its_rows(run: Run) -> None:
    found = run([step("bench", BENCH + "; raise SystemExit('one part failed')", kind="bench")])["bench"]
    assert (found.state, found.rows) == ("failed", (ROW,))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("print('no figures')", "it printed no line of JSON"),
        ("print('{}')", "its line of JSON has no rows"),
        ("print('[1]')", "it printed no line of JSON"),
        ("""print('{"rows": [{"value": 1}]}')""", "a row has no name"),
        ("""print('{"rows": [{"name": "a", "value": "x"}]}')""", "the value of a is no number"),
        ("", "it printed no line of JSON"),
    ],
)
def test_a_bench_that_says_nothing(run: Run, text: str, why: str) -> None:
    found = run([step("bench", text, kind="bench")])["bench"]
    assert (found.state, found.why) == ("failed", why)


def pytest_step(tmp_path: Path, text: str) -> Step:
    file = tmp_path / "test_it.py"
    file.write_text(text)
    command = (sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", f"--rootdir={tmp_path}", str(file))
    return step("tests", "", command=command, cwd=tmp_path, kind="tests")


def test_tests_are_counted(run: Run, tmp_path: Path) -> None:
    text = (
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2, 'numbers'\n"
        "@pytest.mark.skip(reason='no GPU')\ndef test_out(): pass\n"
    )
    found = run([pytest_step(tmp_path, text)])["tests"]
    assert (found.state, found.why) == ("failed", "1 of 3 tests failed")
    assert found.tests["passed"] == 1
    assert list(found.tests["failed"]) == ["test_it::test_bad"]
    assert "numbers" in found.tests["failed"]["test_it::test_bad"]
    assert found.tests["skipped"] == {"test_it::test_out": "no GPU"}


def test_tests_that_are_all_left_out_show_nothing(run: Run, tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.skip(reason='no GPU')\ndef test_out(): pass\n"
    found = run([pytest_step(tmp_path, text)])["tests"]
    assert (found.state, found.why) == ("skipped", "no GPU")


def test_no_tests_at_all(run: Run, tmp_path: Path) -> None:
    assert run([pytest_step(tmp_path, "")])["tests"].state == "failed"


def test_tests_that_crash(run: Run, tmp_path: Path) -> None:
    """pytest that dies leaves no report, or an old one."""
    steps = [pytest_step(tmp_path, "def test_a(): pass")]
    assert run(steps)["tests"].state == "passed"
    found = run([pytest_step(tmp_path, "import os\ndef test_a(): os._exit(9)")])["tests"]
    assert (found.state, found.why, found.tests) == ("failed", "exit code 9", {})


def test_known_steps_are_not_run_again(run: Run) -> None:
    known = {"build": Outcome(name="build", words="", state="passed")}
    found = run([step("build", "raise SystemExit(1)"), step("test", "", needs=("build",))], known=known)
    assert list(found) == ["test"]
    assert found["test"].state == "passed"
