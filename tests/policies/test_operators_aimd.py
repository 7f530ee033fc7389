"""The controller in its policy: closed loop on a device that serves in proportion what is asked above its capacity."""

from collections import deque

import pytest

from gpud.policies.operators import aimd
from tests.policies.programs import MS, TICK, Run, S, spec

UNLIMITED = float("inf")
STANDARD = {
    "settle_ns": 2 * S,
    "period_ns": 100 * MS,
    "start": 100.0,
    "floor": 20.0,
    "ceiling": 50_000.0,
    "add": 25.0,
    "multiply": 0.92,
    "ramp": 1.5,
}


class Contention:
    """high and low offer launches; signals are means of the last 100 ms, as the daemon measures them."""

    def __init__(self, capacity: float = 3_000.0, high: float = 1_000.0, low: float = 10_000.0) -> None:
        self.capacity, self.high_demand, self.low_demand = capacity, high, low
        self.run = Run(spec("aimd"))
        self.pace: deque[float] = deque(maxlen=20)
        """What high got in each of the last 20 ticks."""
        self.idle_ns: float = 0
        self.history: list[tuple[int, float, float]] = []
        """(now, high's rate, low's limit)"""

    def step(self) -> None:
        run = self.run
        limit = run["low.max_launch_rate"] if run.knobs else UNLIMITED
        offered = self.high_demand + min(self.low_demand, limit)
        rate = self.high_demand * min(1.0, self.capacity / offered)
        self.pace.append(rate)
        self.idle_ns = 0 if self.high_demand else self.idle_ns + TICK
        measured = 0.0
        for each in self.pace:
            measured += each
        run.tick(run.now + TICK, high__launch_rate=measured / 20, high__idle_for=self.idle_ns)
        self.history.append((run.now, rate, run["low.max_launch_rate"]))

    def until(self, seconds: float) -> "Contention":
        while self.run.now < seconds * S:
            self.step()
        return self

    def between(self, first: float, last: float) -> list[tuple[float, float]]:
        """(high's rate, low's limit)"""
        return [(high, low) for now, high, low in self.history if first * S < now <= last * S]


def test_it_settles_just_below_the_point_where_high_is_hurt() -> None:
    world = Contention().until(180)
    steady = world.between(30, 180)
    assert min(high for high, _ in steady) > 920
    assert min(low for _, low in steady) > 1_500
    assert world.run["baseline"] > 990  # no drift: it was measured alone
    tail = world.between(60, 120)
    mean_low = sum(low for _, low in tail) / len(tail)
    mean_high = sum(high for high, _ in tail) / len(tail)
    assert 1_950 < mean_low < 2_100
    assert mean_high > 970


def test_high_s_demand_halves() -> None:
    world = Contention().until(30)
    world.high_demand = 500.0
    world.until(34)
    assert any(low == 20 for _, low in world.between(30, 34))
    world.until(90)
    assert 495 < world.run["baseline"] < 505
    assert min(low for _, low in world.between(60, 90)) > 2_000


@pytest.mark.parametrize("demand", [960.0, 920.0, 890.0])
def test_a_demand_that_falls_a_little_does_not_starve_low(demand: float) -> None:
    """Less than a shift, more than the tolerance: high looks hurt, and low stands at its floor until that is old."""
    world = Contention().until(30)
    world.high_demand = demand
    world.until(90)
    assert world.run["baseline"] == pytest.approx(demand, rel=0.01)
    steady = world.between(65, 90)
    assert min(low for _, low in steady) > 1_500
    assert min(high for high, _ in steady) > 0.92 * demand


def test_high_s_demand_doubles() -> None:
    world = Contention().until(30)
    world.high_demand = 2_000.0
    world.until(60)
    hurt = [high for high, _ in world.between(30, 40) if high < 0.95 * 2_000]
    assert 0 < len(hurt) * TICK <= 1 * S
    assert world.run["baseline"] > 1_980
    steady = world.between(45, 60)
    assert min(high for high, _ in steady) > 0.92 * 2_000
    assert min(low for _, low in steady) > 700


def test_high_returns_from_idle() -> None:
    world = Contention().until(20)
    world.high_demand = 0.0
    world.until(40)
    assert world.run["low.max_launch_rate"] == UNLIMITED
    world.high_demand = 1_000.0
    world.until(70)
    after = world.between(40, 70)
    assert after[1][1] == 20  # it stands aside at the first tick that sees high again
    assert sum(high < 950 for high, _ in after[:1_000]) * TICK <= 1 * S
    steady = world.between(60, 70)
    assert min(high for high, _ in steady) > 920
    assert min(low for _, low in steady) > 1_500


