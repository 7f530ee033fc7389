"""Why a job is held, in words: each reason of the gate, with who or which line is to blame."""

import pytest
from attrs import evolve

from gpud.engine import held, publish
from gpud.engine.in_words import Levels, behind, due_ns, left_ns
from gpud.engine.report import job_view, queued_view
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.levels import Barred, Level
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import World, board

S0 = Slot(0)
MS = MILLISECOND
LEVEL = Level(tenant=JobId(0), slot=S0, cap_ns=0, cap_ppm=None, lag_ns=0, share_ppm=0, at_ns=0, spent=())


def levels(world: World, **of: Level) -> Levels:
    """`c1`: of client 1's job."""
    clients = {name: world.state.clients[ClientId(int(name[1:]))] for name in of}
    return {
        (clients[name].job, S0): evolve(level, tenant=clients[name].job, at_ns=world.now) for name, level in of.items()
    }


def text(world: World, client: ClientId, bit: int, known: Levels | None = None, **more: int) -> str:
    """For three milliseconds, by that bit."""
    row = Counters(holding=1, hold_reason=bit, hold_since_ns=world.now - 3 * MS, **more)
    tenant = world.state.tenants[world.state.clients[client].job]
    shown = job_view(world.state, tenant, {(client, S0): row}, world.now, known or {})
    assert shown.state == "held"
    assert shown.why is not None
    assert shown.why.code == publish.REASONS[bit]
    return shown.why.text.removeprefix("held for 3ms: ")


def one(body: str, **labels: str) -> tuple[World, ClientId]:
    world = World(running=board(("p", body)))
    client = world.ready(world.launch(**{f"label_{key}": value for key, value in labels.items()})[0])
    world.ticks(0)
    return world, client


def test_a_budget_names_the_limit_and_when_it_goes_on() -> None:
    world, client = one("class all { match any  limit { compute = 40% } }")
    owed = levels(world, c1=evolve(LEVEL, cap_ns=-8 * MS, cap_ppm=400_000))
    assert text(world, client, publish.GATE_BUDGET, owed) == (
        "it has used up its GPU time, 40% of the device now, by `limit { compute }` of all (p.gpol:2); goes on in 20ms"
    )
    part = levels(world, c1=evolve(LEVEL, cap_ns=5, cap_ppm=200_000))
    assert text(world, client, publish.GATE_BUDGET, part).startswith("it has used up its GPU time, 20% of the device")
    assert "goes on" not in text(world, client, publish.GATE_BUDGET, part)
    assert text(world, client, publish.GATE_BUDGET) == "it has used up its GPU time"


def test_a_budget_names_a_soft_limit_a_knob_or_a_share() -> None:
    level = evolve(LEVEL, cap_ppm=300_000)
    world, client = one("class all { match any  limit { compute = soft(30%) } }")
    assert "of all while others want it (p.gpol:2)" in text(world, client, publish.GATE_BUDGET, levels(world, c1=level))
    world, client = one("class all { match any }  all.max_compute = 30%")
    assert "by all.max_compute = 30% (p.gpol:2)" in text(world, client, publish.GATE_BUDGET, levels(world, c1=level))
    share = "class all { match any  share = fixed(30%) }  arbitrate share { period = 20ms }"
    world, client = one(share)
    assert "by its share fixed(30%) (p.gpol:2)" in text(world, client, publish.GATE_BUDGET, levels(world, c1=level))


