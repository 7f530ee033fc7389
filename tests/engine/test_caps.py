"""Limits of GPU time, launches, blocks and copies: of tenants, and of units together."""

import pytest

from gpud.engine.caps import RATE_WINDOW_NS, WINDOW_NS, compute_of
from gpud.engine.in_words import limits
from gpud.engine.publish import GATE_BUDGET, GATE_CHARGE, GATE_COPY, GATE_PREEMPT, GATE_RATE, GATE_WINDOW
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import DeviceWords
from gpud.model.levels import Division, TotalKind
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import World, board, by, only

S0 = Slot(0)


def words(world: World, client: ClientId) -> DeviceWords:
    return world.state.clients[client].words[S0]


def division(world: World) -> Division:
    return world.state.divisions[S0]


def job(world: World, client: ClientId) -> JobId:
    return world.state.clients[client].job


LIMITS = """
  class gold   { match label("plan") == "gold"    limit { compute = 40% } }
  class silver { match label("plan") == "silver"  limit { compute = soft(30%) } }
  class asked  { match label("plan") == "asked"
                 limit { compute = label_percent("gpud.io/compute", default = 15%) } }
  class free   { match any }
"""


def test_limits_of_one_tenant() -> None:
    world = World(running=board(("limits", LIMITS)))
    found = {}
    for asked in ({"label_plan": "gold"}, {"label_plan": "silver"}, {"label_plan": "asked"}, {}):
        client = world.ready(world.launch(**asked)[0])
        tenant = (
            next(t for t in division(world).tenants if t.tenant == job(world, client))
            if S0 in world.state.divisions
            else None
        )
        found[asked.get("label_plan", "")] = (
            (tenant.hard_ppm, tenant.soft_ppm, words(world, client).gate) if tenant else None
        )
    assert found == {
        "gold": (400_000, None, GATE_BUDGET),
        "silver": (None, 300_000, GATE_BUDGET),
        "asked": (150_000, None, GATE_BUDGET),
        "": (None, None, 0),
    }
    _, effects = world.launch(**{"label_plan": "asked", "label_gpud.io/compute": "7%"})
    assert not only(effects, do.Refuse)


def test_a_label_says_how_much_and_the_tightest_policy_holds() -> None:
    more = "class all { match any  limit { compute = 35% } }"
    world = World(running=board(("limits", LIMITS), ("more", more)))
    gold = world.ready(world.launch(label_plan="gold")[0])
    assert division(world).tenants[0].hard_ppm == 350_000
    silver = world.ready(world.launch(label_plan="silver")[0])
    tenant = next(t for t in division(world).tenants if t.tenant == job(world, silver))
    assert (tenant.hard_ppm, tenant.soft_ppm) == (350_000, 300_000)
    del gold


def test_a_label_that_cannot_be_read_counts_as_none_after_a_reload() -> None:
    plain = board(("plain", "class all { match any }  arbitrate open {}"))
    world = World(running=plain)
    client = world.ready(world.launch(**{"label_plan": "asked", "label_gpud.io/compute": "lots"})[0])
    world.react(ev.BoardChanged(board=board(("limits", LIMITS)), reading=world.reading()))
    assert division(world).tenants[0].hard_ppm == 150_000
    assert words(world, client).gate == GATE_BUDGET
    tenant = world.state.tenants[job(world, client)]
    assert [most.ppm for most in limits(world.state, tenant, S0)] == [150_000], "`gpud why` says the same"
    assert compute_of(world.state.stack_on(S0)[0], tenant) == (0.15, False), "and so much is promised"


TOTALS = """
  class team  { match label("team") == "a"  per = label("group") }
  class rest  { match any }
  arbitrate open {}
  team.max_compute     = 40%
  team.max_launch_rate = 1000/s
  rest.max_copy_rate   = 1GiB/s
  when rest.active { team.max_block_rate = 5/ms  rest.max_compute = 50% }
"""


