"""guard.py LIMIT_S LOG COMMAND…: runs one command for at most LIMIT_S seconds, and leaves nothing of it running.

What the command writes goes to the file LOG, of which the first and the last part are kept. On standard output the
guard writes one JSON object: code, timed_out, took_s, left (the processes that it had to end). A command whose time is
up gets an interrupt, a few seconds to say where it was, and then, like all that it started, SIGKILL: processes in
sessions of their own, too, since the guard adopts orphans and knows what carries its mark.
The guard ends everything when its parent dies.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from types import FrameType
from typing import IO

MARK = "ON_GPU_GUARD"
"""The environment variable that what belongs to a guard carries."""
GRACE_S = 5.0
"""From the interrupt to the kill."""
LINGER_S = 3.0
"""How long what the command left behind may take to end by itself, as a simulated device does."""
HEAD_BYTES = 4 << 20
TAIL_BYTES = 256 << 10
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Ended(BaseException):
    """The guard itself was told to end."""


class Ward:
    """What belongs to this guard: the processes below it, and those that carry its mark, wherever they are."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self.command_pid = 0
        """Buried by `subprocess`, not by this."""

    def left(self) -> list[int]:
        """All that live. Buries the dead among the guard's own children."""
        own = os.getpid()
        parents: dict[int, int] = {}
        found: set[int] = set()
        wanted = f"{MARK}={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == own:
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                pid = int(entry.name)
                state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                if state in (b"Z", b"X"):
                    if int(parent) == own and pid != self.command_pid:
                        os.waitpid(pid, os.WNOHANG)
                    continue
                parents[pid] = int(parent)
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(pid)
        for pid in parents:
            above = pid
            while above in parents:
                above = parents[above]
            if above == own:
                found.add(pid)
        return sorted(found)

    def wait_for_none(self, within_s: float) -> list[int]:
        """Waits until nothing is left, at most so long; what still is."""
        deadline = time.monotonic() + within_s
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def kill(self) -> None:
        """SIGKILL to all that is left, until nothing is: what forks meanwhile is met the next time round."""
        deadline = time.monotonic() + 10
        while (left := self.left()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def name_of(pid: int) -> str:
    """The command line of a process, shortened; "" when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:120]
    return ""


class Log:
    """Copies a pipe into a file: the first HEAD_BYTES as they come, of the rest the last TAIL_BYTES at the end."""

    def __init__(self, source: IO[bytes], path: Path) -> None:
        self._source = source
        self._path = path
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def finish(self, within_s: float) -> None:
        """Waits until the pipe is empty and closed."""
        self._thread.join(within_s)

    def _copy(self) -> None:
        written, dropped, tail = 0, 0, b""
        with self._path.open("wb", buffering=0) as out:
            while block := os.read(self._source.fileno(), 65536):
                if written + len(block) <= HEAD_BYTES:
                    out.write(block)
                    written += len(block)
                    continue
                tail += block
                if len(tail) > 2 * TAIL_BYTES:
                    dropped += len(tail) - TAIL_BYTES
                    tail = tail[-TAIL_BYTES:]
            if dropped:
                out.write(f"\n… {dropped} bytes left out …\n".encode())
            out.write(tail)


def prctl(option: int, argument: int) -> None:
    """Asks the kernel; a kernel that refuses is served by the mark alone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0)


def run(command: list[str], limit_s: float, log: Path) -> dict[str, object]:
    """The guard's report."""
    ward = Ward()
    try:
        return _watched(ward, command, limit_s, log)
    finally:
        ward.kill()


def _watched(ward: Ward, command: list[str], limit_s: float, log: Path) -> dict[str, object]:
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {MARK: ward.mark},
            start_new_session=True,
        )
    except OSError as error:
        log.write_text(f"{command[0]}: {error.strerror}\n")
        return {"code": 127, "timed_out": False, "took_s": 0.0, "left": []}
    ward.command_pid = child.pid
    assert child.stdout is not None
    copying = Log(child.stdout, log)
    timed_out = False
    try:
        child.wait(limit_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.kill(child.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
    left = [] if timed_out else ward.wait_for_none(LINGER_S)
    names = [name for name in map(name_of, left) if name]
    ward.kill()
    code = child.wait(10)
    copying.finish(5)
    return {"code": code, "timed_out": timed_out, "took_s": round(time.monotonic() - began, 3), "left": names}


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended


def main() -> int:
    limit_s, log, command = float(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    parent = os.getppid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    if os.getppid() != parent:
        return 1
    try:
        report = run(command, limit_s, log)
    except Ended:
        return 1
    print(json.dumps(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
