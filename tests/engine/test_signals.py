"""What policies see, and what they do about it: a policy per signal, told by its knob."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.engine import saved
from gpud.engine.enforced import ENFORCED
from gpud.engine.signals import STALE_NS, Members, of_tenants, snapshot, wants_charging
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot, uuid_text
from gpud.model.units import MILLISECOND, SECOND
from gpud.policies.plugins.declare import Bytes, Gpu, Number, Plugin, Signal
from gpud.policies.schema import SIGNALS
from gpud.testing.boards import board_from_texts
from tests.engine.conftest import GIB, UUID, World, asks, board, new_state

S0 = Slot(0)
ALL = sorted(name for scope, name in ENFORCED.signals if scope == "class")
COUNTS = ("queued", "tenants", "waiters")
SEES = "\n".join(
    f"when high.{name} {'' if name == 'active' else '> 0' if name in COUNTS else '> 1' + unit} "
    "{ low.max_inflight = 1 }"
    for name, unit in [
        *(("active", ""), ("idle_for", "s"), ("queued", ""), ("launch_rate", "/s"), ("wait_p99", "s")),
        *(("memory_used", "GiB"), ("tenants", ""), ("block_rate", "/s"), ("copy_rate", "GiB/s")),
        *(("busy", "%"), ("delay_p99", "s"), ("waiters", ""), ("longest_wait", "s")),
    ]
)
POLICY = f"""
  class high {{ match label("tier") == "online" }}
  class low  {{ match any }}
  arbitrate preempt {{ order = [high, low]  resume_after = 1ms }}
  {SEES}
  when gpu.memory_free > 1GiB {{ low.max_inflight = 2 }}
  when gpu.waiters > 0 {{ low.max_inflight = 2 }}
  when gpu.memory_total > 1GiB {{ low.max_inflight = 2 }}
  when gpu.busy > 1% or gpu.power > 1 or gpu.temperature > 1 {{ low.max_inflight = 2 }}
  when host.memory_free > 1GiB {{ low.max_inflight = 2 }}
"""


def new_world() -> World:
    return World(running=board(("sees", POLICY)))


def told(uuid: bytes, total: int, used: int, **more: float) -> ev.DriverTold:
    return ev.DriverTold(devices={uuid: ev.Seen(total_bytes=total, used_bytes=used, **more)})  # type: ignore[arg-type]


def seen(world: World, slot: Slot = S0) -> dict[str, Any]:
    """By name, as the policy's last tick saw it."""
    run = world.state.runs[slot]
    return {ref.text: value for ref, value in zip(run.stack[0].program.signals, run.ran[0].snapshot, strict=True)}


def test_whoever_was_active_between_two_looks_was_active() -> None:
    """One that works half a millisecond in twenty was seen by chance only: a rule on it came into force 0.4 s late."""
    world = new_world()
    high, _ = world.high(), world.low()
    world.ticks(5 * MILLISECOND, {high: Counters()})
    assert seen(world)["high.active"] is False
    blink = Counters(edges=2, entered=1, idle_since_ns=world.now)
    world.ticks(5 * MILLISECOND, {high: blink})
    assert seen(world)["high.active"] is True
    world.ticks(5 * MILLISECOND, {high: blink})
    assert seen(world)["high.active"] is False
    world.ticks(5 * MILLISECOND, {high: Counters(edges=3, entered=2, active=True)})
    assert seen(world)["high.active"] is True
    world.ticks(5 * MILLISECOND, {high: Counters(edges=4, entered=2)})
    assert seen(world)["high.active"] is False, "that it was active was seen"


def test_every_signal_that_is_enforced_is_in_this_test() -> None:
    world = new_world()
    world.low()
    world.ticks(0)
    assert {(name.split(".")[0], name.split(".")[1]) for name in seen(world)} == {
        ("high" if scope == "class" else scope, name) for scope, name in ENFORCED.signals
    }


def test_a_class_without_members_is_idle_not_unknown() -> None:
    world = new_world()
    world.low()
    world.ticks(10 * SECOND)
    found = seen(world)
    for name in ALL:
        assert found[f"high.{name}"] == SIGNALS["class", name].idle, name


