"""When policies are looked at, and when not."""

import pytest

from gpud.engine.division import LINGER_NS
from gpud.engine.publish import GATE_PAUSED
from gpud.engine.ticking import (
    BUSY_NS,
    EARLIEST_NS,
    IDLE_NS,
    LEASE_REFRESH_NS,
    PART_OF_CPU,
    needs,
    needs_driver,
    next_wakeup,
    note_cost,
)
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.units import MILLISECOND, SECOND
from gpud.native import shipped_policies
from gpud.testing.boards import board_from_texts
from tests.engine.conftest import GIB, UUID, World, board, by, only

S0 = Slot(0)
READS = """
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = 1ms }
  when high.active { low.max_inflight = 1 }
"""
HOURS = """
  timezone "UTC"
  hours day = daily 08:00..20:00
  class all { match any }
  arbitrate open {}
  during day { all.pause = true }
"""
DWELL = """
  class all { match any }
  arbitrate open {}
  when all.queued > 0 for 20ms { all.max_inflight = 2 }
"""
DAY = 24 * 3600 * SECOND


def runs_until(world: World, until: int, counters: dict[ClientId, Counters] | None = None) -> int:
    """Ticks as the engine's shell does; returns how many of them looked at the policies."""
    looked = 0
    while (due := next_wakeup(world.state)) is not None and due <= until:
        world.now = max(world.now, due)
        if world.state.tick_due_ns is not None and world.state.tick_due_ns <= world.now:
            looked += 1
            world.ticks(0, counters)
        else:
            world.later(0)
    world.now = until
    return looked


def test_a_policy_that_reads_nothing_is_never_looked_at(world: World) -> None:
    low, high = world.low(), world.high()
    world.react(ev.WentActive(client=high, slot=S0))
    world.gone(low)
    assert world.state.tick_due_ns is None
    assert runs_until(world, world.now + 10 * SECOND) == 0


def test_a_policy_that_reads_nothing_does_not_tick() -> None:
    """Its wake-ups are those of the lease."""
    world = World()
    low, high = world.low(), world.high()
    assert (world.class_of(low), world.class_of(high)) == ("low", "high")
    world.react(ev.WentActive(client=high, slot=S0))
    assert world.state.tick_due_ns is None
    assert runs_until(world, world.now + 10 * SECOND) == 0


def test_the_shipped_preempt_mix_rests_while_nobody_is_active() -> None:
    """It reads how long `high` is delayed, and nobody is: docs/measurements.md says how often the daemon wakes up."""
    texts = {path.name: path.read_text() for path in shipped_policies().glob("*.gpol") if path.name != "site.gpol"}
    world = World(running=board_from_texts(texts, default="preempt-mix"))
    world.low()
    high = world.high()
    runs_until(world, world.now + 2 * SECOND)
    assert world.state.tick_due_ns is None
    assert runs_until(world, world.now + 10 * SECOND) == 0
    world.react(ev.WentActive(client=high, slot=S0))
    assert world.state.tick_due_ns == world.now
    busy = {high: Counters(active=True, entered=5)}
    world.ticks(0, busy)
    assert runs_until(world, world.now + SECOND, busy) == SECOND // BUSY_NS


def test_no_ticks_without_clients() -> None:
    world = World(running=board(("reads", READS)))
    assert next_wakeup(world.state) is None
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    assert next_wakeup(world.state) is None
    client = world.low()
    assert world.state.tick_due_ns is not None
    world.gone(client)
    assert next_wakeup(world.state) is None


def test_five_milliseconds_while_somebody_is_active_and_fifty_otherwise() -> None:
    """Held launches and copies are no activity: who reads of them must look."""
    held = READS.replace("high.active", "high.queued > 0")
    world = World(running=board(("reads", held)))
    low = world.low()
    runs_until(world, world.now + 5 * SECOND)
    assert runs_until(world, world.now + SECOND) == SECOND // IDLE_NS
    busy = {low: Counters(active=True)}
    world.ticks(0, busy)
    assert runs_until(world, world.now + SECOND, busy) == SECOND // BUSY_NS


def test_an_edge_is_looked_at_early_but_not_more_often_than_every_2500_us() -> None:
    world = World(running=board(("reads", READS)))
    world.low()
    high = world.high()
    world.ticks(IDLE_NS)
    assert world.state.tick_due_ns == world.now + IDLE_NS
    world.now += 20 * MILLISECOND
    world.react(ev.WentActive(client=high, slot=S0))
    assert world.state.tick_due_ns == world.now
    world.ticks(0, {high: Counters(active=True)})
    looked = 0
    for _ in range(1000):  # 100 ms of an application that synchronises after each launch
        world.now += 100_000
        for kind in (ev.WentIdle, ev.WentActive):
            world.react(kind(client=high, slot=S0))
        if world.state.tick_due_ns is not None and world.state.tick_due_ns <= world.now:
            looked += 1
            world.ticks(0, {high: Counters(active=True)})
    assert looked == 100 * MILLISECOND // EARLIEST_NS


