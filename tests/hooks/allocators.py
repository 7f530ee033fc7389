"""Jobs of allocator processes on a simulated node, and what the simulated driver says that they have."""

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpud.model.views import MemoryView
from gpud.native import sim_dir
from gpud.testing.node import Node

PROGRAM = Path(__file__).parent / "programs" / "allocator.py"
UNIT = 2 << 20
MIB = 1 << 20
CONTEXT = 8 * MIB
"""Of the profile test-small."""
OUT_OF_MEMORY = 2
ANSWER_S = 60.0


class Process:
    """One process of a job: its methods are the program's, their values what it answers."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER_S)
        self._connection = connection
        self._lines = connection.makefile("rw")
        self.pid = int(json.loads(self._lines.readline())["pid"])

    def say(self, *words: object) -> None:
        print(json.dumps(words), file=self._lines, flush=True)

    def hear(self) -> list[int]:
        line = self._lines.readline()
        if not line:
            raise EOFError(f"the allocator {self.pid} has ended")
        answer: list[int] = json.loads(line)
        return answer

    def ask(self, *words: object) -> list[int]:
        self.say(*words)
        return self.hear()

    def quietly(self, within: float) -> bool:
        """Does it say nothing for so long?"""
        self._connection.settimeout(within)
        try:
            return not self._connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self._connection.settimeout(ANSWER_S)

    def kill(self) -> None:
        os.kill(self.pid, 9)
        while self._lines.readline():
            pass

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


@contextmanager
def job(
    node: Node, count: int = 1, *, labels: dict[str, str] | None = None, faults: str = ""
) -> Iterator[list[Process]]:
    """`count` processes of one job, each with a context."""
    path = node.directory / f"allocators-{threading.get_ident()}-{len(list(node.directory.iterdir()))}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(count)
        listener.settimeout(ANSWER_S)
        words = ["env", f"GPUD_SIM_FAULTS={faults}"] if faults else []
        run = node.run([*words, sys.executable, PROGRAM, path, str(count)], labels=labels or {})
        processes: list[Process] = []
        try:
            processes = [Process(listener.accept()[0]) for _ in range(count)]
            for process in processes:
                assert process.ask("start") == [0]
            yield processes
        finally:
            for process in processes:
                process.close()
            run.wait(ANSWER_S)


def truth(process: Process) -> dict[int, int]:
    """What each process on the device has of it, contexts included, as the (simulated) driver counts it."""
    result, *pairs = process.ask("truth")
    assert result == 0
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def library(name: str) -> Path:
    """The directory of a library of the simulated driver: as installed, or as meson leaves it in a build directory."""
    return next(path.parent for path in (sim_dir(), *sim_dir().iterdir()) for path in (path / name,) if path.exists())


def memory(node: Node, label: str = "") -> MemoryView:
    """Of the one job, or the one with this label `n`, as the daemon has it."""
    with node.client() as client:
        return next(job for job in client.ps() if job.labels.get("n", "") == label).memory[0]


def policy(directory: Path, text: str, name: str = "memory") -> Path:
    """A directory with a policy of these rules."""
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.gpol").write_text(f'gpol 1\npolicy "{name}" {{\n  doc "Of a test."\n  {text}\n}}\n')
    return directory


def limited(directory: Path, limit: str, over: str = "") -> Path:
    """Every job may have so much; `over`: what becomes of allocations beyond it."""
    over = f"  over_memory = {over}" if over else ""
    return policy(directory, f"class all {{ match any  limit {{ memory = {limit}{over} }} }}\n  arbitrate open {{}}")


def peak(log: Path) -> int:
    """The most device memory that was in use at once, by the simulator's log, whole once the node has ended."""
    return int(footer(log)["memory_peak"])


def footer(log: Path) -> dict[str, Any]:
    """The last line of the first device."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return next(line for line in reversed(lines) if line["type"] == "end" and line["device"] == 0)
