"""`gpud pause` and `gpud resume`: every launch of a job is held, and it holds nobody."""

import pytest

from gpud.engine import rulings, saved
from gpud.engine.in_force import knobs_of
from gpud.engine.publish import GATE_PAUSED
from gpud.engine.report import job_view
from gpud.engine.why import why
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import LOCK_WANTED
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND
from gpud.model.views import JobView
from tests.engine.conftest import World, asks, board, by, new_state, only
from tests.engine.test_lock import Turns

S0 = Slot(0)
SHARES = """
  class gold { match label("tier") == "online"  share = weight(3) }
  class job  { match any  share = weight(1) }
  arbitrate share { period = 20ms }
"""


def job_of(world: World, client: ClientId) -> JobId:
    return world.state.clients[client].job


def pause(world: World, client: ClientId, operator: bool = True) -> list[Effect]:
    return world.react(ev.PauseAsked(job=job_of(world, client), by=by(operator)))


def resume(world: World, client: ClientId, operator: bool = True) -> list[Effect]:
    return world.react(ev.ResumeAsked(job=job_of(world, client), by=by(operator)))


def paused(world: World, client: ClientId) -> bool:
    return bool(world.state.clients[client].words[S0].gate & GATE_PAUSED)


def view(world: World, client: ClientId, **counters: int) -> JobView:
    tenant = world.state.tenants[job_of(world, client)]
    return job_view(world.state, tenant, {(client, S0): Counters(**counters)}, world.now, {})


def test_all_processes_of_a_job_are_held_at_once_and_let_go_again(world: World) -> None:
    launcher, _ = world.launch()
    one, two, other = world.ready(launcher), world.ready(launcher), world.low()
    effects = pause(world, one)
    assert {effect.client for effect in only(effects, do.PublishDevice)} == {one, two}
    assert [paused(world, client) for client in (one, two, other)] == [True, True, False]
    kinds = [type(effect) for effect in effects]
    assert do.SaveState in kinds
    assert only(effects, do.Record)[-1].text == "job 1 (python) is paused by root (uid 0)"
    third = world.ready(launcher)
    assert paused(world, third), "a process that comes later is paused, too"
    resume(world, one)
    assert not any(paused(world, client) for client in (one, two, third))


def test_who_is_paused_holds_nobody(world: World) -> None:
    high, low = world.high(), world.low()
    assert [peer.client for peer in world.state.clients[low].words[S0].peers] == [high]
    effects = pause(world, high)
    assert world.state.clients[low].words[S0].peers == ()
    assert world.state.clients[low].words[S0].gate & 2 == 0, "nobody is above any more"
    assert {effect.client for effect in only(effects, do.PublishDevice)} == {high, low}
    # Who comes later looks at it neither, and looks at it again once it goes on.
    late = world.low()
    assert world.state.clients[late].words[S0].peers == ()
    resume(world, high)
    for client in (low, late):
        assert [peer.client for peer in world.state.clients[client].words[S0].peers] == [high]


def test_who_is_paused_takes_no_turns_of_a_share() -> None:
    world = World(running=board(("shares", SHARES)))
    one, other = world.high(), world.low()
    assert [peer.client for peer in world.state.clients[other].words[S0].peers] == [one]
    pause(world, one)
    assert world.state.clients[other].words[S0].peers == ()
    # Its level goes on: whoever has used more than its share does not get rid of that by a pause.
    division = world.state.divisions[S0]
    assert {tenant.tenant for tenant in division.tenants} == {job_of(world, one), job_of(world, other)}
    resume(world, one)
    assert [peer.client for peer in world.state.clients[other].words[S0].peers] == [one]


def test_why_says_who_has_paused_it_and_when(world: World) -> None:
    low = world.low()
    world.state.wall_offset_ns = 1_000_000 * SECOND
    pause(world, low)
    world.now += 12 * SECOND
    shown = view(world, low)
    assert (shown.state, shown.paused_by) == ("paused", "root (uid 0)")
    assert shown.why is not None
    assert (shown.why.code, shown.why.for_ns) == ("paused", 12 * SECOND)
    assert shown.why.text == "paused by root (uid 0) 12s ago; `gpud resume 1` lets it go on"
    held = view(world, low, holding=1, hold_reason=GATE_PAUSED, hold_since_ns=world.now - 3 * MILLISECOND)
    assert held.state == "paused"
    assert held.why is not None
    assert held.why.text == "held for 3ms: it is paused by root (uid 0) 12s ago; `gpud resume 1` lets it go on"
    tenant = world.state.tenants[job_of(world, low)]
    (device,) = why(world.state, tenant, {}, world.now, {}).devices
    (said,) = [one for one in device.knobs if one.because.by]
    assert (said.because.knob, said.because.value, said.because.by, said.in_force) == (
        "pause", "true", "root (uid 0)", True,
    )  # fmt: skip
    resume(world, low)
    assert (view(world, low).state, view(world, low).why) == ("idle", None)


def test_a_pause_outlives_the_daemon(world: World) -> None:
    low = world.low()
    pause(world, low)
    found = saved.load(saved.dump(world.state, "b"), "b")
    assert found is not None
    state = new_state()
    saved.restore(state, found, lambda pid, started: True, world.now + SECOND)
    again = World(state)
    assert state.tenants[JobId(1)].paused == world.state.tenants[JobId(1)].paused
    again.later(0)
    client = state.clients[low]
    again.react(asks(again.session(), client.who, client.id, client.generation))
    assert paused(again, low)
    resume(again, low)
    assert not paused(again, low)