def test_a_newcomer_and_one_who_leaves_are_seen_at_once() -> None:
    world = World(running=board(("reads", READS)))
    low = world.low()
    world.ticks(IDLE_NS)
    world.now += 3 * MILLISECOND
    high = world.high()
    assert world.state.tick_due_ns == world.now
    world.ticks(0, {high: Counters(active=True)})
    assert world.state.clients[low].words[S0].max_inflight == 1
    world.now += 3 * MILLISECOND
    world.gone(high)
    assert world.state.tick_due_ns == world.now
    world.ticks(0)
    assert world.state.clients[low].words[S0].max_inflight == 0


EACH = """
  class nb  { match label("kind") == "nb" }
  class low { match any }
  arbitrate open {}
  each nb as n { n.max_inflight = 2 }
  each low as n { n.max_inflight = 3 }
"""


def test_rules_about_one_tenant_hold_for_whoever_comes_or_is_pinned_though_they_read_nothing() -> None:
    world = World(running=board(("each", EACH)))
    first, second = world.low(), world.low()

    def inflight() -> list[int]:
        if world.state.tick_due_ns is not None:
            world.now = max(world.now, world.state.tick_due_ns)
            world.ticks(0)
        return [world.state.clients[client].words[S0].max_inflight for client in (first, second)]

    assert inflight() == [3, 3]
    assert world.state.tick_due_ns is None  # and nobody looks again
    world.react(ev.SetAsked(job=world.state.clients[second].job, by=by(True), changes=(("class", "nb"),)))
    assert inflight() == [3, 2]
    third = world.ready(world.launch(label_kind="nb")[0])
    assert inflight() == [3, 2]
    assert world.state.clients[third].words[S0].max_inflight == 2


def test_hours_wake_when_they_turn_and_now_and_then_in_between() -> None:
    world = World(running=board(("hours", HOURS)))
    world.state.wall_offset_ns = 7 * 3600 * SECOND - world.now  # seven in the morning
    client = world.low()
    assert world.state.clients[client].words[S0].gate == 0
    looked = 0
    while not world.state.clients[client].words[S0].gate & GATE_PAUSED:
        due = world.state.tick_due_ns
        assert due is not None
        assert world.now < due <= world.now + 10 * SECOND
        world.now = due
        world.ticks(0, wall_ns=world.now + world.state.wall_offset_ns)
        looked += 1
    wall = world.now + world.state.wall_offset_ns
    assert 8 * 3600 * SECOND <= wall <= 8 * 3600 * SECOND + EARLIEST_NS
    assert looked == 360


def test_the_clock_is_set() -> None:
    world = World(running=board(("hours", HOURS)))
    world.state.wall_offset_ns = 7 * 3600 * SECOND - world.now
    client = world.low()
    world.ticks(10 * SECOND, wall_ns=9 * 3600 * SECOND)
    assert world.state.clients[client].words[S0].gate == GATE_PAUSED
    world.ticks(10 * SECOND, wall_ns=21 * 3600 * SECOND)
    assert world.state.clients[client].words[S0].gate == 0


def test_a_device_that_slept_is_up_to_date_before_its_first_client_may_launch() -> None:
    """The policy was last looked at by night, when there was nobody; now it is day."""
    world = World(running=board(("hours", HOURS)))
    world.state.wall_offset_ns = 3 * 3600 * SECOND - world.now
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    world.gone(world.low())
    world.now += 8 * 3600 * SECOND
    client, _ = world.attach()
    world.react(ev.Mapped(client=client))
    effects = world.react(ev.DevicesReported(client=client, devices=((UUID, GIB),)))
    published = next(i for i, e in enumerate(effects) if isinstance(e, do.PublishDevice))
    heard = next(i for i, e in enumerate(effects) if isinstance(e, do.SendSlots))
    assert published < heard
    assert only(effects, do.PublishDevice)[0].words.gate == GATE_PAUSED


def test_a_dwell_time_ends_when_it_ends_though_all_is_idle() -> None:
    world = World(running=board(("dwell", DWELL)))
    client = world.low()
    held = {client: Counters(holding=1)}
    began = world.now + IDLE_NS
    world.ticks(IDLE_NS, held)
    while not world.state.clients[client].words[S0].max_inflight:
        assert world.state.tick_due_ns is not None
        world.now = world.state.tick_due_ns
        world.ticks(0, held)
    assert 20 * MILLISECOND <= world.now - began <= 20 * MILLISECOND + EARLIEST_NS


def test_an_average_on_its_way_keeps_nobody_awake() -> None:
    moving = """
      class all { match any }
      arbitrate open {}
      let smooth = ewma(all.launch_rate, half_life = 10s)
      when smooth > 100/s { all.max_inflight = 1 }
    """
    world = World(running=board(("moving", moving)))
    client = world.low()
    world.ticks(5 * MILLISECOND, {client: Counters(active=True, entered=1000)})
    idle = {client: Counters(entered=1000)}
    world.ticks(LINGER_NS, idle)
    assert runs_until(world, world.now + SECOND, idle) <= SECOND // IDLE_NS + 1


