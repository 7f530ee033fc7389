"""`gpud evict`: a job leaves its devices now, or it is said why it cannot and what would help."""

import pytest

from gpud.engine import evict, memory_swap
from gpud.engine.report import job_view
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.ids import ClientId, JobId
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, World, by, only
from tests.engine.swaps import MIB, SWAPS, ZERO, Swaps
from tests.engine.test_lock import Turns


def job_of(world: World, client: ClientId) -> JobId:
    return world.state.clients[client].job


def evicted(world: World, client: ClientId) -> list[Effect]:
    return world.react(ev.EvictAsked(job=job_of(world, client), by=by()))


def judge(world: World, client: ClientId) -> evict.Found:
    return evict.judge(world.state, ev.EvictAsked(job=job_of(world, client), by=by()))


def why_not(world: World, client: ClientId) -> str:
    with pytest.raises(Refused) as refused:
        judge(world, client)
    effects = evicted(world, client)
    assert [type(effect) for effect in effects] == [do.Record], "and nothing happens"
    return str(refused.value)


def test_a_turn_ends_and_then_all_of_its_memory_leaves() -> None:
    w = Swaps()
    one = w.fill(600 * MIB)
    found = judge(w, one)
    assert (found.turns, found.leaves) == ((ZERO,), (ZERO,))
    assert found.text == "device 0: its turn ends, 600MiB of its 600MiB leave"
    effects = evicted(w, one)
    (revoked,) = only(effects, do.SendLockRevoked)
    assert (revoked.client, revoked.deadline_ns) == (one, w.now + 2 * SECOND)
    assert only(effects, do.SwapOut) == [], "nothing moves under running work"
    assert only(effects, do.SaveState)
    (out,) = only(w.back(one), do.SwapOut)
    assert (out.client, out.bytes) == (one, 600 * MIB)
    w.slots(one, 600 * MIB)
    w.leaves(out)
    assert w.rows[one].resident_bytes == 0
    assert w.state.tenants[job_of(w, one)].leaves == set()


def test_it_comes_in_again_once_its_memory_is_gone_and_not_before() -> None:
    w = Swaps()
    one = w.fill(600 * MIB)
    evicted(w, one)
    effects = w.back(one) + w.ask(one)
    assert only(effects, do.SendLockGranted) == []
    (lock,) = job_view(w.state, w.state.tenants[job_of(w, one)], w.held, w.now, {}).lock
    assert lock.text == "it waits in line, but it is evicted, and its memory has yet to leave"
    (out,) = only(effects, do.SwapOut)
    w.slots(one, 600 * MIB)
    effects = w.leaves(out) + w.look(MILLISECOND)
    assert [granted.client for granted in only(effects, do.SendLockGranted)] == [one]


def test_who_is_paused_too_stays_away() -> None:
    w = Swaps()
    one = w.fill(600 * MIB)
    w.react(ev.PauseAsked(job=job_of(w, one), by=by()))
    evicted(w, one)
    (out,) = only(w.back(one) + w.ask(one), do.SwapOut)
    w.slots(one, 600 * MIB)
    effects = w.leaves(out) + w.look(SECOND)
    assert only(effects, do.SendLockGranted) == []
    effects = w.react(ev.ResumeAsked(job=job_of(w, one), by=by()))
    assert [granted.client for granted in only(effects, do.SendLockGranted)] == [one]


def test_memory_of_who_has_no_turn_leaves_at_once() -> None:
    w = Swaps()
    one, two = w.fill(300 * MIB), w.join(lazy=100 * MIB)
    w.passes(one, two)
    assert judge(w, one).text == "device 0: 300MiB of its 300MiB leave"
    (out,) = only(evicted(w, one), do.SwapOut)
    assert (out.client, out.bytes) == (one, 300 * MIB)
    assert w.has(two)


