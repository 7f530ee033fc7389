"""Policies that take too long or fail harm nobody but themselves."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gpud.engine.board import Board, applied
from gpud.engine.watchdog import LONGEST_NS, STRIKES, WITHIN_NS
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import Slot
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import World, board, only

S0 = Slot(0)
BODY = "class all { match any } arbitrate open {} when all.queued > 0 { all.max_inflight = 2 }"
LIMIT = "class all { match any } when all.queued > 0 { all.max_inflight = 9 }"


def broken(running: Board, **parts: Callable[..., Any]) -> Board:
    """The first policy with other functions."""
    first, *rest = running.applied
    replaced = applied(evolve(first.program, **parts))
    return Board(digest=running.digest, applied=(replaced, *rest), others=(replaced, *rest))


def slow_world(spent: list[int]) -> World:
    """Each tick takes what `spent` says."""
    world = World(running=board(("slow", BODY)))
    readings = []

    def cpu_ns() -> int:
        readings.append(0)
        return 0 if len(readings) % 2 else spent[0]

    world.low()
    world.state.cpu_ns = cpu_ns
    return world


def test_a_tick_of_a_millisecond_is_no_strike() -> None:
    world = slow_world([LONGEST_NS])
    for _ in range(10):
        assert not world.ticks(5 * MILLISECOND)


def test_three_strikes_in_ten_seconds() -> None:
    world = slow_world([LONGEST_NS + 1])
    for _ in range(STRIKES - 1):
        (record,) = world.ticks(5 * MILLISECOND)
        assert isinstance(record, do.Record)
        assert "strike" in record.text
    effects = world.ticks(5 * MILLISECOND)
    (out,) = only(effects, do.StruckOut)
    assert (out.policy, out.generation) == ("slow", 1)
    assert "the third over 1ms within 10s" in out.text


def timed(world: World, spent: list[int]) -> None:
    """The next ticks of programs take this long, one after the other, then nothing."""
    left, readings = list(spent), [0]

    def cpu_ns() -> int:
        readings.append(readings[-1] + (left.pop(0) if len(readings) % 2 == 0 and left else 0))
        return readings[-1]

    world.state.cpu_ns = cpu_ns


def test_what_comes_between_is_no_fault_of_the_policy() -> None:
    """A garbage collection of 30 ms in the middle of a tick: asked once more, the tick takes 20 µs."""
    world = slow_world([0])
    for _ in range(2 * STRIKES):
        timed(world, [30 * MILLISECOND, 20_000])
        assert not world.ticks(5 * MILLISECOND)
    timed(world, [30 * MILLISECOND, 2 * MILLISECOND])
    (record,) = world.ticks(5 * MILLISECOND)
    assert isinstance(record, do.Record)
    assert "took 2ms" in record.text


def test_a_tick_that_is_asked_again_counts_once() -> None:
    """Operators move on by one tick, not by two."""
    rises = "class all { match any } arbitrate open {} all.max_inflight = 1 + ewma(all.queued, half_life = 5ms)"
    worlds = [World(running=board(("smooth", rises))) for _ in range(2)]
    for world in worlds:
        world.low()
    for _ in range(5):
        timed(worlds[1], [2 * MILLISECOND, 0])
        for world in worlds:
            world.ticks(5 * MILLISECOND, {next(iter(world.state.clients)): Counters(holding=20)})
    assert worlds[0].state.runs[S0].ran[0].state == worlds[1].state.runs[S0].ran[0].state
    limits = [words.max_inflight for client in worlds[1].state.clients.values() for words in client.words.values()]
    assert 15 < limits[0] < 21


def test_each_policy_has_its_own_strikes() -> None:
    """Two that are slow now and then must not put each other out of action."""
    world = World(running=board(("first", BODY), ("second", LIMIT)))
    world.low()
    for turn in range(STRIKES + 1):
        slow = 2 * MILLISECOND
        timed(world, [slow, slow, 0] if turn % 2 else [0, slow, slow])
        effects = world.ticks(5 * MILLISECOND)
        assert len(effects) == 1
        assert not only(effects, do.StruckOut)
    timed(world, [2 * MILLISECOND, 2 * MILLISECOND, 0])
    assert [out.policy for out in only(world.ticks(5 * MILLISECOND), do.StruckOut)] == ["first"]


def test_strikes_far_apart_do_not_count_together() -> None:
    world = slow_world([2 * MILLISECOND])
    for _ in range(10):
        assert not only(world.ticks(WITHIN_NS // 2), do.StruckOut)


def test_who_is_out_ticks_no_more_and_its_last_word_holds() -> None:
    spent = [0]
    world = slow_world(spent)
    client = next(iter(world.state.clients))
    world.ticks(5 * MILLISECOND, {client: Counters(holding=1)})
    spent[0] = 2 * MILLISECOND
    for _ in range(STRIKES):
        world.ticks(5 * MILLISECOND, {client: Counters(holding=1)})
    assert not world.ticks(5 * MILLISECOND, {client: Counters()})
    assert world.state.clients[client].words[S0].max_inflight == 2
    assert world.state.tick_due_ns is None


@pytest.mark.parametrize("error", [ValueError("x"), ZeroDivisionError(), RecursionError(), KeyError(3)])
def test_an_exception_is_contained(error: Exception) -> None:
    running = board(("first", BODY), ("second", LIMIT))
    good, armed, calls = running.applied[0].program, [False], [0]

    def tick(*rest: Any) -> Any:
        calls[0] += 1
        if armed[0]:
            raise error
        return good.tick(*rest)

    world = World(running=broken(running, tick=tick))
    client = world.low()
    held = {client: Counters(holding=1)}
    world.ticks(5 * MILLISECOND, held)
    assert world.state.clients[client].words[S0].max_inflight == 2
    armed[0], before = True, calls[0]
    outs = [out for _ in range(4) for out in only(world.ticks(5 * MILLISECOND), do.StruckOut)]
    assert [(out.policy, out.text) for out in outs] == [("first", f"it failed: {error!r}")]
    assert calls[0] == before + 1
    assert world.state.clients[client].words[S0].max_inflight == 2  # its last word; the other one's is unlimited now
    world.react(ev.BoardChanged(board=board(("second", LIMIT)), reading=world.reading(held)))
    assert world.state.clients[client].words[S0].max_inflight == 9


def test_an_exception_at_the_very_first_look() -> None:
    def tick(*rest: Any) -> Any:
        raise ValueError("from the start")

    world = World(running=broken(board(("first", BODY)), tick=tick))
    client, _ = world.attach()
    world.react(ev.Mapped(client=client))
    effects = world.react(ev.DevicesReported(client=client, devices=((bytes(16), 1),)))
    assert [out.text for out in only(effects, do.StruckOut)] == ["it failed: ValueError('from the start')"]
    assert only(effects, do.SendSlots)
    assert world.state.clients[client].words[S0].gate == 0


def test_nonsense_where_the_next_change_is_asked_for() -> None:
    def next_change(*rest: Any) -> Any:
        raise ValueError("never")

    running = broken(board(("first", BODY)), next_change=next_change)
    world = World(running=running)
    world.low()
    world.ticks(50 * MILLISECOND)
    assert world.state.tick_due_ns is not None
    assert world.state.tick_due_ns > world.now


def test_a_failing_carry_starts_anew() -> None:
    def carry(*rest: Any) -> Any:
        raise ValueError("lost")

    world = World(running=board(("first", BODY)))
    client = world.low()
    changed = broken(board(("first", BODY.replace("= 2", "= 3"))), carry=carry)
    effects = world.react(ev.BoardChanged(board=changed, reading=world.reading({client: Counters(holding=1)})))
    assert any("starts anew" in change for change in only(effects, do.Reloaded)[0].changes)
    assert world.state.clients[client].words[S0].max_inflight == 3


def test_a_failing_classification_costs_the_class_only() -> None:
    def classify(facts: Any) -> Any:
        raise ValueError("who?")

    world = World(running=broken(board(("first", BODY)), classify=classify))
    client = world.ready()
    assert world.class_of(client) == "unclassified"


def test_a_failing_explanation_costs_no_decision() -> None:
    running = board(("first", BODY))
    world = World(running=running)
    client = world.low()
    # A state that explain cannot make anything of: what the tick decided is published all the same.
    program = running.applied[0].program
    world.state.runs[S0].ran[0].snapshot = ("nonsense",) * 9
    effects = world.ticks(5 * MILLISECOND, {client: Counters(holding=1)})
    assert only(effects, do.KnobChanged)
    assert world.state.clients[client].words[S0].max_inflight == 2
    assert program.name == "first"


def test_another_set_ends_it() -> None:
    world = slow_world([2 * MILLISECOND])
    for _ in range(STRIKES):
        world.ticks(5 * MILLISECOND)
    world.state.cpu_ns = lambda: 0
    effects = world.react(ev.BoardChanged(board=board(("other", LIMIT)), why="rollback", reading=world.reading()))
    assert only(effects, do.Reloaded)[0].why == "rollback"
    client = next(iter(world.state.clients))
    world.ticks(SECOND, {client: Counters(holding=1)})
    assert world.state.clients[client].words[S0].max_inflight == 9
