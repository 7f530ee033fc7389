"""A program on a node that is given orders, one line of JSON each, and answers in lines of JSON."""

import json
import queue
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpud.model.views import JobStats
from gpud.testing.lines import Lines
from gpud.testing.node import Node, until


def stats_of(node: Node, name: str) -> JobStats:
    """What the daemon counts of the job of that name, as soon as that has a process on the device."""

    def found() -> JobStats | None:
        with node.client() as client:
            return next((stats for stats in client.stats() if stats.job.name == name and stats.job.pids), None)

    stats = until(found, 20, f"the daemon knows the job {name}")
    assert stats is not None
    return stats


class Silent(Exception):
    """The program did not answer: it ended, failed, or took too long. The text says which, and what it wrote."""


class Talk:
    """One such program. `gpud.testing.spoken` is its side in Python; the node ends it at the latest."""

    def __init__(
        self,
        node: Node,
        program: Sequence[str | Path],
        *,
        name: str = "it",
        managed: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._errors = node.directory / f"{name}-{time.monotonic_ns()}.err"
        self._given = 0
        self._awaited: deque[int] = deque()
        with self._errors.open("w") as errors:
            self.process = node.run(
                program,
                managed=managed,
                labels=labels,
                options=("--name", name) if managed else (),
                stdin=subprocess.PIPE,
                stderr=errors,
            )
        self._lines = Lines(self.process, name)

    def say(self, do: str, **order: Any) -> None:
        """Gives an order, and does not wait for the answer. Raises Silent when the program has ended."""
        assert self.process.stdin is not None
        self._given += 1
        self._awaited.append(self._given)
        try:
            self.process.stdin.write(json.dumps({"do": do, "number": self._given, **order}) + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            self._awaited.pop()
            raise self._silent(f"ended before {do}") from None

    def hear(self, within: float) -> dict[str, Any]:
        """The answer to the oldest order that none was waited for yet (of a program that is given none: its next line).
        Raises Silent for an error, for no answer in time, and at the end. A late answer is taken for no other one."""
        number = self._awaited.popleft() if self._awaited else None
        deadline = time.monotonic() + within
        while True:
            try:
                answer = self._answer(self._lines.next(max(deadline - time.monotonic(), 0)))
            except queue.Empty:
                raise self._silent(f"said nothing for {within:g} s") from None
            if answer.pop("number", None) == number:
                break
        if "error" in answer:
            raise self._silent(f"failed:\n{answer['error']}")
        return answer

    def _answer(self, line: str | None) -> dict[str, Any]:
        if line is None:
            raise self._silent("ended")
        try:
            answer = json.loads(line)
        except ValueError:
            raise self._silent(f"said {line.strip()!r}, which is no JSON") from None
        if not isinstance(answer, dict):
            raise self._silent(f"said {line.strip()!r}, which is no object")
        return answer

    def ask(self, do: str, within: float = 60, **order: Any) -> dict[str, Any]:
        """Gives an order and waits for its answer."""
        self.say(do, **order)
        return self.hear(within)

    def end(self, within: float = 30) -> int:
        """Closes its standard input and waits for its end; the exit code. Raises Silent when it does not end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise self._silent(f"did not end within {within:g} s") from None

    def _silent(self, what: str) -> Silent:
        try:
            code = self.process.wait(1 if what.startswith("ended") else 0)
            ended = f" (exit code {code})"
        except subprocess.TimeoutExpired:
            ended = ""
        return Silent(f"{self.name} {what}{ended}; on stderr: {self.said() or 'nothing'}")

    def said(self) -> str:
        """The end of what it wrote on standard error."""
        return self._errors.read_text(errors="replace").strip()[-3000:] if self._errors.exists() else ""