def test_totals_of_units() -> None:
    world = World(running=board(("totals", TOTALS)))
    x1, x2, y = (world.ready(world.launch(label_team="a", label_group=group)[0]) for group in "xxy")
    rest = world.ready(world.launch()[0])
    found = {(total.kind, total.key[2]): total for total in division(world).totals}
    assert {key: total.amount for key, total in found.items()} == {
        (TotalKind.COMPUTE, "x"): 400_000,
        (TotalKind.COMPUTE, "y"): 400_000,
        (TotalKind.LAUNCHES, "x"): 1_000_000,
        (TotalKind.LAUNCHES, "y"): 1_000_000,
        (TotalKind.COPIES, ""): 2**30,
    }
    assert found[TotalKind.COMPUTE, "x"].members == (job(world, x1), job(world, x2))
    assert found[TotalKind.LAUNCHES, "y"].members == (job(world, y),)
    assert found[TotalKind.COMPUTE, "x"].window_ns == WINDOW_NS
    assert found[TotalKind.LAUNCHES, "x"].window_ns == RATE_WINDOW_NS
    assert words(world, x1).gate == GATE_BUDGET | GATE_RATE
    assert words(world, rest).gate == GATE_COPY
    assert words(world, x1).burst_ns == words(world, rest).burst_ns == RATE_WINDOW_NS
    counted = {client.client: client.counted for t in division(world).tenants for client in t.clients}
    assert counted == {x1: True, x2: True, y: True, rest: True}
    effects = world.ticks(5 * MILLISECOND, {rest: Counters(active=True)})
    assert words(world, rest).gate == GATE_COPY | GATE_BUDGET
    assert (TotalKind.BLOCKS, 5_000_000) in {(total.kind, total.amount) for total in division(world).totals}
    assert [effect.client for effect in only(effects, do.PublishDevice)] == [rest]


AIMD = """
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate open {}
  low.max_launch_rate = aimd(hurt = high.active, period = 100ms, start = 100/s, floor = 20/s, ceiling = 1000/s,
                             add = 100/s, multiply = 50%)
"""


def test_a_rate_that_moves_rewrites_no_words() -> None:
    """Only how time is divided, once for the device."""
    world = World(running=board(("aimd", AIMD)))
    world.high()
    lows = [world.low() for _ in range(3)]
    world.ticks(5 * MILLISECOND)
    amounts = []
    for _ in range(5):
        effects = world.ticks(100 * MILLISECOND)
        assert not only(effects, do.PublishDevice)
        assert len(only(effects, do.Divide)) == 1
        (total,) = division(world).totals
        amounts.append(total.amount)
        assert total.members == tuple(job(world, low) for low in lows)
    assert amounts == sorted(amounts)
    assert len(set(amounts)) == 5


def test_the_same_unit_under_another_amount_has_the_same_key() -> None:
    world = World(running=board(("totals", TOTALS)))
    world.ready(world.launch(label_team="a", label_group="x")[0])
    before = {total.key for total in division(world).totals}
    other = TOTALS.replace("max_compute     = 40%", "max_compute     = 20%")
    world.react(ev.BoardChanged(board=board(("totals", other)), reading=world.reading()))
    after = division(world).totals
    assert {total.key for total in after} == before
    assert {total.amount for total in after if total.kind is TotalKind.COMPUTE} == {200_000}


PASS = """
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = 1ms  max_pause = 1s  pass = 3ms  max_inflight_time = 2ms }
"""


def test_windows_and_passes_in_gpu_time() -> None:
    world = World(running=board(("pass", PASS)))
    low = world.low()
    assert words(world, low).gate == GATE_WINDOW  # nobody above yet: nothing to be let through
    assert (words(world, low).max_inflight, words(world, low).max_inflight_ns) == (0, 2 * MILLISECOND)
    high = world.high()
    assert words(world, low).gate == GATE_WINDOW | GATE_PREEMPT | GATE_CHARGE
    assert (words(world, low).pass_ns, words(world, low).max_pause_ns) == (3 * MILLISECOND, SECOND)
    assert (words(world, high).gate, words(world, high).max_inflight_ns) == (0, 0)
    assert not division(world).moves  # costs are charged; no level is kept
    assert world.state.levels_due_ns is None


