"""Programs that hold memory, and what is read out of a device log of them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import NATIVE, policy_file, program
from bench.holders import MIB, Holder, Silent, copies, device, most_in_flight, moved, waits, whole_log
from bench.soak import left
from gpud.cli.sim.devicelog import Copy, DeviceLog, parse
from gpud.testing.node import until

ROOT = Path(__file__).parent.parent.parent
TURNS = policy_file("arbitrate exclusive { max_hold = 60s  min_hold = 0s  grace = 5s  idle_release = 20ms }")


def copy(pid: int, submit: int, end: int, way: str = "d2h", size: int = 8) -> dict[str, object]:
    return {
        "type": "copy", "device": 0, "pid": pid, "context": pid, "queue": 1, "submit": submit, "start": submit,
        "end": end, "run": end - submit, "overrun": 0, "direction": way, "bytes": size,
    }  # fmt: skip


def log_of(*lines: dict[str, object]) -> DeviceLog:
    header = {
        "type": "header",
        "profile": "t",
        "devices": 1,
        "time_scale": 2.0,
        "epoch_ns": 1000,
        "slice_ns": 1,
        "switch_ns": 0,
    }
    return parse([json.dumps(line) + "\n" for line in (header, *lines)])


def test_copies_are_of_programs_within_a_time_and_one_way() -> None:
    """Times are the machine's: wall = 1000 + model × 2."""
    log = log_of(copy(1, 10, 20), copy(1, 30, 40, "h2d", 5), copy(2, 10, 20), copy(1, 50, 60))
    found = copies(log, [1], 1000 + 2 * 10, 1000 + 2 * 50, "out")
    assert [one.submit_ns for one in found] == [10]
    assert moved(copies(log, [1, 2], 0, 10_000, "out")) == 24
    assert moved(copies(log, [1, 2], 0, 10_000, "in")) == 5


def flight(*spans: tuple[int, int]) -> int:
    found: list[Copy] = list(log_of(*(copy(1, *span) for span in spans)).copies)
    return most_in_flight(found)


def test_what_is_in_flight_at_one_time() -> None:
    assert flight() == 0
    assert flight((0, 10), (10, 20)) == 1, "one ends as the next one begins"
    assert flight((0, 10), (5, 20), (9, 30), (25, 30)) == 3
    assert flight((5, 5)) == 1


@pytest.fixture(scope="module")
def binary() -> Iterator[Path]:
    with program(NATIVE / "memory.c") as compiled:
        yield compiled


@pytest.mark.e2e
def test_a_holder_knows_its_words() -> None:
    """By kernels and by a replayed graph; after a plain copy its words are others, and it says so."""
    with device(64, 1, None) as (node, memory):
        holder = Holder(node, memory, 16, 4, 1, managed=False)
        assert holder.ask("check", "checked") == [0]
        asked, begin, first, end, released = holder.ask("turn", "turn")
        assert asked <= begin <= first <= end <= released
        holder.ask("graph", "graphed")
        holder.ask("graph", "graphed")
        assert holder.ask("check", "checked") == [0]
        assert all(ns > 0 for ns in holder.ask("plain 16", "plain"))
        (wrong,) = holder.ask("check", "checked")
        assert wrong > 1000
        with pytest.raises(Silent, match="not turned"):
            holder.ask("turn", "turned")
        log = whole_log(node)
    assert moved(copy for copy in log.copies if copy.direction == "h2d") == (16 + 16) * MIB


@pytest.mark.e2e
def test_holders_take_turns_and_leave_nothing() -> None:
    with device(64, 2, TURNS) as (node, memory):
        before = left(node)
        one, two = (Holder(node, memory, 16, 4, seed) for seed in (1, 2))
        one.ask("enter", "entered")
        two.say("enter")
        until(lambda: waits(node, two.pid), 60, "the other one waits")
        assert not waits(node, one.pid)
        one.ask("release", "released")
        assert two.hear("entered")
        two.ask("release", "released")
        assert [holder.ask("check", "checked") for holder in (one, two)] == [[0], [0]]
        there = left(node)
        assert there.device_bytes >= before.device_bytes + 32 * MIB
        assert there.descriptors > before.descriptors
        for holder in (one, two):
            holder.finish()
        until(lambda: left(node) == before, 60, "nothing of them is left", 0.2)


@pytest.mark.e2e
def test_a_holder_that_ends_is_told() -> None:
    with device(64, 1, None) as (node, memory):
        holder = Holder(node, memory, 4, 4, 1, managed=False)
        with pytest.raises(Silent, match="ended"):
            holder.ask("nonsense", "nonsense")


def test_memory_of_its_own_is_without_what_is_shared() -> None:
    # In a new process: this one has freed much, which new memory may be made of.
    text = """
import mmap, os
from bench.soak import own_bytes
before = own_bytes(os.getpid())
shared = mmap.mmap(-1, 64 << 20)
shared.write(bytes([120]) * (64 << 20))
kept = bytearray(bytes([120])) * (16 << 20)
print(own_bytes(os.getpid()) - before, len(kept))
"""
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    grown, kept = map(int, said.split())
    assert 15 * MIB < grown < 60 * MIB
    assert kept == 16 * MIB