def test_all_members_together() -> None:
    world = new_world()
    low, first, second = world.low(), world.high(), world.high()
    world.ticks(0)
    counters = {
        first: Counters(entered=100, used_bytes=GIB, holding=2, active=True, hold_since_ns=world.now),
        second: Counters(entered=50, used_bytes=2 * GIB, holding=1, idle_since_ns=world.now, hold_since_ns=world.now),
        low: Counters(entered=9999, used_bytes=9999, holding=99),
    }
    world.ticks(100 * MILLISECOND, counters)
    found = seen(world)
    assert found["high.active"] is True
    assert found["high.idle_for"] == 0
    assert found["high.queued"] == 3
    assert found["high.launch_rate"] == 1500.0
    assert found["high.memory_used"] == 3 * GIB
    assert found["high.tenants"] == 2
    assert 50 * MILLISECOND < found["high.wait_p99"] < 200 * MILLISECOND


def test_gpu_time_blocks_copies_and_delays_of_all_members() -> None:
    world = new_world()
    low, first, second = world.low(), world.high(), world.high()
    world.ticks(0)
    ms = MILLISECOND
    counters = {
        first: Counters(entered=10, active=1, spent_ns=30 * ms, blocks=400, copy_bytes=GIB),
        second: Counters(entered=10, spent_ns=10 * ms, blocks=100, copy_bytes=GIB),
        low: Counters(entered=10, active=1, spent_ns=20 * ms, blocks=999),
    }
    delays = {first: (0,) * 11 + (100,) + (0,) * 20, low: (0,) * 20 + (100,) + (0,) * 11}
    world.ticks(100 * ms, counters, delays=delays)
    found = seen(world)
    assert found["high.busy"] == pytest.approx(0.4)
    assert found["gpu.busy"] == pytest.approx(0.6)
    assert found["high.block_rate"] == 5000.0
    assert found["high.copy_rate"] == 20.0 * GIB
    assert 2 * ms < found["high.delay_p99"] <= 4.1 * ms


def test_all_together_have_one_device() -> None:
    """Whoever charges too much, or writes nonsense."""
    world = new_world()
    clients = [world.high() for _ in range(3)]
    world.ticks(0)
    world.ticks(100 * MILLISECOND, {c: Counters(entered=1, active=1, spent_ns=2**63) for c in clients})
    assert (seen(world)["high.busy"], seen(world)["gpu.busy"]) == (1.0, 1.0)


def test_what_is_estimated_is_a_value() -> None:
    world = new_world()
    world.low()
    high = world.high()
    world.ticks(0)
    world.ticks(100 * MILLISECOND, {high: Counters(entered=1, active=1, spent_ns=50 * MILLISECOND, estimated=1)})
    assert seen(world)["high.busy"] == 0.5


def test_the_device_of_somebody_who_has_not_come_back_is_as_busy_as_nobody_knows() -> None:
    world = new_world()
    world.low()
    content = saved.dump(world.state, "boot")
    found = saved.load(content, "boot")
    assert found is not None
    world.state = new_state(world.state.board)
    saved.restore(world.state, found, lambda pid, started: True, world.now + 10 * SECOND)
    world.react(ev.Tick())
    world.ticks(0)
    assert seen(world)["gpu.busy"] is None


def test_launches_are_charged_where_a_policy_reads_what_comes_of_it() -> None:
    for signal in ("n.busy > 1%", "n.block_rate > 1/s", "n.delay_p99 > 1s", "n.copy_rate > 1GiB/s", "gpu.busy > 1%"):
        body = f"class n {{ match any }} arbitrate open {{}} when {signal} {{ n.max_inflight = 7 }}"
        world = World(running=board(("charge", body)))
        tenant = world.state.tenants[world.state.clients[world.low()].job]
        assert wants_charging(world.state, tenant, S0), signal
    body = "class n { match any } arbitrate open {} when n.launch_rate > 1/s { n.max_inflight = 7 }"
    world = World(running=board(("plain", body)))
    tenant = world.state.tenants[world.state.clients[world.low()].job]
    assert not wants_charging(world.state, tenant, S0)


def test_two_processes_of_one_job_are_one_tenant() -> None:
    world = new_world()
    launcher, _ = world.launch(label_tier="online")
    world.ready(launcher)
    world.ready(launcher)
    world.ticks(0)
    assert seen(world)["high.tenants"] == 1


