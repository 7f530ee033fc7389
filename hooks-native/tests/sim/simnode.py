"""A simulated node for tests, clients that run on it, its log, and a runner for the `test_` functions of a file.

`$GPUD_TEST_SIM_CLIENT` is the client program, `$GPUD_NATIVE_DIR` holds `sim/`; `$GPUD_TEST_SEED` repeats a run.
"""

import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

CLIENT = os.environ.get("GPUD_TEST_SIM_CLIENT", "sim_client")
SEED = int(os.environ.get("GPUD_TEST_SEED", str(random.SystemRandom().randrange(1 << 31))))
KILLS = int(os.environ.get("GPUD_TEST_KILLS", "200"))
DEADLINE_S = 60.0
GIB = 1 << 30
Process = subprocess.Popen[str]


def device_processes(node: str) -> list[int]:
    """Pids of the device processes of `node` that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"gpud-sim-device") and node.encode() in words:
                    found.append(int(entry.name))
    return found


def listening(node: str) -> bool:
    """Is the address of `node` taken?"""
    return f"@gpud-sim-{os.geteuid()}-{node}\n" in Path("/proc/net/unix").read_text()


def eventually(what: str, condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds, `DEADLINE_S` at most."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.002)


class Node:
    """A simulated node of this test's own."""

    def __init__(self, name: str, **environment: str) -> None:
        self.name = f"test-{os.getpid()}-{name}"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_SIM_")}
        self.env |= {"GPUD_SIM_NODE": self.name, **environment}
        self.started: list[Process] = []

    def start(self, *arguments: object, **environment: str) -> Process:
        process = subprocess.Popen(
            [CLIENT, *map(str, arguments)],
            env=self.env | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: object, expected: int = 0, **environment: str) -> list[str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=2 * DEADLINE_S)
        assert process.returncode == expected, f"{arguments}: exit {process.returncode}: {out}{err}"
        return out.splitlines()

    def info(self) -> tuple[int, int, int]:
        """Free bytes and processes of device 0, and the pid of the device process."""
        words = self.run("info")[0].split()
        return int(words[1]), int(words[3]), int(words[4])

    def is_over(self) -> bool:
        """Has the device process ended?"""
        return not device_processes(self.name)

    def end(self) -> None:
        """Nothing is left once the clients are gone."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        eventually("the device process ends with its last client", self.is_over)
        assert not listening(self.name)


@contextlib.contextmanager
def node(name: str, **environment: str) -> Iterator[Node]:
    """A node that leaves nothing behind."""
    made = Node(name, **environment)
    try:
        yield made
    finally:
        made.end()


def line(process: Process) -> str:
    """The next line of a client."""
    stream: IO[str] | None = process.stdout
    assert stream
    text = stream.readline()
    assert text, f"the client ended: {process.communicate()[1]}"
    return text.strip()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a device log, each of which must be whole."""
    return [json.loads(text) for text in path.read_text().splitlines()]


def pieces(entry: dict[str, Any]) -> list[tuple[int, int]]:
    """When a kernel was on the device."""
    return [(a, b) for a, b in entry.get("pieces", [[entry["start"], entry["end"]]])]


def check_exclusive(log: list[dict[str, Any]]) -> None:
    """No two contexts have a device at once, and a switch lies between two of them (unless the first is gone)."""
    switch = log[0]["switch_ns"]
    for device in range(log[0]["devices"]):
        spans = sorted(
            (a, b, e["context"])
            for e in log
            if e["type"] in ("kernel", "memset") and e["device"] == device
            for a, b in pieces(e)
        )
        last = {context: b for _, b, context in spans}
        for (_, b, one), (a, _, other) in itertools.pairwise(spans):
            cost = 0 if one == other or last[one] == b else switch
            assert one == other or a >= b + cost, f"contexts {one} and {other} overlap or switch for nothing: {b} {a}"


def main(functions: dict[str, Any]) -> None:
    """Each `test_` function, or those named on the command line, `--times N` times."""
    times = int(sys.argv[sys.argv.index("--times") + 1]) if "--times" in sys.argv else 1
    tests = [name for name in functions if name.startswith("test_")]
    print(f"seed {SEED}", flush=True)
    for _ in range(times):
        for name in [name for name in tests if name in sys.argv] or tests:
            start = time.monotonic()
            functions[name]()
            print(f"{name} {time.monotonic() - start:.1f} s", flush=True)
