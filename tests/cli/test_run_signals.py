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

# Signals are taken one by one: a handler that prints fails ("reentrant call") where it comes in the middle of a print.
SAYS_SIGNALS = """
import signal, sys
numbers = {signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
while (number := signal.sigwait(numbers)) != signal.SIGUSR2:
    print(signal.Signals(number).name, flush=True)
sys.exit(9)
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
                process_group=0,
                **keywords,  # type: ignore[call-overload]
            )
            stack.enter_context(process)
            stack.callback(_kill_group, process.pid)
            assert line(process) == "ready"
            return process  # type: ignore[no-any-return]

        yield start


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def line(process: "subprocess.Popen[str]") -> str:
    """The next line of the program; if it has ended, fails with its exit code and what came on stderr."""
    assert process.stdout is not None
    said = process.stdout.readline()
    if not said:
        _, errors = process.communicate(timeout=60)
        pytest.fail(f"the program ended, gpud with {process.returncode}: {errors}")
    return said.rstrip("\n")


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
    assert line(process) == name
    process.send_signal(signal.SIGUSR2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 9, errors


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
    """gpud takes the lower signal first: what it passed on of the first has come when the program has the second."""
    code = """
import signal, sys
numbers = {signal.SIGINT, signal.SIGWINCH}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
hits = 0
while signal.sigwait(numbers) == signal.SIGINT:
    hits += 1
    print("int", flush=True)
print("hits", hits, "end", flush=True)
sys.exit(5)
"""
    process, terminal = _on_a_terminal(environment, code)
    try:
        _read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        _read_until(terminal, b"int")
        process.send_signal(signal.SIGWINCH)
        assert b"hits 1 end" in _read_until(terminal, b"end")
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
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
said = {{signal.SIGINT: "int", signal.SIGTERM: "term", signal.SIGWINCH: "winch"}}
signal.pthread_sigmask(signal.SIG_BLOCK, said)
print("ready", os.getpid(), child.pid, "end", flush=True)
while True:
    print(said[signal.sigwait(said)], flush=True)
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
            process.send_signal(signal.SIGWINCH)  # comes last: what gpud made of the other has been said by then
            said += _read_until(terminal, b"winch")
        assert alive(grandchild)
        os.write(terminal, b"\x03")
        assert process.wait(60) == 128 + 9
        wait_until(lambda: not alive(main) and not alive(grandchild))
    finally:
        process.kill()
        process.wait(60)
        os.close(terminal)


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
    assert (line(process), line(process)) == ("2", "1")


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