def test_idle_for_is_the_least_and_counts_on_when_they_leave() -> None:
    world = new_world()
    world.low()
    first, second = world.high(), world.high()
    world.ticks(SECOND)
    assert seen(world)["high.idle_for"] == math.inf  # never active
    at = world.now
    world.ticks(SECOND, {first: Counters(idle_since_ns=at), second: Counters(idle_since_ns=at - SECOND)})
    assert seen(world)["high.idle_for"] == SECOND
    world.gone(first)
    world.ticks(SECOND, {second: Counters(idle_since_ns=at - SECOND)})
    assert seen(world)["high.idle_for"] == 2 * SECOND
    world.gone(second)
    world.ticks(SECOND)
    assert seen(world)["high.idle_for"] == 3 * SECOND
    third = world.high()
    world.ticks(SECOND, {third: Counters(active=True)})
    assert seen(world)["high.idle_for"] == 0
    world.gone(third)
    world.ticks(SECOND)
    assert seen(world)["high.idle_for"] == SECOND


@given(
    entered=st.integers(0, 2**64 - 1),
    idle_since=st.integers(0, 2**64 - 1),
    holding=st.integers(0, 64),
    since=st.integers(0, 2**64 - 1),
    buckets=st.lists(st.integers(0, 2**64 - 1), min_size=32, max_size=32),
    active=st.booleans(),
)
def test_whatever_a_hook_writes_is_a_value(
    entered: int, idle_since: int, holding: int, since: int, buckets: list[int], active: bool
) -> None:
    world = new_world()
    world.low()
    high = world.high()
    counters = Counters(
        entered=entered, idle_since_ns=idle_since, holding=holding, hold_since_ns=since, active=active,
        used_bytes=entered, spent_ns=since, blocks=idle_since, copy_bytes=entered,
    )  # fmt: skip
    for _ in range(3):
        world.ticks(5 * MILLISECOND, {high: counters}, {high: tuple(buckets)}, {high: tuple(buckets)})
        found = seen(world)
        for name in ALL:
            value = found[f"high.{name}"]
            assert value is not None
            assert value >= 0, name
        assert not world.state.runs[S0].ran[0].failed


def test_the_same_readings_make_the_same_values() -> None:
    """Whatever order they come in."""
    worlds = [new_world(), new_world()]
    clients = [[world.low(), *(world.high() for _ in range(5))] for world in worlds]
    counters = {client: Counters(entered=client * 37, used_bytes=client) for client in clients[0]}
    for world, order in zip(worlds, (1, -1), strict=True):
        for ns in (5, 50, 7):
            world.now += ns * MILLISECOND
            reading = world.reading(counters)
            turned = dict(list(reading.counters.items())[::order])
            world.react(ev.Tick(reading=ev.Reading(wall_ns=0, counters=turned, histograms={})))
    assert seen(worlds[0]) == seen(worlds[1])


def test_who_has_not_come_back_from_an_earlier_daemon_makes_its_class_unknown() -> None:
    """It may be doing anything meanwhile. What others of its class do is known all the same."""
    world = new_world()
    low, first, second = world.low(), world.high(), world.high()
    content = saved.dump(world.state, "boot")
    found = saved.load(content, "boot")
    assert found is not None
    world.state = new_state(world.state.board)
    saved.restore(world.state, found, lambda pid, started: True, world.now + 10 * SECOND)
    world.react(ev.Tick())
    world.ticks(0)
    values = seen(world)
    assert {name: values[f"high.{name}"] for name in ALL} == dict.fromkeys(ALL) | {"tenants": 2}
    for client in (low, first):
        who, generation = world.state.clients[client].who, world.state.clients[client].generation
        world.react(asks(world.session(), who, client, generation))
        world.react(ev.Mapped(client=client))
    world.ticks(5 * MILLISECOND, {first: Counters(active=True, idle_since_ns=world.now, used_bytes=4 * GIB)})
    values = seen(world)
    assert {name: values[f"high.{name}"] for name in ALL} == dict.fromkeys(ALL) | {
        "active": True, "idle_for": 0, "tenants": 2,
    }  # fmt: skip
    who, generation = world.state.clients[second].who, world.state.clients[second].generation
    world.react(asks(world.session(), who, second, generation))
    world.react(ev.Mapped(client=second))
    world.ticks(5 * MILLISECOND, {first: Counters(used_bytes=4 * GIB, idle_since_ns=world.now)})
    values = seen(world)
    assert values["high.memory_used"] == 4 * GIB
    assert not any(values[f"high.{name}"] is None for name in ALL)


