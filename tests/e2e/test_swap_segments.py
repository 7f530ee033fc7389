"""Programs whose memory is of handles of their own (as PyTorch's expandable segments) take turns as others do.

The device has 256 MiB; the segments of programs/segments.c have 20.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.testing.node import until
from tests.e2e.test_swap import CONTEXT, DEVICE, WITHIN, Large, Turns

pytestmark = pytest.mark.e2e

MIB = 1 << 20
SEGMENT = 20 * MIB


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path) as node:
        yield node


@pytest.mark.parametrize("mib", [160, 200])
def test_they_take_turns_and_lose_nothing(node: Turns, segments: list[str], mib: int) -> None:
    """Each has 60 to 80 % of the device, both at once; every fourth round moves a segment to other addresses."""
    before = node.used()
    programs = [Large(node, segments, f"p{number}", mib) for number in range(2)]
    for program in programs:
        program.filled()
    assert sum(node.memory(program.name).host for program in programs) > 0
    for _ in range(9):
        for program in programs:
            program.ask("r")  # and the other one does not wait for it
    for program in programs:
        program.ask("c")
        assert set(program.answered()) == {"ok"}
        program.ends()
    until(lambda: node.used() <= before, WITHIN, "all of the device's memory is free again")
    assert node.host_files() == 0


def test_only_what_lacks_moves_and_nothing_is_pinned(node: Turns, segments: list[str]) -> None:
    one = Large(node, segments, "one", 160)
    one.filled()
    memory = node.memory("one")
    assert (memory.resident, memory.pinned, memory.pinned_why) == (160 * MIB, 0, ())
    two = Large(node, segments, "two", 180)
    two.filled()
    deficit = 340 * MIB + 2 * CONTEXT - DEVICE
    assert deficit <= node.memory("one").host < deficit + SEGMENT, "what lacked, in whole segments"
    assert node.memory("two").host == 0
    for program in (one, two, one):
        program.do("r")
        program.do("c")


def test_a_handle_larger_than_what_lacks_leaves_as_a_whole(node: Turns, segments: list[str]) -> None:
    """Host memory is asked for all of it."""
    one = Large(node, ["env", "SEGMENT_MIB=190", *segments], "one", 190)
    one.filled()
    two = Large(node, ["env", "SEGMENT_MIB=90", *segments], "two", 90)
    two.filled()
    assert node.memory("one").host == 190 * MIB
    for program in (one, two, one):
        program.do("r")
        program.do("c")


def test_what_is_done_to_it_while_it_is_away(node: Turns, segments: list[str]) -> None:
    """Moved to other addresses, added to, given back: without the device, and right at the next turn."""
    one = Large(node, segments, "one", 180)
    one.filled()
    two = Large(node, segments, "two", 180)
    two.filled()
    until(lambda: node.memory("one").host > 0, WITHIN, "some of it is out")
    one.do("m")
    assert node.memory("one").host > 0, "which needs no device"
    two.do("c")
    one.do("c")
    two.do("r")
    one.do("s")
    one.do("r")
    two.do("c")
    one.do("g")
    one.do("c")


def test_what_is_exported_stays_from_then_on(node: Turns, segments: list[str]) -> None:
    one = Large(node, segments, "one", 160)
    one.filled()
    two = Large(node, segments, "two", 160)
    two.filled()
    assert node.memory("one").pinned == 0
    one.do("x")  # waits for its turn: it is brought in first
    memory = node.memory("one")
    assert (memory.pinned, memory.pinned_why) == (SEGMENT, ("given to others by a handle",))
    two.do("c")
    assert node.memory("one").pinned == SEGMENT
    one.do("c")
    one.do("s")  # the first one is among them
    until(lambda: node.memory("one").pinned == 0, WITHIN, "it is pinned no more")


def test_one_is_killed_while_its_memory_is_on_its_way(tmp_path: Path, segments: list[str]) -> None:
    with Turns(tmp_path, gbs="0.1") as node:
        before = node.used()
        one = Large(node, segments, "one", 200)
        one.filled()
        two = Large(node, segments, "two", 200)
        until(lambda: node.moves("one", "two"), WITHIN, "it is on the way out", step=0.001)
        os.kill(node.pid("one"), signal.SIGKILL)
        two.filled()
        two.do("c")
        os.kill(node.pid("two"), signal.SIGKILL)
        until(lambda: node.used() <= before, WITHIN, "all of the device's memory is free again")
        until(lambda: node.host_files() == 0, WITHIN, "and the host's")
