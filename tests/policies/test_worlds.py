"""Each world by itself: what it answers to what is decided."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpud.policies.ir import IrPolicy
from gpud.policies.library import from_texts
from gpud.policies.resolve import resolve_policy
from gpud.policies.schema import KNOBS, UNLIMITED
from gpud.policies.simulate.worlds import WORLDS, Setup, World, begin_world
from gpud.policies.simulate.worlds.shares import divide
from gpud.policies.tenants import TenantFacts
from gpud.policies.values import Share

MS, S, GIB = 10**6, 10**9, 2**30
BEGIN = 1000 * S


def policy(text: str) -> IrPolicy:
    library = from_texts({"a.gpol": 'gpol 1\npolicy "p" {' + text + "}"})
    assert not library.diagnostics
    ir, found = resolve_policy(*library.policies["p"])
    assert ir is not None
    assert not found
    return ir


def world(
    name: str, text: str, members: Mapping[str, str] | None = None, attached: tuple[str, ...] = (), **arguments: Any
) -> World:
    kind = WORLDS[name]
    given = {row.name: row.default for row in kind.parameters} | arguments
    facts = {tenant: TenantFacts(labels={}, user=tenant[0]) for tenant in attached}
    return begin_world(
        kind, Setup(policy=policy(text), arguments=given, members=members or {}, attached=facts, now=BEGIN)
    )


def knobs(**values: Any) -> Any:
    """`knobs(low_pause=True)`: all others as they are built in."""
    return lambda owner, name: values.get(f"{owner}_{name}", KNOBS[name].default)


def measured(of: World, at: int) -> dict[str, Any]:
    return dict(of.signals(BEGIN + at))


# -------------------------------------------------------------------------------------------------------- contention

OPEN = 'class high { match label("t") == "o" } class low { match any } arbitrate open {}'


def contention(**arguments: Any) -> World:
    given = {"capacity": 3000.0, "high_demand": 1000.0, "low_demand": 10_000.0} | arguments
    return world("contention", OPEN, **given)


def test_contention_gives_both_in_proportion_to_what_they_want() -> None:
    signals = measured(contention(), S)
    assert signals["high.launch_rate"] == pytest.approx(3000 * 1000 / 11_000)
    assert signals["low.launch_rate"] == pytest.approx(3000 * 10_000 / 11_000)
    assert signals["gpu.busy"] == pytest.approx(1.0)
    assert signals["high.active"]
    assert signals["low.active"]


def test_contention_leaves_both_alone_while_there_is_room() -> None:
    running = contention()
    running.decided(knobs(low_max_launch_rate=500.0), BEGIN)
    assert measured(running, S) == {
        "high.launch_rate": 1000.0, "high.block_rate": 1000.0, "high.busy": 1000 / 3000, "high.active": True,
        "low.launch_rate": 500.0, "low.block_rate": 500.0, "low.busy": 500 / 3000, "low.active": True,
        "high.delay_p99": 0, "low.delay_p99": 0, "high.tenants": 1, "low.tenants": 1, "gpu.busy": 0.5,
    }  # fmt: skip


def test_contention_counts_blocks_and_limits_them() -> None:
    running = contention(blocks=100)
    running.decided(knobs(low_max_block_rate=50_000.0), BEGIN)
    signals = measured(running, S)
    assert (signals["high.block_rate"], signals["low.launch_rate"]) == (100_000.0, 500.0)
    running.set("blocks", 1000, BEGIN + S)
    assert measured(running, 2 * S)["low.launch_rate"] == 50.0
    running.set("blocks", 0, BEGIN + 2 * S)
    assert measured(running, 3 * S)["low.block_rate"] == 0


def delay(**values: Any) -> int:
    """Of `high` beside a `low` that wants more than there is, in microseconds."""
    running = contention(capacity=1000.0, **{k: v for k, v in values.items() if k in ("depth", "misjudged")})
    running.decided(knobs(**{k: v for k, v in values.items() if k.startswith("low_")}), BEGIN)
    return int(measured(running, S)["high.delay_p99"]) // 1000


def test_contention_delays_whoever_starts_behind_the_queue() -> None:
    assert delay() == 1_024_000, "as much as it submits ahead"
    assert delay(depth=16) == 16_000
    assert delay(low_max_inflight=4) == 4_000
    assert delay(low_max_inflight_time=2 * MS) == 2_000
    assert delay(low_max_inflight_time=2 * MS, low_max_inflight=1) == 1_000
    assert delay(low_max_inflight_time=500_000) == 1_000, "one launch goes always"
    assert delay(low_max_inflight_time=2 * MS, misjudged=2) == 4_000, "they take twice what they are thought to"
    assert delay(low_max_inflight_time=2 * MS, misjudged=0.5) == 1_000, "half of it"
    assert delay(low_pause=True) == 0


def test_contention_does_not_delay_while_there_is_room() -> None:
    running = contention(low_demand=1000.0)
    assert measured(running, S)["high.delay_p99"] == 0


def test_contention_on_a_device_that_does_nothing() -> None:
    running = contention(capacity=0.0)
    assert measured(running, S)["gpu.busy"] == 0


def test_contention_heeds_pause_and_compute() -> None:
    running = contention()
    running.decided(knobs(low_pause=True), BEGIN)
    assert measured(running, S)["low.launch_rate"] == 0
    assert not measured(running, S)["low.active"]
    running.decided(knobs(low_max_compute=0.1), BEGIN + S)
    assert measured(running, 2 * S)["low.launch_rate"] == pytest.approx(300)


def test_contention_measures_over_a_tenth_of_a_second() -> None:
    running = contention(low_demand=0.0)
    assert measured(running, 0)["high.launch_rate"] == 0
    assert measured(running, 50 * MS)["high.launch_rate"] == pytest.approx(500)
    assert running.next_ns(BEGIN + 50 * MS) == BEGIN + 55 * MS
    assert measured(running, 100 * MS)["high.launch_rate"] == 1000.0
    assert running.next_ns(BEGIN + 100 * MS) is None
    running.set("high_demand", 0.0, BEGIN + 200 * MS)
    assert measured(running, 250 * MS)["high.launch_rate"] == pytest.approx(500)
    assert not measured(running, 250 * MS)["high.active"]
    assert measured(running, 300 * MS)["high.launch_rate"] == 0.0


def test_contention_is_exact_again_after_any_number_of_changes() -> None:
    running = contention(low_demand=1.1)
    for step in range(10_000):
        running.decided(knobs(low_max_launch_rate=0.1 + step % 7), BEGIN + step * 5 * MS)
        measured(running, step * 5 * MS)
    running.decided(knobs(), BEGIN + 50 * S)
    assert measured(running, 51 * S)["low.launch_rate"] == 1.1


# ------------------------------------------------------------------------------------------------------------ memory

LIMITER = 'class gold { match label("p") == "g" } class rest { match any }'


def memory(**arguments: Any) -> World:
    given = {"total": 40 * GIB, "gold": 10 * GIB, "rest": 16 * GIB} | arguments
    return world("memory", LIMITER, {"gold": "gold", "rest": "rest"}, **given)


def test_memory_comes_free_when_somebody_is_moved_out() -> None:
    running = memory()
    assert measured(running, 0)["gpu.memory_free"] == 14 * GIB
    running.decided(knobs(rest_residency="host"), BEGIN + S)
    signals = measured(running, S)
    assert signals["gpu.memory_free"] == 30 * GIB
    assert (signals["rest.memory_used"], signals["gold.memory_used"]) == (0, 10 * GIB)
    assert signals["host.memory_free"] == 48 * GIB
    running.decided(knobs(), BEGIN + 2 * S)
    assert measured(running, 2 * S)["gpu.memory_free"] == 14 * GIB


def test_memory_on_disk_takes_no_host_memory() -> None:
    running = memory()
    running.decided(knobs(rest_residency="disk"), BEGIN)
    assert measured(running, 0)["host.memory_free"] == 64 * GIB


def test_memory_moves_as_fast_as_it_can() -> None:
    running = memory(swap=8.0 * GIB)
    assert running.next_ns(BEGIN) is None, "what is there at the beginning has been there before"
    running.decided(knobs(rest_residency="host"), BEGIN)
    assert measured(running, S)["rest.memory_used"] == 8 * GIB
    assert running.next_ns(BEGIN + S) == BEGIN + S + 5 * MS
    assert measured(running, 2 * S)["rest.memory_used"] == 0
    assert running.next_ns(BEGIN + 2 * S) is None


def test_memory_that_does_not_fit_stays_out() -> None:
    running = memory()
    running.set("gold", 30 * GIB, BEGIN + S)
    signals = measured(running, S)
    assert signals["gold.memory_used"] == 24 * GIB, "as much as was free"
    assert signals["gpu.memory_free"] == 0
    running.set("rest", 4 * GIB, BEGIN + 2 * S)
    assert measured(running, 2 * S)["gold.memory_used"] == 30 * GIB


# ------------------------------------------------------------------------------------------------------------- turns

LOCK = "class job { match any } arbitrate exclusive { max_hold = 30s  grace = 2s }"


def turns(text: str = LOCK, **wanted: int) -> World:
    return world("turns", text, {name: name for name in wanted if name != "late"}, **wanted)


def through(running: World, until: int, knob: Any) -> None:
    """Looks as often as the world says."""
    at = BEGIN
    while at < BEGIN + until:
        running.decided(knob, at)
        due = running.next_ns(at)
        at = min(due, BEGIN + until) if due is not None else BEGIN + until
    running.decided(knob, at)


def test_turns_one_job_alone_keeps_the_device() -> None:
    running = turns(job=1)
    through(running, 3600 * S, knobs(job_max_hold=30 * S))
    assert running.reading("turns", BEGIN + 3600 * S) == 1
    assert measured(running, 3600 * S) == {
        "job.waiters": 0, "job.longest_wait": 0, "job.active": True, "gpu.waiters": 0,
    }  # fmt: skip


def test_turns_go_round_first_come_first_served() -> None:
    running = turns(job=3)
    through(running, 89 * S, knobs(job_max_hold=30 * S))
    assert running.reading("turns", BEGIN + 89 * S) == 3
    assert running.reading("last_turn", BEGIN + 89 * S) == 30 * S
    signals = measured(running, 89 * S)
    assert (signals["gpu.waiters"], signals["job.longest_wait"]) == (2, 59 * S)


def test_turns_unlimited_are_not_taken_back() -> None:
    running = turns(job=2)
    through(running, 3600 * S, knobs(job_max_hold=UNLIMITED))
    assert running.reading("turns", BEGIN + 3600 * S) == 1
    running.decided(knobs(job_max_hold=30 * S), BEGIN + 3600 * S)
    assert running.reading("turns", BEGIN + 3600 * S) == 2, "an hour is longer than half a minute"


def test_turns_a_paused_class_does_not_ask() -> None:
    running = turns(job=2)
    through(running, 3600 * S, knobs(job_max_hold=30 * S, job_pause=True))
    assert measured(running, 3600 * S)["gpu.waiters"] == 0


def test_turns_heed_ranks_and_the_shortest_turn() -> None:
    text = (
        'class a { match label("k") == "a" } class b { match any } '
        "arbitrate exclusive { max_hold = 20s  order = [b, a]  min_hold = 10s }"
    )
    running = turns(text, a=1, b=1)
    assert measured(running, 0)["b.active"] is False, "the first who came has it"
    through(running, 11 * S, knobs(a_max_hold=5 * S, b_max_hold=5 * S))
    assert measured(running, 11 * S)["b.active"] is True
    assert running.reading("last_turn", BEGIN + 11 * S) == 10 * S


def test_turns_who_is_late_keeps_the_others_out() -> None:
    running = turns(job=2, late=60 * S)
    through(running, 89 * S, knobs(job_max_hold=30 * S))
    assert running.reading("overrun", BEGIN + 89 * S) == 57 * S, "its grace is 2 s"
    assert (running.reading("turns", BEGIN + 89 * S), measured(running, 89 * S)["gpu.waiters"]) == (1, 1)
    through(running, 90 * S, knobs(job_max_hold=30 * S))
    assert (running.reading("turns", BEGIN + 90 * S), running.reading("last_turn", BEGIN + 90 * S)) == (2, 90 * S)
    assert (running.reading("overrun", BEGIN + 90 * S), running.reading("ended", BEGIN + 90 * S)) == (0, 0)


def test_turns_who_is_late_for_too_long_is_ended() -> None:
    running = turns(job=2, late=60 * S)
    through(running, 3600 * S, knobs(job_max_hold=30 * S, job_max_overrun=5 * S))
    assert running.reading("ended", BEGIN + 3600 * S) == 1, "the other one is alone then, and nobody asks it"
    assert (running.reading("last_turn", BEGIN + 3600 * S), running.reading("job", BEGIN + 3600 * S)) == (37 * S, 1)


def test_turns_nobody_waits_for_who_is_late_nobody_is_ended() -> None:
    running, said = turns(job=2, late=60 * S), knobs(job_max_hold=30 * S, job_max_overrun=5 * S)
    through(running, 31 * S, said)
    running.set("job", 1, BEGIN + 31 * S)
    at = BEGIN + 31 * S
    while (due := running.next_ns(at)) is not None:
        at = due
        running.decided(said, at)
    assert (at, running.reading("ended", at)) == (BEGIN + 90 * S, 0)


def test_turns_who_no_longer_wants_leaves() -> None:
    running = turns(job=2)
    running.set("job", 1, BEGIN + S)
    assert measured(running, S)["gpu.waiters"] == 0
    running.set("job", 0, BEGIN + 2 * S)
    assert measured(running, 2 * S)["job.active"] is False
    running.set("job", 1, BEGIN + 3 * S)
    assert running.reading("turns", BEGIN + 3 * S) == 2


# ------------------------------------------------------------------------------------------------------------ shares


def shared(shares: Mapping[str, Share], wants: Mapping[str, float], **more: Any) -> dict[str, float]:
    """Class → GPU time, each class one unit."""
    text = "".join(f'class {name} {{ match label("k") == "{name}" }} ' for name in shares)
    running = world("shares", text + "arbitrate share { period = 20ms }", {name: name for name in wants}, **wants)
    running.decided(knobs(**{f"{name}_share": share for name, share in shares.items()}, **more), BEGIN)
    return {name: measured(running, S)[f"{name}.busy"] for name in wants}


FIXED, WEIGHT, BURST = Share("fixed", percent=30), Share("weight", weight=2), Share("burst", weight=1, max_percent=50)
ONE, EQUAL = Share("weight", weight=1), Share("equal")


@pytest.mark.parametrize(
    ("shares", "wants", "busy"),
    [
        ({"a": FIXED}, {"a": 1.0}, {"a": 0.3}),
        ({"a": FIXED, "b": WEIGHT}, {"a": 0.0, "b": 1.0}, {"a": 0.0, "b": 0.7}),
        ({"a": WEIGHT, "b": ONE}, {"a": 1.0, "b": 1.0}, {"a": 2 / 3, "b": 1 / 3}),
        ({"a": WEIGHT, "b": ONE}, {"a": 0.0, "b": 1.0}, {"a": 0.0, "b": 1 / 3}),
        ({"a": EQUAL, "b": EQUAL, "c": EQUAL}, {"a": 1.0, "b": 0.1, "c": 0.0}, {"a": 0.9, "b": 0.1, "c": 0.0}),
        ({"a": BURST}, {"a": 1.0}, {"a": 0.5}),
        ({"a": BURST, "b": EQUAL}, {"a": 1.0, "b": 0.2}, {"a": 0.5, "b": 0.2}),
        ({"a": FIXED, "b": WEIGHT, "c": ONE, "d": BURST}, dict.fromkeys("abcd", 1.0),
         {"a": 0.3, "b": 0.35, "c": 0.175, "d": 0.175}),
    ],
)  # fmt: skip
def test_shares(shares: dict[str, Share], wants: dict[str, float], busy: dict[str, float]) -> None:
    assert shared(shares, wants) == pytest.approx(busy)


def test_shares_heed_pause_and_compute() -> None:
    assert shared({"a": EQUAL, "b": EQUAL}, {"a": 1.0, "b": 1.0}, a_pause=True) == {"a": 0.0, "b": 1.0}
    assert shared({"a": EQUAL}, {"a": 1.0}, a_max_compute=0.25) == {"a": 0.25}


LIMITS = """
  class gold { match label("k") == "gold"  per = tenant  limit { compute = 40% } }
  class lax { match label("k") == "lax"  limit { compute = soft(30%) } }
  class named { match label("k") == "named"  limit { compute = label_percent("c", default = 15%) } }
  class rest { match any }
