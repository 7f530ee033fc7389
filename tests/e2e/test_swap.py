"""Jobs that do not fit together take turns on one device, and lose nothing: not by being killed in the middle, not by a
full host, not by another daemon.

The device has 256 MiB here. Programs know all bytes of their memory (programs/large.c).
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from gpud.model.views import JobView, MemoryView
from gpud.native import sim_dir
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

MIB = 1 << 20
CHUNK = 64 * MIB
DEVICE, CONTEXT = 256 * MIB, 8 * MIB
WITHIN = 60
"""Seconds. Nothing here is about time; this is for a machine that does much else."""
TURNS = """gpol 1
policy "p" {{
  class job {{ match any }}
  arbitrate exclusive {{ max_hold = 400ms  grace = 30s  idle_release = 50ms  min_hold = 0s }}
  swap {{ tiers = [host(max = {host})]  keep = {keep} }}
  {more}
}}
"""
_T = TypeVar("_T")


def profile(directory: Path, gbs: str = "20") -> str:
    """A profile of 256 MiB."""
    text = (sim_dir() / "profiles" / "test-small.toml").read_text()
    for old, new in (
        ("reserved_mib = 16\n", "reserved_mib = 768\n"),
        ("h2d_gbs = 1\n", f"h2d_gbs = {gbs}\n"),
        ("d2h_gbs = 1\n", f"d2h_gbs = {gbs}\n"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = directory / "swap.toml"
    path.write_text(text)
    return str(path)


class Turns(Node):
    """A node whose only policy is TURNS."""

    def __init__(
        self, directory: Path, *, host: str = "4GiB", keep: str = "0MiB", gbs: str = "20", more: str = ""
    ) -> None:
        self.policies = directory / "policies"
        self.policies.mkdir(exist_ok=True)
        (self.policies / "p.gpol").write_text(TURNS.format(host=host, keep=keep, more=more))
        super().__init__(profile=profile(directory, gbs), policy="p", policies=self.policies)

    def job(self, name: str) -> JobView | None:
        with self.client() as client:
            return next((job for job in client.ps() if job.labels.get("c") == name), None)

    def memory(self, name: str) -> MemoryView:
        job = self.job(name)
        assert job is not None
        assert job.memory
        return job.memory[0]

    def pid(self, name: str) -> int:
        job = self.job(name)
        assert job is not None
        return job.pids[0]

    def moves(self, out: str, into: str) -> bool:
        """Some of the first one's memory has left for the second one, and not all that must: it moves just now."""
        with self.client() as client:
            jobs = {job.labels.get("c"): job for job in client.ps()}
        one, other = jobs.get(out), jobs.get(into)
        if one is None or other is None or not (one.memory and other.memory and other.lock):
            return False
        held = [job.memory[0].resident + job.memory[0].host + job.memory[0].lazy for job in (one, other)]
        deficit = sum(held) + 2 * CONTEXT - DEVICE
        return 0 < one.memory[0].host < deficit and other.lock[0].state == "comes in"

    def host_files(self) -> int:
        """Descriptors of host slots that the daemon holds."""
        assert self.daemon is not None
        directory, found = Path(f"/proc/{self.daemon.pid}/fd"), 0
        for fd in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError):  # closed just now
                found += "gpud-host" in os.readlink(directory / fd)
        return found

    def used(self) -> int:
        """Of the device, by the driver's account."""
        with self.client() as client:
            used = client.status().devices[0].used_bytes
        assert used is not None
        return used


class Large:
    """One program, told what to do line by line."""

    within = WITHIN

    def __init__(self, node: Turns, command: Sequence[str], name: str, mib: int, *more: str) -> None:
        self.node, self.name = node, name
        self.out, self.errors = node.directory / f"{name}.out", node.directory / f"{name}.err"
        with self.out.open("w") as out, self.errors.open("w") as errors:
            self.process: subprocess.Popen[str] = node.run(
                [*command, str(mib), str(sum(name.encode())), *more],
                labels={"c": name},
                stdin=subprocess.DEVNULL if more else subprocess.PIPE,
                stdout=out,
                stderr=errors,
            )
        self.told = 0

    def lines(self) -> list[str]:
        return self.out.read_text().splitlines()

    def wait(self, condition: Callable[[], _T], what: str) -> _T:
        def found() -> _T:
            answer = condition()
            if not answer and self.process.poll() not in (None, 0):
                raise AssertionError(f"{self.name} ended: {self.errors.read_text()}")
            return answer

        return until(found, WITHIN, f"{self.name} {what}")

    def filled(self) -> None:
        self.wait(lambda: "filled" in self.lines(), "has its memory filled")

    def ask(self, what: str) -> None:
        """Tells it, and does not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        self.told += 1

    def answered(self) -> list[str]:
        """Once all it was told is done."""
        self.wait(lambda: len(self.lines()) > self.told, f"does what it was told ({self.told})")
        return self.lines()[1:]

    def do(self, what: str) -> None:
        self.ask(what)
        assert self.answered()[-1] == "ok"

    def right(self) -> None:
        """It ends, and has found every byte as it should be."""
        assert self.process.wait(self.within) == 0, self.errors.read_text()
        assert self.lines()[-1] == "right"

    def ends(self) -> None:
        """It ends, when it is told nothing more."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(self.within) == 0, self.errors.read_text()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path) as node:
        yield node


@pytest.mark.parametrize(("count", "mib"), [(2, 190), (3, 150)])
def test_programs_that_do_not_fit_together_take_turns_and_lose_nothing(
    node: Turns, large: list[str], count: int, mib: int
) -> None:
    before = node.used()
    programs = [Large(node, large, f"p{number}", mib, "4", "1000") for number in range(count)]
    for program in programs:
        program.right()
    until(lambda: node.used() <= before, WITHIN, "all of the device's memory is free again")
    assert node.host_files() == 0


