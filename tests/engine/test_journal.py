"""What was: seconds and decisions, kept within bounds."""

import random

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.engine.decisions import Made
from gpud.engine.journal import BLOCK_NS, LONGEST_NS, MOST_DECISIONS, Journal, may_read
from gpud.engine.journal_blocks import RAW_BYTES, shifted
from gpud.engine.live import Rows
from gpud.model.ids import Slot
from gpud.model.live_views import SwapRow
from gpud.model.units import SECOND
from tests.engine.live_world import POLICIES, WALL, Watched, act


def equal(one: Rows, other: Rows) -> bool:
    fields = ("mono_ns", "offset", "node", "classes")
    same = all(getattr(one, name) == getattr(other, name) for name in fields)
    return same and dict(one.jobs) == dict(other.jobs) and dict(one.devices) == dict(other.devices)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(POLICIES),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40), st.integers(1, 30)), min_size=1, max_size=30),
)
def test_the_past_is_what_was_shown_then(policy: object, actions: list[tuple[int, int, int]]) -> None:
    world = Watched(policy)  # type: ignore[arg-type]
    journal = Journal(world.now)
    shown: list[Rows] = []
    for action, number, seconds in actions:
        act(world, action, number)
        world.now += seconds * SECOND  # several blocks
        rows = world.look()
        journal.keep(rows)
        shown.append(rows)
    for rows, after in zip(shown, [*shown[1:], None], strict=True):
        for at in (rows.mono_ns, (after.mono_ns if after else world.now + SECOND) - 1):
            piece = journal.past(at)
            assert piece is not None
            assert equal(piece.read(), rows)
    assert journal.past(shown[0].mono_ns - 1) is None


def busy(jobs: int, seed: int = 1) -> tuple[Watched, random.Random]:
    world, chance = Watched(), random.Random(seed)
    for number in range(jobs):
        world.launch(name=f"{number}-{chance.randbytes(30).hex()}", command=chance.randbytes(90).hex())
    return world, chance


def test_it_keeps_within_its_bytes() -> None:
    """Whatever jobs call themselves: the oldest goes, what is left is whole."""
    world, chance = busy(20)
    journal = Journal(world.now, most_bytes=40_000)
    for minute in range(30):
        for _ in range(3):
            world.launch(name=chance.randbytes(30).hex(), command=chance.randbytes(90).hex())
        world.now += BLOCK_NS
        journal.keep(world.look())
        assert journal.bytes < 40_000 or minute == 0
    first = journal.first_ns
    assert first is not None
    assert first > 100 * SECOND + BLOCK_NS
    piece = journal.past(first)
    assert piece is not None
    assert len(piece.read().jobs) > 20
    assert journal.past(first - 1) is None


def test_it_keeps_an_hour() -> None:
    world, _ = busy(1)
    journal = Journal(world.now)
    for _ in range(2 * 3600):
        world.now += SECOND
        journal.keep(world.look())
    first = journal.first_ns
    assert first is not None
    assert LONGEST_NS - SECOND <= world.now - first <= LONGEST_NS + BLOCK_NS
    assert journal.past(world.now - LONGEST_NS + SECOND) is not None
    assert journal.bytes < 100_000


def test_a_block_that_grows_is_closed_early() -> None:
    world, chance = busy(400)
    journal = Journal(world.now)
    rows = world.look()
    while len(journal._blocks) < 2:
        world.now += SECOND // 100
        jobs = {job: evolve(row, command=chance.randbytes(90).hex()) for job, row in rows.jobs.items()}
        rows = evolve(rows, mono_ns=world.now, jobs=jobs)
        journal.keep(rows)
    assert journal._blocks[0].raw < RAW_BYTES + 400 * 1000
    assert world.now - 100 * SECOND < BLOCK_NS
    piece = journal.past(world.now)
    assert piece is not None
    assert equal(piece.read(), rows)


