"""The guard runs one command, and nothing of it outlives the guard."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpud.testing.node import until

GUARD = Path(__file__).parents[2] / "tools" / "gpu_day" / "guard.py"
LONG = "import time; time.sleep(600)"


def start(limit_s: float, log: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(GUARD), str(limit_s), str(log), *command], stdout=subprocess.PIPE, text=True
    )


def guard(limit_s: float, log: Path, *command: str) -> dict[str, Any]:
    guarded = start(limit_s, log, *command)
    text, _ = guarded.communicate(timeout=60)
    report: dict[str, Any] = json.loads(text)
    return report


def python(text: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", text)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_output_and_exit_code(tmp_path: Path) -> None:
    log = tmp_path / "log"
    report = guard(30, log, *python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
    assert (report["code"], report["timed_out"], report["left"]) == (3, False, [])
    assert sorted(log.read_text().split()) == ["err", "out"]


def test_a_crash_is_a_signal(tmp_path: Path) -> None:
    report = guard(30, tmp_path / "log", *python("import os; os.abort()"))
    assert report["code"] == -signal.SIGABRT


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    report = guard(30, tmp_path / "log", "/nowhere/at/all")
    assert report["code"] == 127
    assert "No such file" in (tmp_path / "log").read_text()


def test_time_is_up(tmp_path: Path) -> None:
    """It is interrupted, and says where it was."""
    report = guard(3, tmp_path / "log", *python("def here():\n  import time\n  time.sleep(600)\nhere()"))
    assert report["timed_out"]
    said = (tmp_path / "log").read_text()
    assert "in here" in said
    assert "KeyboardInterrupt" in said


@pytest.mark.parametrize("stubborn", ["SIG_IGN", "SIG_DFL"])
def test_descendants_die_with_it(tmp_path: Path, stubborn: str) -> None:
    """In its group, in a session of its own, orphaned, deaf to signals: all end with the time."""
    pids = tmp_path / "pids"
    inner = f"import os, sys, time; open({str(pids)!r}, 'a').write(str(os.getpid()) + '\\n'); time.sleep(600)"
    text = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.{stubborn})
for session in (False, True):
    subprocess.Popen([sys.executable, "-c", {inner!r}], start_new_session=session)
# An orphan, in a session of its own, with an environment that has forgotten everything.
middle = "import subprocess as s, sys; s.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True, env={{}})"
subprocess.run([sys.executable, "-c", middle, {inner!r}])
time.sleep(600)
"""
    guarded = start(5, tmp_path / "log", *python(text))
    until(lambda: pids.exists() and len(pids.read_text().split()) == 3, 60, "all three run")
    started = [int(word) for word in pids.read_text().split()]
    assert all(map(alive, started))
    report = json.loads(guarded.communicate(timeout=60)[0])
    assert report["timed_out"]
    assert not any(map(alive, started))


def test_what_is_left_behind_is_named_and_ended(tmp_path: Path) -> None:
    text = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {LONG!r}], start_new_session=True)"
    report = guard(60, tmp_path / "log", *python(text))
    assert report["code"] == 0
    assert len(report["left"]) == 1
    assert LONG in report["left"][0]


def test_what_ends_by_itself_is_waited_for(tmp_path: Path) -> None:
    text = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.3)'])"
    assert guard(60, tmp_path / "log", *python(text))["left"] == []


def test_the_guard_dies_with_its_parent(tmp_path: Path) -> None:
    """A parent that is killed cannot say so; its step ends all the same."""
    pid_file = tmp_path / "pid"
    inner = f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid())); {LONG}"
    command = [sys.executable, str(GUARD), "600", str(tmp_path / "log"), *python(inner)]
    parent = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({command!r})"])
    until(lambda: pid_file.exists() and pid_file.read_text(), 60, "the command runs")
    pid = int(pid_file.read_text())
    assert alive(pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    until(lambda: not alive(pid), 60, "the command was ended")


def test_endless_output_is_cut(tmp_path: Path) -> None:
    """The beginning and the end stay; the disk does not fill."""
    text = "import sys\nfor i in range(300000): print(f'line {i} ' + 'x' * 60)\nprint('last')"
    report = guard(60, tmp_path / "log", *python(text))
    said = (tmp_path / "log").read_text()
    assert report["code"] == 0
    assert said.startswith("line 0 ")
    assert said.endswith("last\n")
    assert "bytes left out" in said
    assert len(said) < 5 << 20
