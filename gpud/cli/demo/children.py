"""Processes of the demo: started, listened to, and ended in all cases."""

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpud.cli.failure import Failure
from gpud.cli.supervise import PR_SET_CHILD_SUBREAPER, descendants

POLL_S = 0.02
_libc = ctypes.CDLL(None, use_errno=True)

Line = dict[str, Any]
"""What an example program says: one JSON object with a key `event`."""


class Child:
    """One program, and the JSON lines that it writes to its standard output."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.lines: list[Line] = []
        self._log = log
        self._queue: queue.Queue[Line | None] = queue.Queue()
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpud.cli.demo.leash", *command],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is ours; the children are ended in order
            )
        self._reader = threading.Thread(target=self._read, name=f"reads {name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for raw in self.process.stdout:
                with contextlib.suppress(ValueError):
                    line = json.loads(raw)
                    if isinstance(line, dict):
                        self._queue.put(line)
        self._queue.put(None)

    def close(self) -> None:
        """After its end: nothing of it stays in this process."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(5)
        self._reader.join(5)

    def go(self) -> None:
        """Gives the program the line on its standard input that it waits for."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(b"go\n")

    def follow(self, seconds: float, tick: "Tick") -> Iterator[Line]:
        """Lines as they come, until the program closes its output. Raises `Failure` after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            tick()
            try:
                line = self._queue.get(timeout=POLL_S)
            except queue.Empty:
                if time.monotonic() > deadline:
                    raise Failure(f"{self.name} did not come to an end in {seconds:.0f} s{self.said()}") from None
                continue
            if line is None:
                return
            self.lines.append(line)
            yield line

    def wait_for(self, event: str, seconds: float, tick: "Tick") -> Line:
        """The next line with this event. Raises `Failure` when the program ends, or `seconds` pass, before it comes."""
        for line in self.follow(seconds, tick):
            if line.get("event") == event:
                return line
        self.process.wait(5)
        raise Failure(f"{self.name} ended (exit code {self.process.returncode}) before it was {event}{self.said()}")

    def finish(self, seconds: float, tick: "Tick") -> Line:
        """Waits for the end; the summary line. Raises `Failure` when there is none, or the program failed."""
        for _ in self.follow(seconds, tick):
            pass
        self.process.wait(5)
        summary = next((line for line in reversed(self.lines) if line.get("event") == "summary"), None)
        if summary is None:
            raise Failure(f"{self.name} ended (exit code {self.process.returncode}) without a result{self.said()}")
        return summary

    def said(self) -> str:
        """The last lines of its stderr, for an error message."""
        with contextlib.suppress(OSError):
            text = self._log.read_text(errors="replace").strip().splitlines()
            if text:
                return "; it said:\n    " + "\n    ".join(text[-12:])
        return "; it said nothing"


class Tick:
    """Called often while the demo waits; the progress bar hangs on it."""

    def __call__(self) -> None:
        """Does nothing by itself."""


class Children:
    """All processes of one demo; leaving the block ends every one, and what they started."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        # What the programs leave behind (the simulated device is a process of its own) becomes our child, and is found.
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave anything behind.
        ignored = signal.SIGINT, signal.SIGTERM
        before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
        try:
            self.end_all()
        finally:
            _libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self, name: str, command: list[str], environment: Mapping[str, str]) -> Child:
        """Starts a program; its stderr goes to a file in the demo's directory."""
        log = self._directory / f"{len(self._children)}-{name.replace(' ', '-').replace('/', '-')}.err"
        child = Child(name, command, environment, log)
        self._children.append(child)
        return child

    def settle(self, seconds: float, tick: Tick) -> bool:
        """Waits until nothing runs (the simulated device ends after its last client); False if something still does."""
        deadline = time.monotonic() + seconds
        while self._running():
            if time.monotonic() > deadline:
                return False
            tick()
            time.sleep(POLL_S)
        self._forget()
        return True

    def end_all(self) -> None:
        """TERM, two seconds of grace, then KILL; returns when nothing is left."""
        for number, seconds in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 10.0)):
            told: set[int] = set()
            deadline = time.monotonic() + seconds
            while (left := self._running()) and time.monotonic() < deadline:
                for pid in left - told:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                told |= left
                time.sleep(POLL_S)
        self._forget()

    def _forget(self) -> None:
        for child in self._children:
            child.close()
        self._children.clear()

    def _running(self) -> set[int]:
        """Pids of our children and all below them; ended ones are reaped on the way."""
        ours = {child.process.pid: child.process for child in self._children}
        for process in ours.values():
            process.poll()
        running = set()
        for pid in descendants(os.getpid()):
            if pid in ours:
                if ours[pid].returncode is None:
                    running.add(pid)
                continue
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    continue
            running.add(pid)
        return running
