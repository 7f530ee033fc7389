"""The loop measures itself, and wakes for nobody."""

import time

import pytest
import trio

from gpud.model.units import MILLISECOND, SECOND
from gpud.telemetry.loop_lag import LoopLag, open_loop_lag


class Loop:
    """Rounds of a loop, as trio tells of them."""

    def __init__(self) -> None:
        self.now = SECOND
        self.lag = LoopLag(lambda: self.now)

    def round(self, *, works_ns: int, asks_s: float, sleeps_ns: int) -> None:
        self.now += works_ns
        self.lag.before_io_wait(asks_s)
        self.now += sleeps_ns
        self.lag.after_io_wait(asks_s)

    @property
    def seconds(self) -> float:
        """All lags together."""
        return sum(total for _, _, total in self.lag.histogram.rows())


@pytest.mark.parametrize(
    ("asks_s", "sleeps_ns", "works_ns", "lag_ns"),
    [
        (0.0, 0, 3 * MILLISECOND, 3 * MILLISECOND),  # what came meanwhile had to wait
        (0.001, 41 * MILLISECOND, 0, 40 * MILLISECOND),  # the alarm rang late
        (0.001, 41 * MILLISECOND, 50 * MILLISECOND, 50 * MILLISECOND),
        (0.001, 41 * MILLISECOND, 30 * MILLISECOND, 40 * MILLISECOND),
        (5.0, 41 * MILLISECOND, 0, 0),  # woken by something else
        (86400.0, 3600 * SECOND, 1, 1),  # nothing to do for an hour
    ],
)
def test_a_round(asks_s: float, sleeps_ns: int, works_ns: int, lag_ns: int) -> None:
    loop = Loop()
    loop.round(works_ns=7 * SECOND, asks_s=asks_s, sleeps_ns=sleeps_ns)  # before that, nobody measured
    assert loop.seconds == 0
    loop.round(works_ns=works_ns, asks_s=0.0, sleeps_ns=0)
    assert loop.seconds == lag_ns / 1e9


def counts(lag: LoopLag) -> dict[str, float]:
    """Upper bound of each bucket → rounds of the loop up to there."""
    return {one[0]: one[1] for _, buckets, _ in lag.histogram.rows() for one in buckets}


def hold(seconds: float) -> None:
    """Keeps the loop from running."""
    time.sleep(seconds)


async def test_a_loop_that_is_held_says_so() -> None:
    with open_loop_lag() as lag:
        await trio.sleep(0.001)
        hold(0.06)
        await trio.sleep(0.001)
        await trio.sleep(0.001)
    found = counts(lag)
    assert found["+Inf"] > found["0.05"]


async def test_it_has_neither_an_alarm_nor_a_task() -> None:
    def quiet() -> tuple[float, int]:
        found = trio.lowlevel.current_statistics()
        return found.seconds_to_next_deadline, found.tasks_living

    before = quiet()
    with open_loop_lag() as lag:
        await trio.sleep(0.001)
        await trio.sleep(0.001)
        assert counts(lag)["+Inf"] > 0
        assert quiet() == before
    seen = counts(lag)
    await trio.sleep(0.001)
    assert counts(lag) == seen, "nothing is measured any more"