@pytest.mark.parametrize("length", [0.5])
def test_bursts_shorter_than_falling(length: float) -> None:
    """Low stands aside from 0.3 s into the burst, until the level is found again; nothing of it lasts."""
    world = Contention().until(30)
    world.high_demand = 2_000.0
    world.until(30 + length)
    world.high_demand = 1_000.0
    world.until(60)
    assert world.run["low.max_launch_rate"] > 1_500
    assert 990 < world.run["baseline"] < 1_010
    during = world.between(30.3, 30 + length)
    assert min(high for high, _ in during) == 2_000
    assert sum(high < 940 for high, _ in world.between(30 + length, 60)) * TICK <= 1 * S


# ------------------------------------------------------------------------------------------------------- step by step


def stepped(state: aimd.Aimd | None, now: int, hurt: bool | None, probe: bool | None = False, **changed: float):
    return aimd.step(state, now, hurt, probe, **{**STANDARD, **changed})


def test_it_stands_aside_begins_and_ramps() -> None:
    state, value = stepped(None, 0, False)
    assert value == 20
    assert aimd.due(state, 0) == 2 * S
    state, value = stepped(state, 2 * S - 1, False)
    assert value == 20
    state, value = stepped(state, 2 * S, False)
    assert value == 100
    for step, expected in enumerate([150.0, 225.0, 337.5], 1):
        assert aimd.due(state, 2 * S) == 2 * S + step * 100 * MS
        state, value = stepped(state, 2 * S + step * 100 * MS, False)
        assert value == expected
    state, value = stepped(state, 2 * S + 400 * MS, True)
    assert value == 225  # the last step of the ramp is taken back
    state, value = stepped(state, 2 * S + 500 * MS, True)
    assert value == 225 * 0.92
    state, value = stepped(state, 2 * S + 600 * MS, False)
    assert value == 225 * 0.92 + 25  # no ramp any more


def test_an_unknown_input_keeps_the_value() -> None:
    state, _ = stepped(None, 0, None)
    state, value = stepped(state, 2 * S, None)
    assert value == 100
    for _ in range(10):
        state, value = stepped(state, state.next_ns or 9 * S, None)
        assert value == 100
    state, value = stepped(state, 10 * S, False)
    assert value == 150  # at once: it has waited long enough


def test_at_a_bound_it_rests_and_answers_at_once() -> None:
    state, value = stepped(None, 0, True, settle_ns=0)
    assert value == 100
    now = 0
    while aimd.due(state, now) is not None:
        now = aimd.due(state, now) or 0
        state, value = stepped(state, now, True, settle_ns=0)
    assert value == 20
    state, value = stepped(state, now + 7 * S + 3, False, settle_ns=0)
    assert value == 45
    assert aimd.due(state, now + 7 * S + 3) == now + 7 * S + 3 + 100 * MS


def test_a_late_tick_takes_one_step() -> None:
    state, _ = stepped(None, 0, False, settle_ns=0)
    state, value = stepped(state, 5 * S, False, settle_ns=0)
    assert value == 150
    assert aimd.due(state, 5 * S) == 5 * S + 100 * MS


def test_beaten_for_longer_than_settle_it_begins_anew() -> None:
    state, _ = stepped(None, 0, False)
    state, _ = stepped(state, 2 * S, False)
    arguments = (False, False, *STANDARD.values())
    short = aimd.resume(state, 3 * S, 5 * S, *arguments)
    assert short is not None
    assert short.value == 100
    assert short.next_ns == (state.next_ns or 0) + 2 * S
    assert aimd.resume(state, 3 * S, 5 * S + 1, *arguments) is None


def test_a_limit_far_above_what_is_used_comes_down_from_there() -> None:
    """It has wound up where nobody felt it: seventeen steps of 8 % lie between 12,975 and 3,000."""
    state = aimd.Aimd(value=12_975.0, ramping=False, next_ns=S, settling=False)
    assert stepped(state, S, True, used=3_000.0)[1] == 3_750 * STANDARD["multiply"]
    assert stepped(state, S, True, used=11_000.0)[1] == 12_975 * STANDARD["multiply"]
    assert stepped(state, S, True, used=0.0)[1] == STANDARD["start"] * STANDARD["multiply"]
    assert stepped(state, S, True, used=None)[1] == stepped(state, S, True)[1] == 12_975 * STANDARD["multiply"]
    assert stepped(state, S, False, used=0.0)[1] == 12_975 + STANDARD["add"], "only what hurts is taken back"