@pytest.mark.parametrize("signal", ["busy", "block_rate", "copy_rate", "delay_p99"])
def test_what_a_policy_reads_is_measured(signal: str) -> None:
    more = {"busy": "50%", "block_rate": "10/s", "copy_rate": "1MiB/s", "delay_p99": "1ms"}[signal]
    body = f"class all {{ match any }}  arbitrate open {{}}  when all.{signal} > {more} {{ all.max_inflight = 1 }}"
    world = World(running=board(("reads", body)))
    first, second = world.low(), world.low()
    assert words(world, first).gate == words(world, second).gate == GATE_CHARGE
    # While the other is active, nothing is measured well: each knows of the other.
    assert [(peer.client, peer.flags) for peer in words(world, first).peers] == [(second, 0)]


def test_only_who_is_read_of_is_measured() -> None:
    body = """
      class high { match label("tier") == "online" }
      class low  { match any }
      arbitrate preempt { order = [high, low]  resume_after = 1ms }
      when high.delay_p99 > 1ms { low.max_inflight = 1 }
    """
    world = World(running=board(("reads", body)))
    low, high = world.low(), world.high()
    assert (words(world, high).gate, words(world, low).gate) == (GATE_CHARGE, GATE_PREEMPT)
    whole = "class all { match any }  arbitrate open {}  when gpu.busy > 50% { all.max_inflight = 1 }"
    world.react(
        ev.BoardChanged(
            board=board(("reads", body), ("whole", whole), site='apply "whole" to gpu *'), reading=world.reading()
        )
    )
    assert (words(world, high).gate, words(world, low).gate) == (GATE_CHARGE, GATE_CHARGE)


def test_no_signal_no_charge() -> None:
    body = "class all { match any }  arbitrate open {}  when all.launch_rate > 10/s { all.max_inflight = 1 }"
    world = World(running=board(("reads", body)))
    first, _ = world.low(), world.low()
    assert (words(world, first).gate, words(world, first).peers) == (0, ())
    assert world.state.divisions == {}


RISE = """
  class high { match label("tier") == "online" }
  class mid  { match label("tier") == "batch"  rise_after = 2s }
  class low  { match any                       rise_after = 5s }
  arbitrate preempt { order = [high, mid, low]  resume_after = 1ms }
"""


def test_who_has_waited_long_enough_rises_by_one_rank() -> None:
    world = World(running=board(("rise", RISE)))
    high, low = world.high(), world.low()
    world.now += SECOND
    mid = world.ready(world.launch(label_tier="batch")[0])
    assert world.state.rise_due_ns == world.now + 2 * SECOND
    world.later(2 * SECOND - 1)
    assert words(world, mid).rank == 1
    effects = world.later(1)
    assert words(world, mid).rank == 0
    assert words(world, mid).gate == 0  # nobody is above it any more
    assert [peer.rank for peer in words(world, low).peers] == [0, 0]
    assert any("one rank higher" in record.text for record in only(effects, do.Record))
    assert world.state.rise_due_ns == world.now + 2 * SECOND  # low, attached one second earlier, after five
    world.later(2 * SECOND)
    assert (words(world, low).rank, words(world, high).rank) == (1, 0)
    assert world.state.rise_due_ns is None
    # Once: it does not climb on.
    world.later(60 * SECOND)
    assert words(world, low).rank == 1
    # In another class it begins again, at once where it has been here long enough.
    launcher_job = job(world, low)
    world.react(ev.SetAsked(job=launcher_job, by=by(True), changes=(("class", "mid"),)))
    assert words(world, low).rank == 1
    assert world.state.rise_due_ns is not None
    world.later(0)
    assert words(world, low).rank == 0


def test_a_job_that_leaves_and_comes_back_begins_anew() -> None:
    world = World(running=board(("rise", RISE)))
    world.high()
    launcher, _ = world.launch(label_tier="batch")
    mid = world.ready(launcher)
    world.later(3 * SECOND)
    assert words(world, mid).rank == 0
    second = world.ready(launcher)
    world.gone(mid)
    assert words(world, second).rank == 0  # it has been here without a break
    world.gone(second)
    assert world.state.rise_due_ns is None
    third = world.ready(launcher)
    assert words(world, third).rank == 1