def test_what_a_tick_must_bring() -> None:
    reads = """
      class a { match any }
      arbitrate open {}
      when a.wait_p99 > 1ms or gpu.memory_free < 1GiB or host.memory_free < 1GiB { a.max_inflight = 1 }
    """
    world = World(running=board(("plain", READS), ("all", reads.replace("arbitrate open {}", ""))))
    assert not needs_driver(world.state)
    client = world.low()
    assert needs_driver(world.state)
    assert needs(world.state, world.now).histograms == {(client, S0)}
    assert needs(world.state, world.now).host
    plain = World(running=board(("plain", READS)))
    plain.low()
    assert not needs_driver(plain.state)
    assert not needs(plain.state, plain.now).histograms
    assert not needs(plain.state, plain.now).host


def test_the_lease_goes_on_beside_the_ticks() -> None:
    world = World(running=board(("reads", READS)))
    world.low()
    leases = 0
    until = world.now + 10 * SECOND
    while (due := next_wakeup(world.state)) is not None and due <= until:
        world.now = max(world.now, due)
        looks = world.state.tick_due_ns is not None and world.state.tick_due_ns <= world.now
        leases += len(only(world.ticks(0) if looks else world.later(0), do.RefreshLease))
    assert leases == 10 * SECOND // LEASE_REFRESH_NS


def test_ticks_that_cost_much_are_further_apart() -> None:
    """A twentieth of a core at most, but never fewer than while nobody is active."""
    world = World(running=board(("reads", READS)))
    client = world.low()
    busy = {client: Counters(active=True)}
    world.ticks(0, busy)
    assert world.state.tick_due_ns == world.now + BUSY_NS
    for _ in range(100):
        note_cost(world.state, MILLISECOND)
    assert world.state.tick_cost_ns == pytest.approx(MILLISECOND, rel=0.01)
    world.ticks(0, busy)
    assert world.state.tick_due_ns == world.now + world.state.tick_cost_ns * PART_OF_CPU
    world.react(ev.WentIdle(client=client, slot=S0))
    assert world.state.tick_due_ns == world.now + world.state.tick_cost_ns * PART_OF_CPU, "no edge brings it forward"
    for _ in range(100):
        note_cost(world.state, SECOND)
    world.ticks(0, busy)
    assert world.state.tick_due_ns == world.now + IDLE_NS
    for _ in range(200):
        note_cost(world.state, 0)
    world.ticks(0, busy)
    assert world.state.tick_due_ns == world.now + BUSY_NS


RATES = """
  class all { match any }
  arbitrate open {}
  when all.launch_rate > 150/s { all.max_inflight = 1 }
  when all.busy > 15% { all.max_inflight_time = 1ms }
"""


def test_after_a_rest_rates_are_those_of_what_happened_since() -> None:
    """Not unknown, though nobody has looked for an hour; nor spread over that hour."""
    world = World(running=board(("rates", RATES)))
    client = world.low()
    before = Counters(entered=1000, spent_ns=SECOND)
    world.ticks(0, {client: before})
    for _ in range(40):
        world.ticks(IDLE_NS, {client: before})
    assert world.state.tick_due_ns is None
    assert world.state.runs[S0].resting
    world.now += 3600 * SECOND
    world.react(ev.WentActive(client=client, slot=S0))
    now = Counters(active=True, entered=1010, spent_ns=SECOND + 8 * MILLISECOND)
    world.ticks(0, {client: now})
    words = world.state.clients[client].words[S0]
    assert (words.max_inflight, words.max_inflight_ns) == (0, 0), "ten launches in a tenth of a second are 100/s"
    world.ticks(10 * MILLISECOND, {client: now._replace(entered=1020, spent_ns=SECOND + 30 * MILLISECOND)})
    words = world.state.clients[client].words[S0]
    assert words.max_inflight == 1, "20 in a tenth of a second"
    assert None not in world.state.runs[S0].ran[0].snapshot
    assert not world.state.runs[S0].resting


def test_what_is_seen_last_has_time_to_settle() -> None:
    """The rule lets go although nobody is active any more."""
    world = World(running=board(("rates", RATES)))
    client = world.low()
    at = 0
    world.ticks(0)
    for _ in range(40):
        at += 10
        world.ticks(5 * MILLISECOND, {client: Counters(active=True, entered=at)})
    assert world.state.clients[client].words[S0].max_inflight == 1
    world.react(ev.WentIdle(client=client, slot=S0))
    runs_until(world, world.now + 2 * SECOND, {client: Counters(entered=at)})
    assert world.state.clients[client].words[S0].max_inflight == 0
    assert world.state.tick_due_ns is None


def test_another_set_of_policies_looks_although_nobody_is_active() -> None:
    world = World(running=board(("rates", RATES)))
    world.low()
    runs_until(world, world.now + 3 * SECOND)
    assert world.state.tick_due_ns is None
    world.react(ev.BoardChanged(board=board(("rates", RATES.replace("150/s", "160/s"))), reading=world.reading()))
    assert world.state.tick_due_ns is not None
