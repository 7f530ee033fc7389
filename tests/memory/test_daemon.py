"""Memory through a whole daemon: limits in the pages, the line of allocations, host slots by descriptor."""

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpud.hooks import wire
from gpud.memory.store.host import SEALS
from gpud.model.units import SECOND
from gpud.testing.fake_hook import FakeHook
from tests.daemon.conftest import GIB, UUID, Daemon, Program, until

MIB = 1 << 20
QUOTA = """gpol 1
policy "quota" {
  class all { match any  limit { memory = 256MiB  over_memory = wait(max = 30s) } }
}
apply "quota" to gpu *
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "quota.gpol").write_text(QUOTA)
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def daemon(directory: Path) -> Iterator[Daemon]:
    found = Daemon(directory / "run", policy=None, policies=directory / "policies")
    found.start()
    try:
        yield found
    finally:
        found.kill()


def attach(daemon: Daemon) -> FakeHook:
    hook = FakeHook(daemon.config.hook_socket)
    hook.attach()
    hook.report_devices([(UUID, GIB)])
    hook.pump_until(lambda: hook.slots is not None)
    return hook


def test_an_allocation_waits_until_there_is_room(daemon: Daemon) -> None:
    with attach(daemon) as hook:
        words = hook.words(0)
        assert (words["memory_limit"], words["memory_flags"]) == (256 * MIB, 2)
        hook.set_presence(0, reserved_bytes=200 * MIB)
        hook.send(wire.encode(wire.AllocAsked(0, 0, 7, 100 * MIB, 20 * SECOND)))
        with daemon.client() as client:
            deadline = time.monotonic() + 10
            while (memory := client.ps()[0].memory[0]).waiting == 0:
                assert time.monotonic() < deadline
        assert (memory.waiting_bytes, memory.reserved, memory.limit) == (100 * MIB, 200 * MIB, 256 * MIB)
        assert memory.place.endswith("quota.gpol:3")
        assert not hook.pump()
        hook.set_presence(0, reserved_bytes=150 * MIB)
        hook.pump_until(lambda: bool(hook.alloc_replies))
        assert hook.alloc_replies == [wire.AllocReply(0, 0, 7, 0, 0)]
        hook.send(wire.encode(wire.AllocAsked(0, 0, 8, 300 * MIB, 0)))
        hook.pump_until(lambda: len(hook.alloc_replies) == 2)
        assert hook.alloc_replies[1][:3] == (0, 1, 8)


def test_a_lowered_limit_reaches_the_page_and_is_shown(daemon: Daemon, directory: Path) -> None:
    with attach(daemon) as hook:
        hook.set_presence(0, reserved_bytes=200 * MIB)
        (directory / "policies" / "quota.gpol").write_text(QUOTA.replace("256MiB", "100MiB"))
        with daemon.client() as client:
            client.reload()
            memory = client.ps()[0].memory[0]
        assert hook.words(0)["memory_limit"] == 100 * MIB
        assert (memory.over, memory.limit) == (True, 100 * MIB)


def test_host_slots_without_a_swap_block_are_refused_and_the_client_goes_on(daemon: Daemon) -> None:
    with attach(daemon) as hook:
        hook.send(wire.encode(wire.SlotsAsked(0, 0, 1, MIB, 0)))
        hook.pump_until(lambda: bool(hook.host_slots))
        assert hook.host_slots == [(wire.Slots(0, 4, 1, 0, 0), None)]
        assert hook.detached is None


SWAPS = """gpol 1
policy "swaps" {
  class all { match any }
  arbitrate exclusive { max_hold = 50ms  min_hold = 0s  idle_release = 10ms }
  swap { tiers = [host(max = 900MiB)] }
}
apply "swaps" to gpu *
"""


@pytest.fixture
def swaps(directory: Path) -> Iterator[Daemon]:
    (directory / "policies" / "quota.gpol").write_text(SWAPS)
    found = Daemon(directory / "run", policy=None, policies=directory / "policies")
    found.start()
    try:
        yield found
    finally:
        found.kill()


def granted(hook: FakeHook) -> wire.LockGranted:
    hook.pump_until(lambda: any(isinstance(said, wire.LockGranted) for said in hook.locks))
    return next(said for said in hook.locks if isinstance(said, wire.LockGranted))


def comes_in(hook: FakeHook, count: int) -> int:
    """Asks for the device, and brings so much in. Returns the epoch."""
    hook.set_memory(0, lazy=count)
    hook.ask_lock(1, 1, count=count)
    said = granted(hook)
    assert said.bytes == count, "what may come in"
    hook.set_memory(0, resident=count)
    hook.take_in(1, said.epoch, count)
    return said.epoch


def leaves(hook: FakeHook, epoch: int) -> None:
    """Gives the device back, as it was asked."""
    hook.pump_until(lambda: any(isinstance(said, wire.LockRevoked) for said in hook.locks))
    hook.give_back(1, epoch)


@pytest.fixture
def other(swaps: Daemon) -> Iterator[Program]:
    """A client of another job."""
    program = Program(swaps.config)
    program.attach()
    try:
        yield program
    finally:
        program.kill()


def heard(program: Program, what: str) -> list[Any]:
    """What it has been told of the kind, once there is anything."""

    def found() -> list[Any]:
        program.do("pump_all")
        return list(program.do("attribute", what))

    return until(found, what)


def test_memory_goes_out_and_comes_in_as_it_is_said(swaps: Daemon, other: Program) -> None:
    with attach(swaps) as one:
        assert one.words(0)["memory_flags"] & 1
        assert one.words(0)["memory_limit"] == GIB
        epoch = comes_in(one, 700 * MIB)
        other.do("set_memory", 0, {"lazy": 600 * MIB})
        other.do("ask_lock", 1, 1)
        leaves(one, epoch)
        ((_, _, epoch, _, count),) = heard(other, "locks")
        assert count == (1024 - 700) * MIB, "what there is room for"
        one.pump_until(lambda: bool(one.swap_outs))
        (asked,) = one.swap_outs
        assert (asked.slot, asked.bytes) == (0, (700 + 600 - 1024) * MIB), "what lacks, and no more"
        one.ask_slots(0, 5, asked.bytes)
        one.pump_until(lambda: bool(one.host_slots))
        ((slots, fd),) = one.host_slots
        assert fd is not None
        assert (slots.code, slots.request, slots.bytes) == (0, 5, asked.bytes)
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS == SEALS
        assert os.fstat(fd).st_size == asked.bytes
        os.close(fd)
        one.set_memory(0, resident=700 * MIB - asked.bytes, host=asked.bytes)
        one.swapped(asked, asked.bytes)
        until(lambda: [*heard(other, "locks")[-1]][2:5:2] == [epoch, 600 * MIB], "there is room for all of it")
        other.do("set_memory", 0, {"resident": 600 * MIB})
        other.do("take_in", 1, epoch, 600 * MIB)
        with swaps.client() as client:
            first = next(job.memory[0] for job in client.ps() if job.memory[0].host)
        assert (first.host, first.resident) == (asked.bytes, 700 * MIB - asked.bytes)
        assert len(one.swap_outs) == 1


def test_who_dies_while_its_memory_goes_out_gives_host_memory_back(swaps: Daemon, other: Program) -> None:
    with attach(swaps) as one:
        other.do("set_memory", 0, {"lazy": 800 * MIB})
        other.do("ask_lock", 1, 1)
        epoch = heard(other, "locks")[0][2]
        other.do("set_memory", 0, {"resident": 800 * MIB})
        other.do("take_in", 1, epoch, 800 * MIB)
        one.set_memory(0, lazy=800 * MIB)
        one.ask_lock(1, 1)
        until(lambda: len(heard(other, "locks")) == 2, "it is asked for the device")
        other.do("give_back", 1, epoch)
        assert heard(other, "swap_outs")[0][3] == 576 * MIB
        other.do("ask_slots", 0, 5, 600 * MIB)
        assert heard(other, "host_slots")[0][0][1] == 0
        one.ask_slots(0, 6, 600 * MIB)
        one.pump_until(lambda: bool(one.host_slots))
        assert one.host_slots[0][0].code == 4, "the host tier has 900 MiB"
        other.kill()

        def is_alone() -> bool:
            with swaps.client() as client:
                return len(client.ps()) == 1

        until(is_alone, "it is gone")
        one.ask_slots(0, 7, 600 * MIB)
        one.pump_until(lambda: len(one.host_slots) == 2)
        slots, fd = one.host_slots[1]
        assert slots.code == 0
        assert fd is not None
        os.close(fd)
        one.set_memory(0, resident=800 * MIB)
        one.take_in(1, granted(one).epoch, 800 * MIB)
        one.pump()
        assert one.detached is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (wire.Swapped(0, 1, 99, MIB, 0), "of a request that nobody made"),
        (wire.Swapped(0, 2, 1, 2**63, 0), "of more than there is"),
        (wire.SlotsAsked(0, 0, 1, 0, 0), "for no bytes"),
        (wire.SlotsAsked(0, 0, 1, 2**63, 0), "for more than there is"),
    ],
)
def test_nonsense_about_swaps_changes_nothing(swaps: Daemon, message: wire.Message, why: str) -> None:
    with attach(swaps) as hook:
        hook.send(wire.encode(message))
        epoch = comes_in(hook, 100 * MIB)
        assert epoch, why
        assert all(slots.code == 4 for slots, _ in hook.host_slots)
