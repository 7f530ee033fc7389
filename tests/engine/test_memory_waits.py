"""Host slots, and allocations of who has the device: who gets some, who waits, who is refused."""

from gpud.engine import memory_line, memory_swap, saved
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, UUID, new_state, only
from tests.engine.swaps import MIB, SWAPS, ZERO, Swaps


def test_a_byte_costs_what_is_made_for_it() -> None:
    w = Swaps(SWAPS.replace("4GiB", "10MiB"))
    one = w.join()
    for _ in range(5):
        assert [e.bytes for e in only(w.slots(one, 1), do.MakeHostSlots)] == [2 * MIB]
    assert w.state.moves.host.used == 10 * MIB
    assert only(w.slots(one, 1), do.SendNoSlots)


def test_slots_that_never_got_to_their_client_are_nobodys() -> None:
    """The daemon dies between its note of them and their way; or the session does."""
    w = Swaps(SWAPS.replace("4GiB", "10MiB"))
    one, two = w.join(), w.join()
    w.slots(one, 4 * MIB)
    w.slots(one, 6 * MIB, arrives=False)
    w.look(SECOND)
    assert w.state.moves.host.used == 10 * MIB, "they may still be on their way"
    again = saved.load(saved.dump(w.state, "boot"), "boot")
    assert again is not None
    state = new_state(w.state.board)
    saved.restore(state, again, lambda *_: True, 0)
    assert state.moves.host.used == 10 * MIB, "not known better yet"
    for client in (one, two):
        state.clients[client].session = w.state.clients[client].session
    state.heard = {one, two}
    w.state = state
    w.look(SECOND)
    assert w.state.moves.host.used == 4 * MIB, "it says what it has"
    assert only(w.slots(two, 6 * MIB), do.MakeHostSlots)
    w.set(one, slots_bytes=1 << 40)
    w.look(SECOND)
    assert w.state.moves.host.used == 16 * MIB, "but is not believed for more than it was given"
    w.set(one, slots_bytes=4 * MIB)
    w.look(SECOND)
    w.slots(one, 2 * MIB, arrives=False)
    assert w.state.moves.host.given[one] == 10 * MIB, "refused: there is no room"


def test_host_slots_are_within_what_policies_say_and_go_with_their_client() -> None:
    w = Swaps(SWAPS.replace("4GiB", "10MiB"))
    one, two = w.join(), w.join()
    assert [(e.client, e.bytes) for e in only(w.slots(one, 6 * MIB), do.MakeHostSlots)] == [(one, 6 * MIB)]
    effects = w.slots(two, 5 * MIB)
    assert [e.client for e in only(effects, do.SendNoSlots)] == [two]
    assert "6MiB of 10MiB are given out" in only(effects, do.Record)[0].text
    assert only(w.slots(two, 5 * MIB), do.Record) == [], "once is enough"
    again = saved.load(saved.dump(w.state, "boot"), "boot")
    assert again is not None
    state = new_state(w.state.board)
    saved.restore(state, again, lambda *_: True, 0)
    assert state.moves.host.given == {one: 6 * MIB}
    w.gone(one)
    (made,) = only(w.slots(two, 5 * MIB, arrives=False), do.MakeHostSlots)
    failed = ev.SlotsFailed(client=two, slot=ZERO, request=1, bytes=made.bytes, text="there is none")
    assert only(w.react(failed), do.SendNoSlots)
    assert w.state.moves.host.given == {}


def told(w: Swaps, used: int) -> list[Effect]:
    """The driver says what is in use in all."""
    w.now += 500 * MILLISECOND
    seen = ev.Seen(total_bytes=GIB, used_bytes=used, processes=())
    return w.react(ev.DriverTold(devices={UUID: seen}, held=w.held))


def codes(effects: list[Effect]) -> list[int]:
    return [effect.code for effect in only(effects, do.SendAllocReply)]


def test_nobody_is_refused_for_what_a_program_has_that_is_just_being_taken_down() -> None:
    """As around a restart of the daemon: the first answer of the driver may still have it."""
    w = Swaps()
    one, two = w.fill(500 * MIB), w.join()
    w.gone(one)
    del w.rows[one]
    assert codes(told(w, 500 * MIB)) == []
    ask = ev.AllocAsked(client=two, slot=ZERO, request=1, bytes=600 * MIB, time_ns=0, held=w.held)
    assert codes(w.react(ask)) == [], "it waits"
    assert codes(told(w, 0)) == [memory_line.YES]


def test_who_could_not_let_go_just_now_is_asked_again_before_anybody_is_refused_for_it() -> None:
    w = Swaps()
    one = w.fill(700 * MIB)
    two = w.join(lazy=100 * MIB)
    w.passes(one, two)
    w.is_in(two)
    alloc = ev.AllocAsked(client=two, slot=ZERO, request=9, bytes=300 * MIB, time_ns=0, held=w.held)
    (asked,) = only(w.react(alloc), do.SwapOut)
    effects = w.leaves(asked, 0, memory_swap.FAILED)
    for _ in range(300):
        assert codes(effects) == []
        again = only(effects, do.SwapOut)
        if again:
            break
        effects = w.look(10 * MILLISECOND)
    assert codes(w.leaves(again[0])) == [memory_line.YES]


def test_what_is_in_use_beside_counts_once_the_driver_has_said_so_twice() -> None:
    w = Swaps()
    one = w.join()
    told(w, 0)
    ask = ev.AllocAsked(client=one, slot=ZERO, request=1, bytes=600 * MIB, time_ns=0, held=w.held)
    w.state.moves.devices[ZERO].told = w.state.moves.devices[ZERO].ledger.residue = 500 * MIB
    assert codes(w.react(ask)) == []
    w.state.moves.devices[ZERO].looked = 500 * MIB
    assert codes(told(w, 500 * MIB)) == [memory_line.NO_LIMIT]
    assert codes(w.react(ask)) == [memory_line.NO_LIMIT], "at once, now that it is known"
    more = ev.AllocAsked(client=w.join(), slot=ZERO, request=1, bytes=GIB + 1, time_ns=0, held=w.held)
    assert codes(w.react(more)) == [memory_line.NO_LIMIT], "and what never fits at any time"