def test_only_what_lacks_moves(node: Turns, large: list[str]) -> None:
    one = Large(node, large, "one", 120)
    one.filled()
    two = Large(node, large, "two", 80)
    two.filled()
    for _ in range(3):
        one.do("r")
        two.do("r")
    assert (node.memory("one").host, node.memory("two").host) == (0, 0), "both fit: nothing moves"
    three = Large(node, large, "three", 90)
    three.filled()
    first, second = node.memory("one"), node.memory("two")
    all_of_it = sum(node.memory(name).resident + node.memory(name).host for name in ("one", "two", "three"))
    deficit = all_of_it + 3 * CONTEXT - DEVICE
    assert 0 < deficit <= first.host < deficit + CHUNK, "what lacked, in whole chunks"
    assert second.host == 0, "the one that has used the device last keeps its memory"
    assert node.memory("three").host == 0
    for program in (one, two, three):
        program.do("c")


def test_free_while_out_and_allocation_while_another_one_has_the_device(node: Turns, large: list[str]) -> None:
    one = Large(node, large, "one", 180)
    one.filled()
    two = Large(node, large, "two", 180)
    two.filled()
    until(lambda: node.memory("one").host > 0, WITHIN, "some of it is out")
    out = node.memory("one")
    one.do("f")
    now = node.memory("one")
    assert now.host + now.resident < out.host + out.resident
    two.do("c")
    two.do("f")
    one.do("a 60")
    two.do("a 60")
    for program in (one, two, one, two):
        program.do("r")
        program.do("c")


def test_who_has_the_device_allocates_what_others_fill(node: Turns, large: list[str]) -> None:
    one = Large(node, large, "one", 150)
    one.filled()
    two = Large(node, large, "two", 40)
    two.filled()
    assert node.memory("one").host == 0
    two.do("a 100")
    assert node.memory("one").host > 0, "it has made room"
    one.do("c")
    two.do("c")


def test_a_job_larger_than_the_device_is_told_so_and_disturbs_nobody(node: Turns, large: list[str]) -> None:
    one = Large(node, large, "one", 150)
    one.filled()
    huge = Large(node, large, "huge", 300, "1")
    assert huge.process.wait(WITHIN) == 3
    assert "answered 2 after" in huge.errors.read_text()
    one.do("r")
    one.do("c")
    assert node.memory("one").host == 0
    one.do("a 60")
    one.ask("a 60")
    assert one.answered()[-1] == "refused"
    one.do("c")


def test_a_full_host_tier_leaves_everything_where_it_is(tmp_path: Path, large: list[str]) -> None:
    with Turns(tmp_path, host="4MiB") as node:
        one = Large(node, large, "one", 180)
        one.filled()
        two = Large(node, large, "two", 180)

        def says_why() -> bool:
            job = node.job("two")
            return job is not None and bool(job.lock) and "find no room on the device" in job.lock[0].text

        until(says_why, WITHIN, "it is said why")
        for _ in range(3):
            one.do("r")
        one.do("c")
        assert node.memory("one").host <= 4 * MIB
        assert two.lines() == []
        one.ends()
        two.filled()
        two.do("c")


def test_who_is_killed_on_the_way_out_costs_nobody_else_anything(tmp_path: Path, large: list[str]) -> None:
    with Turns(tmp_path, gbs="0.1", host="400MiB") as node:
        one = Large(node, large, "one", 200)
        one.filled()
        two = Large(node, large, "two", 200)
        until(lambda: node.moves("one", "two"), WITHIN, "it is on the way out", step=0.001)
        os.kill(node.pid("one"), signal.SIGKILL)
        assert two.lines() == []
        two.filled()
        assert node.memory("two").resident >= 200 * MIB
        again = Large(node, large, "again", 200)  # the host tier has room for two: what the dead one had is free
        again.filled()
        two.do("c")
        again.do("c")
        assert node.host_files() == 0


def test_who_is_killed_on_the_way_in_costs_nobody_else_anything(tmp_path: Path, large: list[str]) -> None:
    with Turns(tmp_path, gbs="0.05") as node:
        one = Large(node, large, "one", 150)
        one.filled()
        two = Large(node, large, "two", 150)
        two.filled()
        out = node.memory("one").host
        assert out > 0
        one.ask("c")

        def comes_in() -> bool:
            job = node.job("one")
            return job is not None and job.lock[0].state == "comes in" and job.memory[0].host < out

        until(comes_in, WITHIN, "it comes in", step=0.001)
        os.kill(node.pid("one"), signal.SIGKILL)
        two.do("c")
        until(lambda: node.job("one") is None, WITHIN, "it is forgotten")
        two.do("r")
        two.do("c")
        assert node.memory("two").host == 0


def test_a_daemon_that_is_killed_while_memory_is_out_or_on_its_way(tmp_path: Path, large: list[str]) -> None:
    with Turns(tmp_path, gbs="0.1", host="440MiB") as node:
        one = Large(node, large, "one", 200)
        one.filled()
        two = Large(node, large, "two", 200)
        two.filled()
        for waits in (False, True):
            one.ask("c")
            if waits:
                until(lambda: node.moves("two", "one"), WITHIN, "it is on the way out", step=0.001)
            assert node.daemon is not None
            node.daemon.kill()
            node.daemon.wait()
            node.start()
            one.answered()
            two.do("r")
            two.do("c")
        assert all(line == "ok" for line in one.answered())