@pytest.mark.parametrize(("weights", "most"), [((2, 1), 666_666), ((1, 3), 250_000), ((1, 9), 100_000)])
def test_a_budget_names_a_weight(weights: tuple[int, int], most: int) -> None:
    """What a weight is in parts of the device follows from all others: a wider limit is not to blame."""
    body = f"""
      class a {{ match label("tier") == "a"  share = weight({weights[0]})  limit {{ compute = 90% }} }}
      class b {{ match any  share = weight({weights[1]}) }}
      arbitrate share {{ period = 20ms }}
      a.max_compute = 80%
    """
    world, client = one(body, tier="a")
    level = evolve(LEVEL, cap_ppm=most)
    assert f"by its share weight({weights[0]}) (p.gpol:3)" in text(
        world, client, publish.GATE_BUDGET, levels(world, c1=level)
    )
    level = evolve(LEVEL, cap_ppm=most // 2)
    assert "by its share weight" in text(world, client, publish.GATE_BUDGET, levels(world, c1=level)), "a part of it"


def test_of_several_limits_the_tightest_is_named() -> None:
    world = World(
        running=board(
            ("wide", "class all { match any  limit { compute = 80% } }"),
            ("tight", "class all { match any  limit { compute = 30% } }  all.max_compute = 50%"),
        )
    )
    client = world.low()
    world.ticks(0)
    known = levels(world, c1=evolve(LEVEL, cap_ppm=300_000))
    assert "(tight.gpol:2)" in text(world, client, publish.GATE_BUDGET, known)
    known = levels(world, c1=evolve(LEVEL, cap_ppm=500_000))
    assert "all.max_compute = 50%" in text(world, client, publish.GATE_BUDGET, known)


def test_a_rate_names_the_knob() -> None:
    world, client = one("class all { match any }  all.max_launch_rate = 100/s")
    assert text(world, client, publish.GATE_RATE) == (
        "its launches come faster than they may (all.max_launch_rate = 100/s; p.gpol:2, always)"
    )
    world, client = one("class all { match any }  all.max_block_rate = 100/s")
    assert text(world, client, publish.GATE_RATE).startswith("its blocks come faster than they may (all.max_block_rate")
    world, client = one("class all { match any }  all.max_block_rate = 9/s  all.max_launch_rate = 9/s")
    assert text(world, client, publish.GATE_RATE).startswith("its launches or blocks come faster")


def test_a_copy_names_the_knob() -> None:
    world, client = one("class all { match any }  all.max_copy_rate = 1GiB/s")
    assert text(world, client, publish.GATE_COPY) == (
        "its copies come faster than they may (all.max_copy_rate = 1GiB/s; p.gpol:2, always)"
    )


EQUAL = "class all { match any  per = tenant  share = equal }  arbitrate share { period = 20ms }"


def test_a_share_says_whose_turn_it_is_and_how_both_stand() -> None:
    world = World(running=board(("p", EQUAL)))
    first, second = world.low(), world.low()
    world.ticks(0)
    present = world.state.clients[first].peers[second].present
    half = evolve(LEVEL, share_ppm=500_000)
    known = levels(world, c1=evolve(half, lag_ns=12 * MS), c2=evolve(half, lag_ns=-3 * MS))
    assert text(world, first, publish.GATE_SHARE, known, hold_peer=present) == (
        "job 2 (python, all) has the turn; this job is 12ms behind its share of 50%, that one 3ms ahead of its own"
    )
    assert text(world, first, publish.GATE_SHARE) == "another job has the turn"
    row = Counters(holding=1, hold_reason=publish.GATE_SHARE, hold_since_ns=world.now, hold_peer=present)
    sums = {(first, S0): row, (second, S0): Counters(turn=2)}
    shown = job_view(world.state, world.state.tenants[JobId(1)], sums, world.now, {})
    assert shown.why is not None
    assert "job 2 (python, all) is next" in shown.why.text
    assert shown.why.held_by == 2


def test_a_window_in_time() -> None:
    world, client = one("class all { match any }  all.max_inflight_time = 2ms")
    assert text(world, client, publish.GATE_WINDOW) == (
        "its window of 2ms of unfinished GPU time is full (p.gpol:2, always)"
    )
    world, client = one("class all { match any }  all.max_inflight_time = 2ms  all.max_inflight = 4")
    assert "its window of 4 unfinished launches or 2ms of unfinished GPU time is full (p.gpol:2" in text(
        world, client, publish.GATE_WINDOW
    )


def test_a_window_that_shares_need() -> None:
    world = World(running=board(("p", EQUAL)))
    client = world.low()
    world.low()
    world.ticks(0)
    assert text(world, client, publish.GATE_WINDOW) == (
        "its window of 5ms of unfinished GPU time is full, so that others have their time back soon"
    )


def test_who_holds_and_finishes_nothing() -> None:
    world = World()
    low, high = world.low(), world.high()
    present = world.state.clients[low].peers[high].present
    row = Counters(holding=1, hold_reason=publish.GATE_PREEMPT, hold_since_ns=world.now, hold_peer=present)
    sums = {(low, S0): row, (high, S0): Counters(active=1, last_finish_ns=world.now - 41 * SECOND)}
    shown = job_view(world.state, world.state.tenants[JobId(1)], sums, world.now, {})
    assert shown.why is not None
    assert "job 2 (python, high) is active and has finished nothing for 41s; goes on" in shown.why.text


def test_what_max_pause_lets_through() -> None:
    body = """
      class high { match label("tier") == "online" }
      class low  { match any }
      arbitrate preempt { order = [high, low]  resume_after = 1ms  max_pause = 2s  pass = 5ms }
    """
    world = World(running=board(("p", body)))
    low = world.low()
    world.high()
    world.ticks(0)
    assert text(world, low, publish.GATE_PREEMPT).endswith("5ms of GPU time after 2s at most")


def test_levels_in_words() -> None:
    level = evolve(LEVEL, cap_ns=-10 * MS, cap_ppm=500_000, at_ns=SECOND)
    assert left_ns(level, SECOND + 4 * MS) == -8 * MS
    assert due_ns(level, SECOND + 4 * MS) == 16 * MS
    assert due_ns(level, SECOND + 40 * MS) == 0
    assert due_ns(evolve(level, cap_ppm=0), SECOND) == 0, "never"
    assert left_ns(evolve(level, burst_ns=3 * MS), 100 * SECOND) == 3 * MS, "nobody looks at an idle device"
    assert [behind(lag) for lag in (0, 5 * MS, -5 * MS)] == ["even with", "5ms behind", "5ms ahead of"]


def test_gpu_time_of_a_job() -> None:
    world, client = one("class all { match any  limit { compute = 40% } }")
    tenant = world.state.tenants[JobId(1)]
    row = {(client, S0): Counters(spent_ns=7 * SECOND, estimated=1, turn=1)}
    shown = job_view(world.state, tenant, row, world.now, {})
    assert [(time.device, time.spent_ns, time.busy, time.estimated) for time in shown.time] == [
        (0, 7 * SECOND, None, True)
    ]
    known = levels(
        world, c1=evolve(LEVEL, cap_ns=3 * MS, cap_ppm=400_000, busy_ppm=250_000, share_ppm=500_000, lag_ns=9)
    )
    (time,) = job_view(world.state, tenant, row, world.now, known).time
    assert (time.busy, time.share, time.lag_ns, time.limit, time.left_ns) == (0.25, 0.5, 9, 0.4, 3 * MS)
    assert time.turn
    assert (time.barred, time.faults) == ("", 0)
    known = levels(world, c1=evolve(LEVEL, share_ppm=500_000, barred=Barred.CLAIMS, faults=7))
    (time,) = job_view(world.state, tenant, row, world.now, known).time
    assert (time.barred, time.faults) == ("claims", 7)
    assert job_view(world.state, tenant, {(client, S0): Counters()}, world.now, {}).time == ()


def test_a_job_in_line() -> None:
    body = "class all { match any  limit { tenants = 1 } }  admit { when_full = queue(max = 5min) }"
    world = World(running=board(("p", body)))
    world.launch()
    world.launch(name="later")
    world.now += 7 * SECOND
    shown = queued_view(world.state, world.state.waiting[0], world.now)
    assert (shown.id, shown.name, shown.state, shown.age_ns) == (2, "later", "queued", 7 * SECOND)
    assert shown.why is not None
    assert shown.why.code == "admission"
    assert shown.why.text.startswith(
        "waits in line, up to 5min: the class all has 1 job on the device, as many as it may"
    )


def test_the_words_of_turns_are_those_of_the_pages() -> None:
    from gpud.hooks._pages import lib

    assert held.TURN_HAS == lib.GPUD_TURN_HAS


def test_memory_that_is_out_with_nobody_swapping_is_said_with_who_has_the_device() -> None:
    world, client = one("class all { match any }")
    other = world.ready(world.launch()[0])
    assert text(world, client, publish.GATE_PAUSED, host_bytes=1 << 20) == (
        "its memory is in host memory and finds no room on the device"
    )
    row = Counters(holding=1, hold_reason=publish.GATE_PAUSED, hold_since_ns=world.now - 3 * MS, lazy_bytes=1 << 20)
    job = world.state.clients[other].job
    rows = {(client, S0): row, (other, S0): Counters(used_bytes=5 << 20, host_bytes=2 << 20)}
    shown = job_view(world.state, world.state.tenants[world.state.clients[client].job], rows, world.now, {})
    assert shown.why is not None
    assert shown.why.text == (
        "held for 3ms: its memory is not on the device yet and finds no room on the device; "
        f"job {job} (python) holds 3MiB there"
    )
    world, client = one("class all { match any } all.pause = true")
    assert text(world, client, publish.GATE_PAUSED, host_bytes=1 << 20).startswith("it is paused")