def test_a_clock_that_is_set_moves_all_of_the_past() -> None:
    world = Watched()
    world.low()
    journal = Journal(world.now)
    rows = world.look()
    rows = evolve(rows, jobs={1: evolve(rows.jobs[1], swap=swap(WALL + 5))})
    journal.keep(rows)
    world.now += SECOND
    piece = journal.past(world.now)
    assert piece is not None
    moved = shifted(piece.read(), WALL - 3600 * SECOND)
    assert moved.at_ns == rows.at_ns - 3600 * SECOND
    assert moved.jobs[1].began_at_ns == rows.jobs[1].began_at_ns - 3600 * SECOND
    assert moved.jobs[1].swap == swap(WALL + 5 - 3600 * SECOND)
    assert equal(shifted(moved, WALL), rows)


def swap(began_at_ns: int) -> SwapRow:
    return SwapRow(device=0, direction="out", done_bytes=1, total_bytes=2, began_at_ns=began_at_ns)


# -------------------------------------------------------------------------------------------------------- decisions


def made(mono_ns: int, kind: str = "note", job: int | None = 1, uid: int | None = 1000, slot: int | None = 0) -> Made:
    return Made(
        mono_ns=mono_ns,
        kind=kind,
        text=f"{kind} {mono_ns}",
        job=job,
        uid=uid,
        slot=None if slot is None else Slot(slot),
    )


def test_knobs_that_turn_push_out_nothing_else() -> None:
    journal = Journal(0)
    journal.note([made(1, "audit")])
    for at in range(2, MOST_DECISIONS["knob"] + 10):
        journal.note([made(at, "knob")])
    found = journal.find(0, 10**9, most=5000)
    assert found.found[0].made.kind == "audit"
    assert len(found.found) == MOST_DECISIONS["knob"] + 1
    assert journal.knows_ns == 10  # of knobs, the eight before are gone
    assert [one.number for one in found.found] == [1, *range(10, MOST_DECISIONS["knob"] + 10)]


def test_finding() -> None:
    journal = Journal(0)
    journal.note([made(at, job=at % 3, slot=at % 2) for at in range(1, 31)])
    times = [one.made.mono_ns for one in journal.find(5, 9, most=100).found]
    assert times == [5, 6, 7, 8, 9]
    found = journal.find(0, 30, job=1, device=0, most=3)
    assert [one.made.mono_ns for one in found.found] == [16, 22, 28]
    assert found.left_out == 2
    assert journal.find(31, 40, most=9).found == ()


def test_what_is_new() -> None:
    journal = Journal(0)
    journal.note([made(1), made(2, "knob"), made(3, "grant"), made(4, "knob"), made(5, "knob")])
    assert [one.number for one in journal.since(1, 10, 2)] == [3, 4, 5]
    assert [one.number for one in journal.since(0, 2, 2)] == [4, 5]
    assert journal.since(5, 10, 2) == []


def test_words_are_made_when_somebody_asks() -> None:
    asked: list[int] = []

    def tell() -> tuple[str, str]:
        asked.append(1)
        return "low.max_inflight = 1, was 2", "p.gpol:3"

    journal = Journal(0)
    journal.note([Made(mono_ns=7, kind="knob", tell=tell)])
    assert not asked
    (one,) = journal.find(0, 9, most=1).found
    decision = one.told(WALL)
    assert (decision.text, decision.by, decision.at_ns, decision.number) == (
        "low.max_inflight = 1, was 2",
        "p.gpol:3",
        WALL + 7,
        1,
    )


def test_who_may_read_what() -> None:
    assert may_read(made(1), 1000)
    assert not may_read(made(1), 1001)
    assert not may_read(made(1, uid=None), 1000)
    assert may_read(made(1, "reload", job=None), 1001)
    assert not may_read(made(1, "audit", job=None), 1001)


def test_classes_keep_their_order() -> None:
    """A device that comes back has its old slot, before others that have stayed."""
    world = Watched()
    journal = Journal(world.now)
    first = world.ready(devices=(bytes(16),))
    world.ready(devices=(b"\x01" * 16,))
    journal.keep(world.look())
    for change in (lambda: world.gone(first), lambda: world.ready(devices=(bytes(16),))):
        change()
        world.now += SECOND
        rows = world.look()
        journal.keep(rows)
    assert [one.device for one in rows.classes] == [0, 0, 1, 1]
    piece = journal.past(world.now)
    assert piece is not None
    assert piece.read().classes == rows.classes
