"""`gpud run` and signals: what is passed on, what Ctrl-C does, and what is reaped."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import FakeDaemon

SAYS_SIGNALS = """
import signal, sys, time
def say(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGUSR2:
        sys.exit(9)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGINT):
    signal.signal(number, say)
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def started(daemon: FakeDaemon, environment: dict[str, str]) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts `gpud run python -c CODE` and waits until it says `ready`."""
    with contextlib.ExitStack() as stack:

        def start(code: str, **keywords: object) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [sys.executable, "-m", "gpud.cli.main", "run", sys.executable, "-c", code],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                **keywords,  # type: ignore[call-overload]
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
            return process  # type: ignore[no-any-return]

        yield start


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for a condition; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """True unless the process is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGWINCH", "SIGINT"])
def test_a_signal_to_gpud_reaches_the_program(started: Callable[..., "subprocess.Popen[str]"], name: str) -> None:
    process = started(SAYS_SIGNALS)
    process.send_signal(getattr(signal, name))
    assert process.stdout is not None
    assert process.stdout.readline() == name + "\n"
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == 9


def test_a_program_ended_by_a_forwarded_signal(started: Callable[..., "subprocess.Popen[str]"]) -> None:
    process = started("import time; print('ready', flush=True); time.sleep(60)")
    process.terminate()
    assert process.wait(60) == 128 + 15


def test_an_ignored_signal_stays_ignored(daemon: FakeDaemon, environment: dict[str, str]) -> None:
    """As under nohup."""
    code = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, flush=True); input()"
    run = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-m", "gpud.cli.main", "run"]
    with subprocess.Popen(
        [*run, sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        process.send_signal(signal.SIGHUP)
        process.communicate("\n", timeout=60)
    assert process.returncode == 0


def test_the_program_starts_with_no_signal_blocked_or_ignored(daemon: FakeDaemon, environment: dict[str, str]) -> None:
    """Python ignores SIGPIPE for itself, and gpud blocks what it waits for: neither may reach the program."""
    done = subprocess.run(
        [sys.executable, "-m", "gpud.cli.main", "run", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    masks = dict(line.split(":\t") for line in done.stdout.splitlines())
    assert int(masks["SigBlk"], 16) == 0
    assert int(masks["SigIgn"], 16) & (1 << (signal.SIGPIPE - 1)) == 0


LEADER = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


def _on_a_terminal(environment: dict[str, str], code: str) -> "tuple[subprocess.Popen[bytes], int]":
    """`gpud run` as the foreground group of a terminal of its own, and the terminal's other end."""
    terminal, inside = pty.openpty()
    run = [sys.executable, "-m", "gpud.cli.main", "run", sys.executable, "-c", code]
    process = subprocess.Popen(
        [sys.executable, "-c", LEADER, *run],
        env=environment,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    return process, terminal


def _read_until(terminal: int, wanted: bytes) -> bytes:
    got = b""
    end = time.monotonic() + 60
    while wanted not in got:
        ready, _, _ = select.select([terminal], [], [], max(end - time.monotonic(), 0))
        assert ready, got
        try:
            got += os.read(terminal, 1024)
        except OSError:
            break
    assert wanted in got, got
    return got


def test_ctrl_c_reaches_the_program_once(daemon: FakeDaemon, environment: dict[str, str]) -> None:
    code = """
import signal, time, sys
hits = []
signal.signal(signal.SIGINT, lambda *_: hits.append(1))
print("ready", flush=True)
while not hits:
    signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0.2)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.pause()
print("hits", len(hits), flush=True)
sys.exit(5)
"""
    process, terminal = _on_a_terminal(environment, code)
    try:
        _read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        _read_until(terminal, b"hits 1")
        assert process.wait(60) == 5
    finally:
        process.kill()
        process.wait(60)
        os.close(terminal)


DEAF = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
WITH_DEAF_CHILD = f"""
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, lambda *_: print("int", flush=True))
signal.signal(signal.SIGTERM, lambda *_: print("term", flush=True))
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", os.getpid(), child.pid, "end", flush=True)
while True:
    signal.pause()
"""


def test_a_second_ctrl_c_ends_the_whole_job_and_a_third_kills_it(
    daemon: FakeDaemon, environment: dict[str, str]
) -> None:
    process, terminal = _on_a_terminal(environment, WITH_DEAF_CHILD)
    try:
        words = _read_until(terminal, b"end").split()
        main, grandchild = int(words[1]), int(words[2])
        said = b""
        while b"term" not in said:  # on a machine that is slow two may lie further apart than 3 s
            os.write(terminal, b"\x03")
            said = _read_until(terminal, b"int")
            wait_until(lambda: not _pending(process.pid, signal.SIGINT))  # two that are pending at once count as one
            said += _read_for(terminal, 0.3)
        assert alive(grandchild)
        os.write(terminal, b"\x03")
        assert process.wait(60) == 128 + 9
        wait_until(lambda: not alive(main) and not alive(grandchild))
    finally:
        process.kill()
        process.wait(60)
        os.close(terminal)


def _read_for(terminal: int, seconds: float) -> bytes:
    got = b""
    while select.select([terminal], [], [], seconds)[0]:
        got += os.read(terminal, 1024)
    return got


def _pending(pid: int, number: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    masks = dict(line.split(":\t", 1) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd")))
    return any(int(mask, 16) & (1 << (number - 1)) for mask in masks.values())


def test_orphans_of_the_job_are_reaped(started: Callable[..., "subprocess.Popen[str]"]) -> None:
    """A daemonised grandchild becomes a child of gpud; when it ends no zombie stays."""
    code = """
import os, sys
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.read(read, 1)
        os._exit(0)
    os._exit(0)
os.wait()
me = os.getppid()
def children():
    return open(f"/proc/{me}/task/{me}/children").read().split()
print("ready", flush=True)
print(len(children()), flush=True)
os.write(write, b"x")
import time
end = time.monotonic() + 60
while len(children()) > 1 and time.monotonic() < end:
    time.sleep(0.005)
print(len(children()), flush=True)
"""
    process = started(code)
    assert process.stdout is not None
    assert process.stdout.read() == "2\n1\n"


def test_gpud_ends_with_its_program_and_leaves_the_background(
    daemon: FakeDaemon, environment: dict[str, str], runtime: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpud.cli.main", "run", "sh", "-c", "sleep 50 >/dev/null 2>&1 & echo $!"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    background = int(done.stdout)
    assert alive(background)
    os.kill(background, signal.SIGKILL)
    assert done.returncode == 0