"""


def open_device(text: str, **wants: float) -> dict[str, float]:
    """Without an arbiter; each tenant is of the class that its name begins with."""
    members = {name: name.rstrip("0123456789") for name in wants}
    running = world("shares", text, members, tuple(wants), **wants)
    running.decided(knobs(), BEGIN)
    return {name: round(measured(running, S)[f"{name}.busy"], 6) for name in wants}


def test_where_nothing_arbitrates_all_get_the_same() -> None:
    assert open_device(LIMITS, rest1=1.0, rest2=1.0) == {"rest1": 0.5, "rest2": 0.5}
    assert open_device(LIMITS, rest1=1.0, rest2=0.2) == {"rest1": 0.8, "rest2": 0.2}


def test_a_limit_bounds_each_tenant() -> None:
    assert open_device(LIMITS, gold1=1.0) == {"gold1": 0.4}
    assert open_device(LIMITS, gold1=1.0, gold2=1.0) == {"gold1": 0.4, "gold2": 0.4}
    assert open_device(LIMITS, gold1=1.0, rest1=1.0) == {"gold1": 0.4, "rest1": 0.6}
    assert open_device(LIMITS, named1=1.0) == {"named1": 0.15}


def test_a_soft_limit_bounds_only_beside_others() -> None:
    assert open_device(LIMITS, lax1=1.0) == {"lax1": 1.0}
    assert open_device(LIMITS, lax1=1.0, rest1=0.1) == {"lax1": 0.3, "rest1": 0.1}
    assert open_device(LIMITS, lax1=1.0, rest1=0.0) == {"lax1": 1.0, "rest1": 0.0}


def test_a_label_says_the_limit() -> None:
    running = begin_world(
        WORLDS["shares"],
        Setup(
            policy=policy(LIMITS), arguments={"a": 1.0}, members={"a": "named"},
            attached={"a": TenantFacts(labels={"k": "named", "c": "25%"})}, now=BEGIN,
        ),
    )  # fmt: skip
    running.decided(knobs(), BEGIN)
    assert measured(running, S)["a.busy"] == 0.25


def test_a_total_bounds_a_unit_and_the_others_have_the_rest() -> None:
    running = world("shares", LIMITS, {"a": "rest", "b": "rest", "c": "gold"}, ("a", "b", "c"), a=1.0, b=1.0, c=1.0)
    running.decided(knobs(rest_max_compute=0.3), BEGIN)
    signals = measured(running, S)
    assert [round(signals[f"{name}.busy"], 6) for name in "abc"] == [0.15, 0.15, 0.4]


def test_limits_hold_beside_shares() -> None:
    text = LIMITS.replace("per = tenant", "share = fixed(60%)") + "arbitrate share { period = 20ms }"
    running = world("shares", text, {"gold": "gold", "rest": "rest"}, gold=1.0, rest=1.0)
    running.decided(knobs(gold_share=Share("fixed", percent=60)), BEGIN)
    assert measured(running, S)["gold.busy"] == 0.4


def test_shares_of_a_unit_are_divided_equally_among_its_members() -> None:
    text = "class all { match any  per = user } arbitrate share { period = 20ms }"
    tenants = ("x1", "x2", "y1")  # two users
    running = world("shares", text, dict.fromkeys(tenants, "all"), tenants, x1=1.0, x2=1.0, y1=1.0)
    running.decided(knobs(all_share=EQUAL), BEGIN)
    assert measured(running, S) == {
        "x1.busy": 0.25, "x1.active": True, "x2.busy": 0.25, "x2.active": True, "y1.busy": 0.5, "y1.active": True,
        "gpu.busy": 1.0,
    }  # fmt: skip


def test_divide_gives_nobody_more_than_he_wants_and_wastes_nothing() -> None:
    assert divide(1.0, [(1, 0.1), (1, 0.2), (2, 1.0)]) == pytest.approx([0.1, 0.2, 0.7])
    assert divide(0.5, [(1, 0.0), (3, 0.1)]) == pytest.approx([0.0, 0.1])
    assert divide(1.0, []) == []


# -------------------------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("kind", WORLDS.values(), ids=list(WORLDS))
def test_a_world_sets_what_it_says_and_reads_back_what_it_is_given(kind: Any) -> None:
    texts = {"contention": OPEN, "memory": LIMITER, "turns": LOCK}
    text = texts.get(kind.name, "class job { match any } arbitrate share { period = 20ms }")
    members = {c.name: c.name for c in policy(text).classes} if kind.of_member is not None else {}
    values = {"capacity": 3000.0, "high_demand": 1.0, "low_demand": 2.0, "total": 40 * GIB}
    arguments = {k: v for k, v in values.items() if k in {row.name for row in kind.parameters}}
    arguments |= dict.fromkeys(members, 1)
    running = world(kind.name, text, members, **arguments)
    given = {row.name: row.default for row in kind.parameters} | arguments
    drives = kind.drives(given, members)
    extra = {key for key in drives if key.endswith(".idle_for")}  # follows from `active`
    assert {key for key, _ in running.signals(BEGIN)} == set(drives) - extra
    for name, value in arguments.items():
        assert running.reading(name, BEGIN) == value
        running.set(name, value, BEGIN + S)
        assert running.reading(name, BEGIN + S) == value
    for name, _, doc in kind.readings:
        running.reading(name, BEGIN + S)
        assert doc
    assert kind.heeds <= set(KNOBS)
    assert kind.doc
    assert all(row.doc for row in kind.parameters)
