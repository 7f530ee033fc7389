"""A program is killed at each driver call of a swap: who shares the device with it loses nothing, and nothing of it
stays behind.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.testing.node import until
from tests.e2e.test_swap import CONTEXT, MIB, WITHIN, Large, Turns

RESERVED = 768 * MIB
"""Of the profile."""
pytestmark = pytest.mark.e2e

SIZE_MIB = 150
OUT = ("cuMemcpyDtoHAsync", "cuMemUnmap", "cuMemRelease")
IN = ("cuMemCreate", "cuMemMap", "cuMemSetAccess")
FILLS = 48
"""About so many calls of each of IN fill the memory once. What finds no room is tried again, in smaller pieces, so it
differs: a kill may still meet the filling."""
SEGMENTS = 7
"""Of programs/segments.c: so many of each of IN, at most."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    node = Turns(tmp_path_factory.mktemp("steps"))
    policy = node.policies / "p.gpol"
    policy.write_text(policy.read_text().replace("400ms", "100ms").replace("50ms", "20ms"))
    with node:
        yield node


@pytest.fixture(scope="module")
def survivor(node: Turns, large: list[str]) -> Large:
    one = Large(node, large, "survivor", SIZE_MIB)
    one.filled()
    return one


def owners(node: Turns) -> int:
    """How many clients the daemon holds host files of."""
    assert node.daemon is not None
    directory, found = Path(f"/proc/{node.daemon.pid}/fd"), set[str]()
    for fd in os.listdir(directory):
        with contextlib.suppress(FileNotFoundError):  # closed just now
            found.add(os.readlink(directory / fd))
    return sum("gpud-host" in name for name in found)


def kill_at(node: Turns, survivor: Large, command: list[str], call: str, number: int) -> None:
    fault = f"GPUD_SIM_FAULTS={call}: kill at {number}"
    killed = Large(node, ["env", fault, *command], "killed", SIZE_MIB, "1000", "1000")
    until(lambda: "filled" in killed.lines() or killed.process.poll() is not None, WITHIN, "it has its memory")

    def is_killed() -> bool:
        if killed.process.poll() is None:
            survivor.do("r")
        return killed.process.poll() is not None

    until(is_killed, WITHIN, "it is killed")
    assert f"kill at use {number} of {call}" in killed.errors.read_text()
    until(lambda: node.job("killed") is None, WITHIN, "it is forgotten")
    survivor.do("c")
    alone = node.memory("survivor")
    assert (alone.host, alone.lazy) == (0, 0)
    until(lambda: node.used() == alone.resident + CONTEXT + RESERVED, WITHIN, "the device's memory is back")
    assert owners(node) <= 1, "of host files: the survivor, at most"


@pytest.mark.parametrize(
    ("call", "number"),
    [*((call, 2) for call in (*OUT, "cuMemcpyHtoDAsync")), *((call, FILLS + 2) for call in IN)],
)
def test_a_kill_at_each_step(node: Turns, survivor: Large, large: list[str], call: str, number: int) -> None:
    kill_at(node, survivor, large, call, number)


@pytest.mark.parametrize(
    ("call", "number"),
    [*((call, 2) for call in (*OUT, "cuMemcpyHtoDAsync")), *((call, SEGMENTS + 2) for call in IN)],
)
def test_a_kill_at_each_step_of_memory_by_handles(
    node: Turns, survivor: Large, segments: list[str], call: str, number: int
) -> None:
    """What it has mapped itself is mapped anew, and where it is copied."""
    kill_at(node, survivor, segments, call, number)
