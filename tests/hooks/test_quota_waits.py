"""`over_memory = wait` on real programs: an allocation beyond the limit waits until there is room, as long as it may,
and no longer than somebody is there to answer."""

import re
from pathlib import Path

import pytest

from gpud.testing.command import hold_of
from gpud.testing.node import Node, until

from .allocators import CONTEXT, MIB, OUT_OF_MEMORY, UNIT, Process, job, limited, memory, truth

pytestmark = pytest.mark.e2e

SEES_S = 30.0
QUIET_S = 0.3
ROOM = (64 * MIB - 2 * CONTEXT) // UNIT


def node_with(directory: Path, over: str, limit: str = "64MiB") -> Node:
    return Node(profile="test-small", policy="memory", policies=limited(directory / "p", limit, over))


def full(node: Node, one: Process) -> int:
    """The first of two processes has all there is; the number of its allocation."""
    until(lambda: memory(node).overhead == 2 * CONTEXT, SEES_S, "the contexts are measured")
    result, number = one.ask("alloc", "linear", ROOM)
    assert result == 0
    return number


def waits(node: Node, other: Process, kind: str = "linear") -> None:
    """The second asks for four units, and the daemon has it in line."""
    other.say("alloc", kind, 4)
    until(lambda: memory(node).waiting == 1, SEES_S, "it waits")
    assert memory(node).waiting_bytes == 4 * UNIT


@pytest.mark.parametrize("kind", ["linear", "ordered", "handle", "array"])
def test_until_another_one_frees(tmp_path: Path, kind: str) -> None:
    with node_with(tmp_path, "wait(max = 10min)") as node, job(node, 2) as (one, other):
        number = full(node, one)
        waits(node, other, kind)
        hold = hold_of(node.environment, 1)
        assert (hold["code"], hold["text"].partition(": ")[2]) == (
            "memory", "an allocation waits for room below its limit",
        )  # fmt: skip
        assert re.search(r"\.gpol:\d+$", hold["by"])
        assert other.quietly(QUIET_S)
        assert one.ask("free", number) == [0]
        assert other.hear()[0] == 0
        assert hold_of(node.environment, 1) is None
        assert truth(one)[other.pid] == 4 * UNIT + CONTEXT
        assert memory(node).reserved == 4 * UNIT
        until(lambda: memory(node).waiting == 0, SEES_S, "nobody waits any more")


def test_until_the_limit_is_raised(tmp_path: Path) -> None:
    with node_with(tmp_path, "wait(max = 10min)") as node, job(node, 2) as (one, other):
        full(node, one)
        waits(node, other)
        limited(tmp_path / "p", "72MiB", "wait(max = 10min)")
        with node.client() as client:
            client.reload()
        assert other.hear()[0] == 0
        assert sum(truth(one).values()) == 72 * MIB


def test_until_the_other_one_is_killed(tmp_path: Path) -> None:
    with node_with(tmp_path, "wait(max = 10min)") as node, job(node, 2) as (one, other):
        full(node, one)
        waits(node, other)
        one.kill()
        assert other.hear()[0] == 0
        until(lambda: memory(node).reserved == 4 * UNIT, SEES_S, "what the killed one had is gone")


def test_no_longer_than_it_may(tmp_path: Path) -> None:
    with node_with(tmp_path, "wait(max = 400ms)") as node, job(node, 2) as (one, other):
        full(node, one)
        other.say("alloc", "linear", 4)
        assert other.quietly(QUIET_S)
        assert other.hear() == [OUT_OF_MEMORY, 0]
        assert memory(node).waiting == 0
        assert memory(node).reserved == ROOM * UNIT


def test_what_can_never_be_had_is_refused_at_once(tmp_path: Path) -> None:
    with node_with(tmp_path, "wait(max = 10min)") as node, job(node, 2) as (_, other):
        assert other.ask("alloc", "linear", 64 * MIB // UNIT + 1) == [OUT_OF_MEMORY, 0]


def test_a_process_that_is_killed_waiting_leaves_the_line(tmp_path: Path) -> None:
    with node_with(tmp_path, "wait(max = 10min)") as node, job(node, 2) as (one, other):
        full(node, one)
        waits(node, other)
        other.kill()
        until(lambda: memory(node).waiting == 0, SEES_S, "it is out of the line")
        assert memory(node).reserved == ROOM * UNIT


def test_without_a_daemon_it_does_not_wait_for_ever(tmp_path: Path) -> None:
    with node_with(tmp_path, "wait(max = 10min)") as node, job(node, 2) as (one, other):
        full(node, one)
        waits(node, other)
        assert node.daemon is not None
        node.daemon.kill()
        node.daemon.wait()
        assert other.hear() == [OUT_OF_MEMORY, 0]
        assert truth(one)[other.pid] == CONTEXT


def test_the_next_daemon_is_asked_again(tmp_path: Path) -> None:
    with node_with(tmp_path, "wait(max = 10min)") as node, job(node, 2) as (one, other):
        number = full(node, one)
        waits(node, other)
        assert node.daemon is not None
        node.daemon.kill()
        node.daemon.wait()
        node.start()
        until(lambda: memory(node).waiting == 1, SEES_S, "it waits in the new daemon's line")
        assert one.ask("free", number) == [0]
        assert other.hear()[0] == 0
