"""Programs that hold device memory and take turns on a simulated device, and what its log says was moved for them."""

import queue
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness import NATIVE, in_memory, own_policies, policy_file, program
from gpud.cli.sim.devicelog import Copy, DeviceLog, read_log
from gpud.native import sim_dir
from gpud.testing.lines import Lines
from gpud.testing.node import Node, until

BASE, MIB = "test-small", 1 << 20
RESERVED_MIB, CONTEXT_MIB = 32, 8
ANSWER_S = 120.0
END_S = 30.0
PROFILE = """base = "{base}"
[device]
memory_gib = {gib}
reserved_mib = {reserved}
context_mib = {context}
[timing]
h2d_gbs = 25
d2h_gbs = 25
switch_ms = 0.0
slice_ms = 1.0
[kernels]
"bump" = 0.01
"""


def swapping(host: str = "8GiB", keep: str = "0MiB", **settings: str) -> Mapping[str, str]:
    """A policy file: turns, and memory that leaves for the host by need. `settings`: of the arbiter, beside these."""
    said = {"max_hold": "60s", "min_hold": "0s", "grace": "5s", "idle_release": "1s"} | settings
    turns = "  ".join(f"{name} = {value}" for name, value in said.items())
    return policy_file(f"arbitrate exclusive {{ {turns} }}\n  swap {{ tiers = [host(max = {host})]  keep = {keep} }}")


class Silent(Exception):
    """A holder ended, or did not answer in time."""


class Holder:
    """One `native/memory`, which has filled its memory."""

    def __init__(self, node: Node, binary: Path, mib: int, piece_mib: int, seed: int, *, managed: bool = True) -> None:
        self.mib, self.rounds = mib, 0
        command = [str(word) for word in (binary, mib, piece_mib, seed)]
        options = ("--name", f"holder{seed}") if managed else ()
        self.process = node.run(command, managed=managed, options=options, stdin=subprocess.PIPE)
        self._lines = Lines(self.process, f"holder {seed}")
        self.pid = self.hear("ready")[0]

    def say(self, order: str) -> None:
        """Does not wait for the answer. Raises Silent when it has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise Silent(f"ended before {order}") from None

    def hear(self, word: str) -> list[int]:
        """The numbers of its next answer, which begins with that word."""
        try:
            line = self._lines.next(ANSWER_S)
        except queue.Empty:
            raise Silent(f"said nothing for {ANSWER_S:g} s, where it should say {word}") from None
        found, *numbers = (line or "").split() or ("",)
        if found != word:
            raise Silent(f"ended, where it should say {word}" if line is None else f"said {line!r}, not {word}")
        return [int(number) for number in numbers]

    def ask(self, order: str, word: str) -> list[int]:
        self.say(order)
        return self.hear(word)

    def finish(self) -> None:
        """It ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(END_S)


@contextmanager
def device(capacity_mib: int, contexts: int, policy: Mapping[str, str] | None) -> Iterator[tuple[Node, Path]]:
    """A node whose device has exactly so much for the memory of so many programs, and the program. Without a policy no
    daemon runs."""
    total = capacity_mib + RESERVED_MIB + contexts * CONTEXT_MIB
    with TemporaryDirectory(prefix="gpud-bench-") as name, own_policies(policy) as own:
        directory = Path(name)
        (directory / f"{BASE}.toml").write_text((sim_dir() / "profiles" / f"{BASE}.toml").read_text())
        text = PROFILE.format(base=BASE, gib=total / 1024, reserved=RESERVED_MIB, context=CONTEXT_MIB)
        (directory / "holders.toml").write_text(text)
        environment = {"GPUD_SIM_PYTHON": sys.executable} | ({"GPUD_OPTIONAL": "1"} if policy is None else {})
        profile = str(directory / "holders.toml")
        with in_memory():
            node = Node(profile=profile, policy="bench", policies=own, environment=environment)
        try:
            if policy is not None:
                node.start()
            with program(NATIVE / "memory.c") as binary:
                yield node, binary
        finally:
            node.close()


def whole_log(node: Node) -> DeviceLog:
    """Ends everything; what was on the device."""
    node.stop()
    until(lambda: read_log(node.device_log).complete, END_S, "the device log is whole")
    return read_log(node.device_log)


def copies(log: DeviceLog, pids: Iterable[int], first_ns: int, last_ns: int, way: str) -> list[Copy]:
    """Of these programs, begun within these two times of CLOCK_MONOTONIC. `way`: `out` or `in`."""
    wanted, direction = frozenset(pids), {"out": "d2h", "in": "h2d"}[way]
    first, last = log.model_ns(first_ns), log.model_ns(last_ns)
    return [
        copy
        for copy in log.copies
        if copy.pid in wanted and copy.direction == direction and first <= copy.submit_ns < last
    ]


def moved(found: Iterable[Copy]) -> int:
    """Bytes."""
    return sum(copy.size for copy in found)


def most_in_flight(found: Iterable[Copy]) -> int:
    """The most copies that were submitted and not finished at one time."""
    edges = sorted(edge for copy in found for edge in ((copy.submit_ns, 1), (max(copy.end_ns, copy.submit_ns + 1), -1)))
    most = now = 0
    for _, change in edges:
        now += change
        most = max(most, now)
    return most


def waits(node: Node, pid: int) -> bool:
    """Does the job of this process wait for its turn?"""
    with node.client() as client:
        return any(lock.state == "waits" for job in client.ps() if pid in job.pids for lock in job.lock)
