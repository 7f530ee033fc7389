"""Ranks and units, device by device."""

import pytest

from gpud.engine.in_force import failsafe_of
from gpud.engine.publish import GATE_PAUSED, GATE_PREEMPT, GATE_SHARE, GATE_WINDOW
from gpud.engine.units import units_on
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import PEER_SHARE, DeviceWords
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND
from tests.engine.conftest import PREEMPT_MIX, World, board, only

A, B = bytes(range(16)), bytes(reversed(range(16)))
S0, S1 = Slot(0), Slot(1)
UPSIDE_DOWN = """
  class online { match label("tier") == "online" }
  class rest   { match any }
  arbitrate preempt { order = [rest, online]  resume_after = 7ms  max_pause = unlimited }
"""


def words(world: World, client: ClientId, slot: Slot = S0) -> DeviceWords:
    return world.state.clients[client].words[slot]


def peers(world: World, client: ClientId, slot: Slot = S0) -> list[ClientId]:
    return [peer.client for peer in words(world, client, slot).peers]


def test_one_job_ranks_differently_on_two_devices() -> None:
    site = 'apply "preempt-mix" to gpu 0\napply "upside-down" to gpu 1'
    world = World(running=board(("preempt-mix", PREEMPT_MIX), ("upside-down", UPSIDE_DOWN), site=site))
    low = world.ready(world.launch()[0], [A, B])
    high = world.ready(world.launch(label_tier="online")[0], [A, B])
    assert (peers(world, low, S0), peers(world, low, S1)) == ([high], [])
    assert (peers(world, high, S0), peers(world, high, S1)) == ([], [low])
    assert (words(world, low, S0).rank, words(world, low, S1).rank) == (1, 0)
    assert (words(world, low, S0).resume_after_ns, words(world, high, S1).resume_after_ns) == (
        1 * MILLISECOND,
        7 * MILLISECOND,
    )
    assert words(world, high, S1).max_pause_ns == FOREVER_NS
    assert words(world, low, S0).gate == GATE_PREEMPT | GATE_WINDOW
    assert words(world, high, S0).gate == 0
    assert words(world, high, S1).gate == GATE_PREEMPT
    assert world.class_of(high) == "high/online"
    # Both look at each other: each has the other's page mapped, once.
    assert set(world.state.clients[low].peers) == {high}
    assert set(world.state.clients[high].peers) == {low}


def test_the_peer_on_one_device_only_is_not_looked_at_on_the_other() -> None:
    world = World()
    low = world.ready(world.launch()[0], [A, B])
    high = world.ready(world.launch(label_tier="online")[0], [B])
    assert peers(world, low, S0) == []
    assert peers(world, low, S1) == [high]
    assert words(world, low, S0).gate == GATE_WINDOW


EQUAL = """
  class a   { match label("c") == "a" }
  class b   { match label("c") == "b" }
  class c   { match label("c") == "c" }
  class top { match any }
  arbitrate preempt { order = [top, [a, b], c]  resume_after = 1ms  max_inflight = 4 }
"""


def test_equal_ranks_do_not_hold_each_other() -> None:
    world = World(running=board(("equal", EQUAL)))
    a, b, c = (world.ready(world.launch(label_c=name)[0]) for name in "abc")
    top = world.ready(world.launch()[0])
    assert [words(world, client).rank for client in (top, a, b, c)] == [0, 1, 1, 2]
    flags = {peer.client: (peer.rank, peer.flags) for peer in words(world, a).peers}
    assert flags == {top: (0, 0), b: (1, PEER_SHARE), c: (2, 0)}  # they share their rank's time by turns
    assert words(world, a).gate == GATE_PREEMPT | GATE_WINDOW | GATE_SHARE
    assert peers(world, c) == [a, b, top]
    assert (words(world, top).gate, words(world, c).gate) == (0, GATE_PREEMPT | GATE_WINDOW)
    assert words(world, top).max_inflight == 0
    assert words(world, a).max_inflight == 4


YIELD = """
  class high { match label("tier") == "online" }
  class mid  { match label("tier") == "batch" }
  class low  { match any }
  arbitrate preempt { order = [high, mid, low]  resume_after = 1ms }
  mid.yield = false
  when high.queued > 0 { mid.yield = true }
"""


def test_who_does_not_yield_looks_at_nobody_and_is_looked_at_all_the_same() -> None:
    world = World(running=board(("y", YIELD)))
    high = world.ready(world.launch(label_tier="online")[0])
    mid = world.ready(world.launch(label_tier="batch")[0])
    low = world.ready(world.launch()[0])
    assert world.state.clients[mid].peers == {}
    assert words(world, mid).gate == 0
    assert peers(world, low) == [high, mid]


def test_a_rule_that_lets_it_yield_changes_the_table_too() -> None:
    from gpud.model.counters import Counters

    world = World(running=board(("y", YIELD)))
    high = world.ready(world.launch(label_tier="online")[0])
    mid = world.ready(world.launch(label_tier="batch")[0])
    effects = world.ticks(5 * MILLISECOND, {high: Counters(holding=1)})
    assert peers(world, mid) == [high]
    kinds = [type(e) for e in effects if isinstance(e, (do.PublishDevice, do.SendPeers)) and e.client == mid]
    assert kinds == [do.PublishDevice, do.SendPeers]
    world.ticks(5 * MILLISECOND)
    assert peers(world, mid) == []
    assert world.state.clients[mid].peers == {}


