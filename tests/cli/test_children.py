"""Processes of the demo are ended in all cases."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpud.cli.demo.children import Children, Tick
from gpud.cli.failure import Failure

ROOT = Path(__file__).resolve().parents[2]
SAYS = """
import json
print(json.dumps({"event": "ready", "pid": 7}))
print("no json")
print(json.dumps({"event": "summary"}))
"""
DEAF = (
    'import signal, time; signal.signal(15, signal.SIG_IGN); print(\'{"event": "ready"}\', flush=True); time.sleep(60)'
)
LEAVES_ONE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.005)
print('{"event": "ready"}', flush=True)
"""


@pytest.fixture
def environment() -> dict[str, str]:
    return dict(os.environ) | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with Children(tmp_path) as made:
        yield made


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.005)


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_lines_are_read_and_others_passed_over(children: Children, environment: dict[str, str]) -> None:
    child = children.start("one", python(SAYS), environment)
    assert child.wait_for("ready", 60, Tick())["pid"] == 7
    assert child.finish(60, Tick()) == {"event": "summary"}
    assert children.settle(60, Tick())


def test_a_program_that_fails_is_quoted(children: Children, environment: dict[str, str]) -> None:
    child = children.start("the program", python("raise SystemExit('no device here')"), environment)
    with pytest.raises(
        Failure, match=r"the program ended \(exit code 1\) before it was ready; it said:\s+no device here"
    ):
        child.wait_for("ready", 60, Tick())


def test_a_program_that_says_nothing_is_not_waited_for_forever(children: Children, environment: dict[str, str]) -> None:
    child = children.start("sleeper", python("import time; time.sleep(60)"), environment)
    with pytest.raises(Failure, match="sleeper did not come to an end"):
        child.wait_for("ready", 0.3, Tick())


def test_leaving_ends_a_program_that_ignores_term(tmp_path: Path, environment: dict[str, str]) -> None:
    with Children(tmp_path) as children:
        child = children.start("deaf", python(DEAF), environment)
        child.wait_for("ready", 60, Tick())
        assert alive(child.process.pid)
    assert not alive(child.process.pid)


def test_leaving_ends_what_a_program_left_behind(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "pid"
    with Children(tmp_path) as children:
        child = children.start("parent", python(LEAVES_ONE, str(file)), environment)
        child.wait_for("ready", 60, Tick())
        left = int(file.read_text())
        assert not children.settle(0.2, Tick())
        assert alive(left)
    assert not alive(left)


def test_interrupted_children_are_ended(tmp_path: Path, environment: dict[str, str]) -> None:
    started: list[int] = []

    def interrupted() -> None:
        with Children(tmp_path) as children:
            started.append(children.start("sleeper", python("import time; time.sleep(60)"), environment).process.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not alive(started[0])


def test_children_of_a_demo_that_was_killed_get_term(tmp_path: Path, environment: dict[str, str]) -> None:
    code = """
import os, sys, time
from pathlib import Path
from gpud.cli.demo.children import Children, Tick
with Children(Path(sys.argv[1])) as children:
    command = [sys.executable, "-c", "import time; print('{\\"event\\": \\"ready\\"}', flush=True); time.sleep(60)"]
    child = children.start("sleeper", command, os.environ)
    child.wait_for("ready", 60, Tick())
    print(child.process.pid, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(python(code, str(tmp_path)), env=environment, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        pid = int(demo.stdout.readline())
        assert alive(pid)
        demo.send_signal(signal.SIGKILL)
        wait_until(lambda: not alive(pid))