def test_of_a_tenant_likewise() -> None:
    world = World(running=board(("each", EACH.replace("n.queued > 1", "n.idle_for > 1s and n.queued > 1"))))
    world.ready(world.launch(label_kind="nb")[0])
    found = saved.load(saved.dump(world.state, "boot"), "boot")
    assert found is not None
    world.state = new_state(world.state.board)
    saved.restore(world.state, found, lambda pid, started: True, world.now + 10 * SECOND)
    world.react(ev.Tick())
    applied = world.state.runs[S0].stack[0]
    values = of_tenants(world.state, S0, applied, Members(world.state, S0, applied), world.now)
    assert values == {1: ("nb", None, None)}


def test_memory_of_the_device_as_the_driver_told_last() -> None:
    world = new_world()
    world.low()
    world.ticks(0)
    assert seen(world)["gpu.memory_free"] is None
    assert seen(world)["gpu.power"] is None
    assert seen(world)["gpu.memory_total"] == GIB
    world.react(told(UUID, 40 * GIB, 10 * GIB, power_w=312.5, temperature_c=71.0))
    world.react(told(bytes(16), 1, 1))
    world.ticks(SECOND)
    assert seen(world)["gpu.memory_free"] == 30 * GIB
    assert (seen(world)["gpu.power"], seen(world)["gpu.temperature"]) == (312.5, 71.0)
    world.react(told(UUID, 40 * GIB, 10 * GIB))
    world.ticks(0)
    assert seen(world)["gpu.temperature"] is None  # a board without a sensor
    world.ticks(STALE_NS)
    assert seen(world)["gpu.memory_free"] is None  # the driver hangs
    assert seen(world)["gpu.power"] is None


def test_memory_of_the_host() -> None:
    world = new_world()
    world.low()
    world.ticks(0, host_free=5 * GIB)
    assert seen(world)["host.memory_free"] == 5 * GIB
    world.ticks(0)
    assert seen(world)["host.memory_free"] is None


PLUGIN = Plugin(
    name="vllm",
    signals=(Signal("depth", Number), Signal("cache", Bytes, scope=Gpu)),
    open=lambda: None,
)
PLUGGED = """gpol 1
use vllm
policy "plugged" {
  class serving { match label("tier") == "online" }
  class low     { match any }
  arbitrate preempt { order = [serving, low]  resume_after = 1ms }
  when serving.vllm.depth > 3 or gpu.vllm.cache > 1GiB { low.max_inflight = 1 }
}
apply "plugged" to gpu *
"""


def test_signals_of_plugins_and_when_they_are_stale() -> None:
    world = World(running=board_from_texts({"p.gpol": PLUGGED}, plugins={"vllm": PLUGIN}))
    world.low()

    def sample(signal: str, target: str, value: float | None, ago: int = 0) -> None:
        world.react(
            ev.PluginSample(plugin="vllm", signal=signal, target=target, value=value, mono_ns=world.now - ago,
                            stale_after_ns=SECOND)
        )  # fmt: skip

    def depth() -> Any:
        world.ticks(5 * MILLISECOND)
        return seen(world)["serving.vllm.depth"], seen(world)["gpu.vllm.cache"]

    assert depth() == (None, None)
    sample("depth", "serving", 5)
    sample("depth", "low", 99)
    sample("cache", uuid_text(UUID), GIB)
    sample("cache", uuid_text(bytes(16)), 99)
    assert depth() == (5, GIB)
    world.now += SECOND
    assert depth() == (None, None)
    sample("depth", "serving", 6, ago=2 * SECOND)  # came late
    assert depth() == (None, None)
    sample("depth", "serving", 0)
    assert depth() == (0, None)
    sample("depth", "serving", None)
    assert depth() == (None, None)
    sample("depth", "serving", 7)
    world.react(ev.PluginsGone(plugin="vllm"))
    assert depth() == (None, None)
    assert world.state.samples == {}


EACH = """
  class nb   { match label("kind") == "nb" }
  class rest { match any }
  arbitrate open {}
  each nb as n { when n.queued > 1 { n.max_inflight = 7 } }
"""


def test_rules_about_one_tenant_see_and_concern_that_tenant() -> None:
    world = World(running=board(("each", EACH)))
    first, second = world.ready(world.launch(label_kind="nb")[0]), world.ready(world.launch(label_kind="nb")[0])
    rest = world.ready(world.launch()[0])
    world.ticks(5 * MILLISECOND, {second: Counters(holding=2), rest: Counters(holding=9)})
    inflight = [world.state.clients[client].words[S0].max_inflight for client in (first, second, rest)]
    assert inflight == [0, 7, 0]
    applied = world.state.runs[S0].stack[0]
    values = of_tenants(world.state, S0, applied, Members(world.state, S0, applied), world.now)
    assert {job: row[0] for job, row in values.items()} == {1: "nb", 2: "nb"}