def test_a_limiter_cannot_take_yielding_away_nor_give_it_by_default() -> None:
    """`true` is built in for it as well; only what it writes counts."""
    limiter = "class all { match any }  when all.queued > 0 { all.yield = true }"
    world = World(running=board(("y", YIELD), ("limiter", limiter)))
    world.ready(world.launch(label_tier="online")[0])
    mid = world.ready(world.launch(label_tier="batch")[0])
    assert peers(world, mid) == []


PER = """
  class each_job  {{ match label("c") == "x"  per = {per} }}
  class together  {{ match any }}
  arbitrate preempt {{ order = [each_job, together]  resume_after = 1ms }}
"""


@pytest.mark.parametrize(
    ("per", "same"),
    [
        ("class", True),
        ("tenant", False),
        ("user", False),
        ("group", True),
        ("namespace", True),
        ('label("team")', False),
    ],
)
def test_units_by_per(per: str, same: bool) -> None:
    world = World(running=board(("per", PER.format(per=per))))
    first = world.ready(world.launch(world.who(uid=1, user="ann"), label_c="x", label_team="a")[0])
    second = world.ready(world.launch(world.who(uid=2, user="bob"), label_c="x", label_team="b")[0])
    third = world.ready(world.launch()[0])
    again = world.ready(world.launch(world.who(uid=1, user="ann"), label_c="x", label_team="a")[0])
    unit = {
        job: number
        for number, found in enumerate(units_on(world.state.stack_on(S0)[0], list(world.state.tenants.values())))
        for job in found.tenants
    }
    of = [unit[world.state.clients[client].job] for client in (first, second, third, again)]
    assert (of[0] == of[1]) == same
    assert of[2] not in (of[0], of[1], of[3])
    assert (of[0] == of[3]) == (per != "tenant")


OPEN = "class all { match any }  arbitrate open {}  all.max_inflight = 3"
PAUSED = "class all { match any }  all.pause = true"
FOUR = "class all { match any }  all.max_inflight = 4"


def test_the_tightest_of_several_policies_holds() -> None:
    world = World(running=board(("open", OPEN), ("paused", PAUSED), ("four", FOUR)))
    client = world.low()
    assert words(world, client).gate == GATE_PAUSED | GATE_WINDOW
    assert words(world, client).max_inflight == 3
    assert (words(world, client).rank, words(world, client).peers) == (0, ())


def test_without_an_arbiter_nobody_holds_anybody() -> None:
    world = World(running=board(("four", FOUR)))
    low, high = world.low(), world.high()
    assert words(world, low).gate == words(world, high).gate == GATE_WINDOW
    assert words(world, low).max_pause_ns == FOREVER_NS
    assert world.class_of(low) == ""


@pytest.mark.parametrize(
    ("failsafe", "after_ns"),
    [
        ("", 30 * SECOND),
        ("failsafe { daemon_lost = open }", 0),
        ("failsafe { daemon_lost = hold }", 30 * SECOND),
        ("failsafe { daemon_lost = hold  after = 3min }", 180 * SECOND),
        ("failsafe { daemon_lost = hold  after = unlimited }", None),
    ],
)
def test_failsafe(failsafe: str, after_ns: int | None) -> None:
    world = World(running=board(("p", f"class all {{ match any }}  arbitrate open {{}}  {failsafe}")))
    _, effects = world.attach()
    assert [effect.after_ns for effect in only(effects, do.PublishFailsafe)] == [after_ns]


@pytest.mark.parametrize("first", ["1s", "unlimited"])
def test_never_is_stricter_than_any_time(first: str) -> None:
    body = "class all {{ match any }}  arbitrate open {{}}  failsafe {{ daemon_lost = hold  after = {} }}"
    policies = (("a", body.format(first)), ("b", body.format("unlimited" if first == "1s" else "1s")))
    world = World(running=board(*policies, site='apply "a" to gpu 0\napply "b" to gpu *'))
    client, _ = world.attach()
    world.react(ev.DevicesReported(client=client, devices=((A, 1), (B, 1))))
    assert failsafe_of(world.state, world.state.clients[client]).after_ns is None


def test_the_strictest_failsafe_of_its_devices() -> None:
    body = "class all {{ match any }}  arbitrate open {{}}  failsafe {{ daemon_lost = hold  after = {} }}"
    policies = (("short", body.format("1s")), ("long", body.format("1min")))
    world = World(running=board(*policies, site='apply "short" to gpu 0\napply "long" to gpu *'))
    client, effects = world.attach()
    assert only(effects, do.PublishFailsafe)[0].after_ns == 60 * SECOND  # no device yet: nobody knows
    world.react(ev.Mapped(client=client))
    effects = world.react(ev.DevicesReported(client=client, devices=((A, 1),)))
    assert only(effects, do.PublishFailsafe)[0].after_ns == 1 * SECOND
    effects = world.react(ev.DevicesReported(client=client, devices=((A, 1), (B, 1))))
    assert only(effects, do.PublishFailsafe)[0].after_ns == 60 * SECOND
    assert not only(world.react(ev.DevicesReported(client=client, devices=((A, 1), (B, 1)))), do.PublishFailsafe)
