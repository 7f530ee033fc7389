"""Turns on two devices at once: all or nothing, in the order of the devices' UUIDs, and no two wait for each other."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.testing.node import Node, until
from tests.e2e.test_turns_told import PATIENT, Told, begun, dies

pytestmark = pytest.mark.e2e


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with begun(tmp_path, PATIENT, devices=2) as node:
        yield node


def in_order(node: Node) -> tuple[str, str]:
    """The two devices, as programs number them, in the order in which they are taken."""
    with node.client() as client:
        devices = client.status().devices
    first, last = sorted(range(2), key=lambda index: devices[index].uuid)
    return str(first), str(last)


def states(node: Node, program: Told) -> dict[str, str]:
    """By device."""
    with node.client() as client:
        return next(
            ({str(one.device): one.state for one in job.lock} for job in client.ps() if program.pid in job.pids), {}
        )


def waits(node: Node, program: Told, *devices: str) -> None:
    def so() -> bool:
        seen = states(node, program)
        return all(seen.get(device) == "waits" for device in devices)

    until(so, 60, f"it waits for {', '.join(devices)}")


def test_both_come_together_and_who_asked_later_comes_later(node: Node) -> None:
    first, last = in_order(node)
    one, other, third = Told(node), Told(node), Told(node)
    assert one.does(f"both {last}") == "in"
    other.says(f"both {last},{first}")
    waits(node, other, first, last)
    third.says(f"both {first}")
    waits(node, third, first)
    assert not other.is_heard(), "neither alone"
    assert not third.is_heard(), f"device {first} is kept"
    assert one.does("drop") == "out"
    assert other.hears() == "in"
    assert states(node, other) == {first: "has", last: "has"}
    assert not third.is_heard()
    assert other.does("drop") == "out"
    assert third.hears() == "in"


def test_a_device_is_used_while_somebody_waits_for_one_that_comes_before_it(node: Node) -> None:
    first, last = in_order(node)
    one, other, third = Told(node), Told(node), Told(node)
    assert one.does(f"both {first}") == "in"
    other.says(f"both {first},{last}")
    waits(node, other, first, last)
    assert third.does(f"both {last}") == "in"
    assert one.does("drop") == "out"
    one.says(f"both {last},{first}")
    waits(node, one, first, last)
    assert not other.is_heard(), "one of two is nothing"
    assert third.does("drop") == "out"
    assert other.hears() == "in"
    assert not one.is_heard()
    assert other.does("drop") == "out"
    assert one.hears() == "in"


def test_fifty_turns_in_opposite_orders_end(node: Node, tmp_path: Path) -> None:
    programs = [Told(node), Told(node)]
    for program, devices in zip(programs, ("0,1", "1,0"), strict=True):
        program.says(f"rounds {devices} 50 {tmp_path / 'inside'}")
    assert [program.hears() for program in programs] == ["done", "done"]


@pytest.mark.parametrize("how", ["killed", "timed out"])
def test_who_waits_for_both_and_comes_no_more_keeps_neither(node: Node, how: str) -> None:
    first, last = in_order(node)
    one, gone, third = Told(node), Told(node), Told(node)
    assert one.does(f"both {last}") == "in"
    if how == "killed":
        gone.says(f"both {first},{last}")
        waits(node, gone, first, last)
        third.says(f"both {first}")
        waits(node, third, first)
        os.kill(gone.pid, signal.SIGKILL)
    else:
        said = gone.does(f"both {first},{last} 0.05")
        assert said.startswith("TurnTimeout"), said
        third.says(f"both {first}")
    assert third.hears() == "in"
    assert one.does("drop") == "out"
    one.says(f"both {last},{first}")
    waits(node, one, first)
    assert third.does("drop") == "out"
    assert one.hears() == "in"


def test_both_are_kept_while_the_daemon_is_gone(node: Node) -> None:
    one, other, third = Told(node), Told(node), Told(node)
    assert one.does("both 1,0") == "in"
    other.says("both 0")
    waits(node, other, "0")
    third.says("both 0,1")
    waits(node, third, "0", "1")
    dies(node)
    assert one.does("both 0,1") == "in", "nested"
    assert one.does("drop") == "out"
    node.start()
    waits(node, other, "0")
    waits(node, third, "0", "1")
    assert set(states(node, one).values()) <= {"has", "leaves"}
    assert one.does("both 0,1") == "in"
    assert one.does("drop") == "out"
    assert not other.is_heard()
    assert not third.is_heard()
    assert one.does("drop") == "out"
    assert other.hears() == "in"
    assert not third.is_heard()
    assert other.does("drop") == "out"
    assert third.hears() == "in"