def test_what_an_operator_has_paused_its_owner_does_not_resume(world: World) -> None:
    low = world.low()
    pause(world, low, operator=False)
    pause(world, low, operator=True)
    (record,) = resume(world, low, operator=False)
    assert isinstance(record, do.Record)
    assert "it is paused by root (uid 0), an operator; only an operator takes that back" in record.text
    assert paused(world, low)
    # An owner's word does not replace an operator's.
    pause(world, low, operator=False)
    resume(world, low, operator=False)
    assert paused(world, low)
    resume(world, low)
    assert not paused(world, low)


def test_what_cannot_be(world: World) -> None:
    low = world.low()
    with pytest.raises(Refused, match="job 1 is not paused"):
        rulings.judge(world.state, ev.ResumeAsked(job=1, by=by()))
    with pytest.raises(Refused, match="there is no job 7"):
        rulings.judge(world.state, ev.PauseAsked(job=7, by=by()))
    pause(world, low)
    at = world.state.tenants[JobId(1)].paused
    world.now += SECOND
    pause(world, low)
    assert world.state.tenants[JobId(1)].paused == at, "it is paused since the first time"


def test_a_job_in_line_cannot_be_changed() -> None:
    full = """
      class job { match any  limit { tenants = 1 } }
      arbitrate open {}
      admit { when_full = queue(10s) }
    """
    world = World(running=board(("full", full)))
    world.low()
    world.launch()
    with pytest.raises(
        Refused, match="job 2 waits in line to be let in; change it once it is in, or end it with `gpud kill 2`"
    ):
        rulings.judge(world.state, ev.PauseAsked(job=2, by=by()))


def test_no_rule_makes_others_wait_for_who_is_paused() -> None:
    guard = """
      class high { match label("tier") == "online" }
      class low  { match any }
      arbitrate preempt { order = [high, low]  resume_after = 1ms  max_inflight = 8 }
      when high.queued > 0 { low.max_inflight = 2 }
      when high.active { low.max_inflight = 1 }
    """
    world = World(running=board(("guard", guard)))
    high, low = world.high(), world.low()

    def most(**counters: int) -> int:
        world.ticks(10 * MILLISECOND, {high: Counters(**counters)})
        return world.state.clients[low].words[S0].max_inflight

    assert [most(active=1), most(holding=1), most()] == [1, 2, 8]
    pause(world, high)
    assert [most(active=1), most(holding=1)] == [8, 8]
    resume(world, high)
    assert [most(active=1), most(holding=1)] == [1, 2]


# Where jobs take turns.


def test_who_is_paused_is_not_counted_among_those_who_wait() -> None:
    lonely = """
      class job { match any }
      arbitrate exclusive { max_hold = 10s }
      when gpu.waiters == 0 { job.max_hold = unlimited }
      when job.waiters > 1 { job.max_hold = 5s }
    """
    w = Turns(lonely)
    one, two, three = w.low(), w.low(), w.low()
    for client in (one, two, three):
        w.ask(client)

    def hold() -> int:
        w.ticks(10 * MILLISECOND)
        return knobs_of(w.state, w.state.clients[one], S0).max_hold_ns

    assert hold() == 5 * SECOND
    pause(w, two)
    assert hold() == 10 * SECOND
    pause(w, three)
    assert hold() == FOREVER_NS
    (lock,) = view(w, two).lock
    assert (lock.state, lock.text) == ("waits", "it waits in line, but it is paused by root (uid 0)")
    resume(w, three)
    assert hold() == 10 * SECOND


def test_the_turn_of_who_is_paused_ends_when_another_wants_it() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    assert only(pause(w, one), do.SendLockRevoked) == [], "nobody else wants the device"
    effects = w.ask(two)
    (revoked,) = only(effects, do.SendLockRevoked)
    assert (revoked.client, revoked.deadline_ns) == (one, w.now + 2 * SECOND)
    w.back(one)
    assert w.holders() == [two]


def test_the_turn_of_who_is_paused_ends_before_its_shortest() -> None:
    """min_hold is for who works."""
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.ask(two)
    assert w.words(one).lock_flags == LOCK_WANTED
    effects = pause(w, one)
    assert [revoked.client for revoked in only(effects, do.SendLockRevoked)] == [one]


def test_who_is_paused_gets_no_turn_and_keeps_its_place() -> None:
    w = Turns()
    one, two, three = w.low(), w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.ask(two)
    w.ask(three)
    pause(w, two)
    w.back(one)
    assert w.holders() == [three]
    w.is_in(three)
    resume(w, two)
    assert w.words(two).lock_place == 1
    w.back(three)
    assert w.holders() == [two]


def test_a_paused_holder_that_overruns_stays_a_case_for_the_grace() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    pause(w, one)
    w.ask(two)
    w.later(2 * SECOND)
    assert w.turn.overrun
    assert w.words(one).grant_epoch == 0
    assert w.holders() == []
    w.back(one)
    assert w.holders() == [two]