def test_signals_are_those_of_the_device() -> None:
    other = bytes(reversed(range(16)))
    world = new_world()
    world.ready(world.launch()[0], [UUID, other])
    high = world.ready(world.launch(label_tier="online")[0], [other])
    world.ticks(0, {high: Counters(active=True, holding=1)})
    assert seen(world, Slot(0))["high.tenants"] == 0
    assert (seen(world, Slot(1))["high.tenants"], seen(world, Slot(1))["high.active"]) == (1, True)


def test_a_snapshot_has_the_order_of_the_programs_signals() -> None:
    world = new_world()
    client = world.high()
    world.ticks(0, {client: Counters(used_bytes=5)})
    run = world.state.runs[S0]
    found = snapshot(world.state, run, S0, run.stack[0], Members(world.state, S0, run.stack[0]), world.now)
    names = [ref.text for ref in run.stack[0].program.signals]
    assert found[names.index("high.memory_used")] == 5


@pytest.mark.parametrize("name", sorted(ENFORCED.tenant_signals - {"longest_wait"}))  # it waits in test_lock.py
def test_every_signal_of_a_tenant_that_is_enforced_is_measured(name: str) -> None:
    condition = {"active": "n.active", "queued": "n.queued > 0", "launch_rate": "n.launch_rate > 1/s"}
    condition |= {"idle_for": "n.idle_for < 1s", "wait_p99": "n.wait_p99 > 1ms", "memory_used": "n.memory_used > 1GiB"}
    condition |= {"busy": "n.busy > 1%", "block_rate": "n.block_rate > 1/s", "copy_rate": "n.copy_rate > 1MiB/s"}
    condition |= {"delay_p99": "n.delay_p99 > 1ms"}
    rule = f"when {condition[name]} {{ n.max_inflight = 7 }}"
    body = f"class all {{ match any }} arbitrate open {{}} each all as n {{ {rule} }}"
    world = World(running=board(("each", body)))
    client = world.low()
    world.ticks(2 * SECOND)  # it has launched nothing, and has been idle since it attached
    assert world.state.clients[client].words[S0].max_inflight == 0
    counters = Counters(
        active=name == "active", holding=1, hold_since_ns=world.now - SECOND, used_bytes=2 * GIB,
        entered=100 if name == "launch_rate" else 0, idle_since_ns=world.now, blocks=999, copy_bytes=GIB,
        spent_ns=5 * MILLISECOND,
    )  # fmt: skip
    world.ticks(5 * MILLISECOND, {client: counters}, delays={client: (0,) * 20 + (1,) + (0,) * 11})
    assert world.state.clients[client].words[S0].max_inflight == 7


def test_numbers_of_jobs_are_what_each_knows_tenants_by() -> None:
    world = World(running=board(("each", EACH)))
    client = world.ready(world.launch(label_kind="nb")[0])
    world.ticks(5 * MILLISECOND, {client: Counters(holding=2)})
    ((job, _, _),) = world.state.runs[S0].ran[0].knobs.tenants
    assert JobId(job) == world.state.clients[ClientId(client)].job


def test_of_whom_no_policy_reads_the_meter_is_seldom_fed() -> None:
    """A policy that reads of one class costs nothing for the others; screens are told of them all the same."""
    rules = 'class high { match label("tier") == "online" }  class low { match any }  arbitrate open {}\n'
    world = World(running=board(("reads", rules + "when high.busy > 90% { low.max_inflight = 1 }")))
    high, low = world.high(), world.low()
    for number in range(1, 301):
        spent = number * 5 * MILLISECOND
        world.ticks(10 * MILLISECOND, {one: Counters(active=True, spent_ns=spent) for one in (high, low)})
        meters = [world.state.meters[one, S0] for one in (high, low)]
        assert [meter.counters.spent_ns for meter in meters] == [spent, spent]
        assert meters[0].fed_ns == world.now
        assert world.now - meters[1].fed_ns < 500 * MILLISECOND
        if number > 200:
            assert [meter.busy(world.now) for meter in meters] == [pytest.approx(0.5, abs=0.01)] * 2
    assert world.state.active == {(high, S0), (low, S0)}
    assert len(meters[1]._past) <= 3
