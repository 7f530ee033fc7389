"""level: what x usually is; and the shipped aimd on a service that makes up for what it was held back."""

import math
from pathlib import Path

import pytest

from gpud.policies.operators import level
from tests.policies.programs import MS, TICK, Run, S, program

SHIPPED = Path(__file__).parents[2] / "policies"


def after(trace: list[tuple[int, float | None, bool | None]], until: int) -> float | None:
    """The value at this millisecond; x and `forget` change at the given ones, and it learns for two seconds."""
    state, value = level.INITIAL, None
    for now in range(0, until + 1, 5):
        _, x, forget = [row for row in trace if row[0] <= now][-1]
        state, value = level.step(state, now * MS, x, 2 * S, forget)
    return value


def test_it_is_the_mean_of_the_second_half() -> None:
    trace = [(0, 100.0, False), (1_000, 200.0, False), (1_500, 400.0, False), (2_000, 900.0, False)]
    assert after(trace, 500) == 100
    assert after(trace, 1_995) == 400  # not yet known: x itself
    assert after(trace, 2_000) == 300
    assert after(trace, 9_000) == 300


def test_it_is_learnt_anew_after_forget() -> None:
    trace = [(0, 100.0, False), (3_000, 500.0, False), (4_000, 500.0, True), (4_500, 700.0, False)]
    assert after(trace, 3_995) == 100
    assert after(trace, 4_000) == 500
    assert after(trace, 6_495) == 700
    assert after(trace, 6_500) == 700


@pytest.mark.parametrize("unknown", [(None, False), (100.0, None)])
def test_unknown_begins_anew_while_it_learns_and_changes_nothing_later(unknown) -> None:
    trace = [(0, 100.0, False), (1_000, *unknown), (1_500, 300.0, False)]
    assert after(trace, 1_200) is None
    assert after(trace, 3_495) == 300
    assert after(trace, 3_500) == 300
    known = [(0, 100.0, False), (3_000, *unknown), (4_000, 300.0, False)]
    assert after(known, 3_500) is None
    assert after(known, 4_000) == 100


def test_unlimited_is_never_no_number() -> None:
    value = after([(0, 100.0, False), (1_000, math.inf, False), (1_005, 100.0, False)], 2_500)
    assert value is not None
    assert not math.isnan(value)


class Service:
    """High is asked for a steady number of launches and does late what it could not do in time; low takes what it is
    let of the device. Each costs so much of the device, with a switch for each of low's."""

    def __init__(self, *, high_ms: float, low_ms: float, part_under_pressure: float) -> None:
        self.high_ms, self.low_ms = high_ms, low_ms
        self.part = part_under_pressure
        """Of the device, that high gets where both want more than there is."""
        self.demand, self.backlog = 1_000.0, 0.0
        self.run = Run(program((SHIPPED / "aimd.gpol").read_text()))
        self.run.tick(0, high__launch_rate=0.0, high__idle_for=0.0, low__launch_rate=0.0)
        self.highs: list[float] = []
        self.lows: list[float] = []

    def for_(self, seconds: float) -> None:
        for _ in range(round(seconds * S / TICK)):
            width = TICK / S
            wanted = self.demand + self.backlog / width
            limit = self.run["low.max_launch_rate"]
            low = min(limit, max(1 - wanted * self.high_ms / 1e3, 1 - self.part) / self.low_ms * 1e3)
            high = min(wanted, (1 - low * self.low_ms / 1e3) / self.high_ms * 1e3)
            self.backlog = max(self.backlog + (self.demand - high) * width, 0.0)
            self.highs.append(high)
            self.lows.append(low)
            seen = self.highs[-20:], self.lows[-20:]
            rates = [sum(each) / len(each) for each in seen]
            self.run.tick(self.run.now + TICK, high__launch_rate=rates[0], low__launch_rate=rates[1])

    def means(self, seconds: float) -> tuple[float, float]:
        """Of high and low, over the last seconds."""
        count = round(seconds * S / TICK)
        return sum(self.highs[-count:]) / count, sum(self.lows[-count:]) / count


def test_high_makes_up_for_what_it_lost_and_that_is_not_taken_for_its_pace() -> None:
    """With a peak as baseline low came down to its floor, for ever."""
    node = Service(high_ms=0.6, low_ms=0.5, part_under_pressure=0.5)
    node.for_(60)
    assert max(node.highs[-40 * 200 :]) > 1_050, "it did make up for something"
    assert node.run["baseline"] == pytest.approx(1_000, rel=0.01)
    high, low = node.means(30)
    assert high == pytest.approx(1_000, rel=0.01)
    assert low > 0.85 * 800


def test_a_load_that_doubles_on_a_full_device() -> None:
    """It shows as a small gain only, for low takes half of the device: low steps aside, and high is measured alone."""
    node = Service(high_ms=0.5, low_ms=1.0, part_under_pressure=0.54)
    node.for_(20)
    assert node.means(5)[1] > 450, "low has all that is left"
    node.demand = 1_400.0
    node.for_(1.5)
    assert node.run["low.max_launch_rate"] == 20
    node.for_(20)
    assert node.run["baseline"] == pytest.approx(1_400, rel=0.02)
    assert node.means(10)[0] == pytest.approx(1_400, rel=0.03)