def test_who_cannot_let_go_is_not_kept_from_the_device() -> None:
    w = Swaps()
    one = w.fill(600 * MIB)
    evicted(w, one)
    (out,) = only(w.back(one) + w.ask(one), do.SwapOut)
    effects = w.leaves(out, 0, memory_swap.FAILED) + w.look(MILLISECOND)
    assert [granted.client for granted in only(effects, do.SendLockGranted)] == [one]
    assert w.state.tenants[job_of(w, one)].leaves == set()


def test_what_is_pinned_stays_and_is_said() -> None:
    w = Swaps()
    one = w.fill(200 * MIB)
    w.set(one, pinned_bytes=50 * MIB, used_bytes=250 * MIB)
    w.look(MILLISECOND)
    assert (
        judge(w, one).text
        == "device 0: its turn ends, 200MiB of its 200MiB leave, 50MiB stay: they cannot leave a device"
    )


def test_a_host_tier_without_room() -> None:
    w = Swaps(SWAPS.replace("4GiB", "100MiB"))
    one, two = w.fill(300 * MIB), w.join(lazy=100 * MIB)
    w.passes(one, two)
    w.slots(two, 100 * MIB)
    assert why_not(w, one) == (
        "job 1 keeps what it has. device 0: the host tier has no room for its 300MiB: raise `host(max = …)` of the "
        "policy swaps. To keep it from working: gpud pause 1; to bound it: gpud set 1 compute=…; to end it: gpud kill 1"
    )


def test_a_host_tier_with_room_for_a_part() -> None:
    w = Swaps(SWAPS.replace("4GiB", "100MiB"))
    one, two = w.fill(300 * MIB), w.join(lazy=100 * MIB)
    w.passes(one, two)
    assert judge(w, one).text == "device 0: 100MiB of its 300MiB leave"


def test_turns_without_swap() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    assert (
        judge(w, one).text
        == "device 0: its turn ends (the policy turns), memory stays: the policy turns has no `swap` block"
    )
    (revoked,) = only(evicted(w, one), do.SendLockRevoked)
    assert revoked.client == one
    assert "memory stays: the policy turns has no `swap` block" in why_not(w, two)


def test_no_turns_at_all(world: World) -> None:
    assert why_not(world, world.low()) == (
        "job 1 keeps what it has. device 0: memory stays: it leaves a device only beside `arbitrate exclusive` with a "
        "`swap` block, and there is `arbitrate preempt` (the policy preempt-mix). To keep it from working: gpud pause "
        "1; to bound it: gpud set 1 compute=…; to end it: gpud kill 1"
    )


def test_nothing_there() -> None:
    w = Swaps()
    assert "it has no turn and no memory that could leave" in why_not(w, w.join())
    launcher, _ = w.launch()
    client, _ = w.attach(launcher)
    assert why_not(w, client) == "job 2 is on no device: there is nothing that it could leave"
    assert w.state.devices[ZERO].total_bytes == GIB


def test_a_job_whose_processes_have_not_come_back_is_not_asked() -> None:
    w = Swaps()
    one, two = w.fill(300 * MIB), w.join(lazy=100 * MIB)
    w.passes(one, two)
    w.state.clients[one].session = None
    assert "its processes cannot be asked for their memory now" in why_not(w, one)


def test_work_that_does_not_end_by_waiting_keeps_the_turn_and_nothing_leaves_later() -> None:
    w = Swaps()
    one = w.fill(600 * MIB)
    evicted(w, one)
    slots = frozenset({ZERO})
    w.react(ev.LockBack(client=one, slots=slots, epoch=w.epoch(), overrun=False, never=True, held=w.held))
    assert w.has(one)
    assert w.state.tenants[job_of(w, one)].leaves == set()
    assert only(w.look(SECOND), do.SwapOut) == []


def test_counters_of_the_page_are_what_counts() -> None:
    w = Swaps()
    one = w.fill(600 * MIB)
    w.rows[one] = Counters(host_bytes=600 * MIB, used_bytes=600 * MIB)
    w.look(MILLISECOND)
    assert judge(w, one).leaves == ()
