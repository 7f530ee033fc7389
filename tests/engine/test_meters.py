import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.engine.meters import (
    BLOCKS,
    COPIED,
    DELAY_STALE_NS,
    LAUNCHES,
    RATE_WINDOW_NS,
    SERVED,
    WAIT_WINDOW_NS,
    Meter,
    delay_p99,
    wait_p99,
)
from gpud.model.counters import Counters
from gpud.model.units import MICROSECOND, MILLISECOND, SECOND

NONE = (0,) * 32


def holds(**buckets: int) -> tuple[int, ...]:
    """`b10 = 3`: three holds of 2^10 … 2^11 µs."""
    return tuple(buckets.get(f"b{i}", 0) for i in range(32))


def fed(meter: Meter, at: int, entered: int, histogram: tuple[int, ...] | None = NONE, **more: int) -> Meter:
    meter.feed(Counters(entered=entered, **more), histogram, 0, at)
    return meter


def test_a_steady_rate() -> None:
    meter = Meter()
    for ms in range(0, 1000, 5):
        fed(meter, ms * MILLISECOND, ms * 2)
    assert meter.rate(LAUNCHES, 995 * MILLISECOND) == 2000.0


def test_a_client_that_is_younger_than_the_window() -> None:
    """Else its first launch would be a rate of thousands a second."""
    assert fed(Meter(), 10 * MILLISECOND, 5).rate(LAUNCHES, 10 * MILLISECOND) == 50.0


def test_a_client_of_an_earlier_daemon_counts_from_now() -> None:
    """What it did in the last 100 ms is not known before they have passed: not nothing, as a policy would believe."""
    meter = fed(Meter(), 100 * SECOND, 1_000_000)
    assert meter.rate(LAUNCHES, 100 * SECOND) is None
    fed(meter, 100 * SECOND + 50 * MILLISECOND, 1_000_010)
    assert meter.rate(LAUNCHES, 100 * SECOND + 50 * MILLISECOND) is None
    fed(meter, 100 * SECOND + 100 * MILLISECOND, 1_000_015)
    assert meter.rate(LAUNCHES, 100 * SECOND + 100 * MILLISECOND) == 150.0


def test_one_that_has_launched_nothing_yet_is_known_to_be_idle() -> None:
    assert fed(Meter(), 100 * SECOND, 0).rate(LAUNCHES, 100 * SECOND) == 0.0


def test_what_was_seen_long_ago_says_nothing_of_now() -> None:
    """The policy that read it was taken away, and another one comes an hour later."""
    meter = Meter()
    for ms in range(0, 200, 5):
        fed(meter, ms * MILLISECOND, 0)
    hour = 3600 * SECOND
    waited = holds(b20=1000)
    fed(meter, hour, 360_000_000, waited)
    assert meter.rate(LAUNCHES, hour) is None
    assert wait_p99([meter], hour) == 0
    for ms in range(5, 200, 5):
        fed(meter, hour + ms * MILLISECOND, 360_000_000, waited)
    assert meter.rate(LAUNCHES, hour + 195 * MILLISECOND) == 0.0
    assert wait_p99([meter], hour + 195 * MILLISECOND) == 0


def test_a_rate_ends_with_the_window() -> None:
    meter = fed(fed(Meter(), 0, 0), 5 * MILLISECOND, 1000)
    assert fed(meter, 50 * MILLISECOND, 1000).rate(LAUNCHES, 50 * MILLISECOND) == 10_000.0
    assert fed(meter, 200 * MILLISECOND, 1000).rate(LAUNCHES, 200 * MILLISECOND) == 0.0


def test_a_count_that_goes_back_is_no_rate() -> None:
    """A launch that was not made after all is taken back."""
    meter = fed(fed(Meter(), 0, 0), 5 * MILLISECOND, 10)
    fed(meter, 105 * MILLISECOND, 10)
    assert fed(meter, 110 * MILLISECOND, 9).rate(LAUNCHES, 110 * MILLISECOND) == 0.0


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 100)), min_size=1, max_size=60))
def test_the_rate_is_that_of_the_last_100_ms(steps: list[tuple[int, int]]) -> None:
    """Against the plain definition over all samples; the window may be one look longer."""
    meter, now, entered = fed(Meter(), 0, 0), 0, 0
    samples = [(0, 0)]
    for ms, launches in steps:
        now += ms * MILLISECOND
        entered += launches
        fed(meter, now, entered)
        samples.append((now, entered))
    base = max(sample for sample in samples if sample[0] <= max(now - RATE_WINDOW_NS, 0) or sample[0] == 0)
    # Of samples closer than 2 ms to each other only the first is kept, so the base may be one shortly before.
    bases = [sample for sample in samples if base[0] - 2 * MILLISECOND < sample[0] <= base[0]]
    rates = [(entered - count) * SECOND / max(now - at, RATE_WINDOW_NS) for at, count in bases]
    assert meter.rate(LAUNCHES, now) in rates


def test_p99_of_nothing() -> None:
    assert wait_p99([], 0) == 0
    assert wait_p99([fed(Meter(), 0, 0)], 0) == 0


def test_p99_is_zero_while_fewer_than_one_in_a_hundred_waits() -> None:
    meter = fed(fed(Meter(), 0, 0), 100 * MILLISECOND, 1000, holds(b10=9))
    assert wait_p99([meter], 100 * MILLISECOND) == 0
    assert wait_p99([fed(Meter(), 0, 0), fed(meter, 110 * MILLISECOND, 1000, holds(b10=11))], 110 * MILLISECOND) > 0


def test_p99_lies_in_its_bucket() -> None:
    meter = fed(fed(Meter(), 0, 0), 100 * MILLISECOND, 100, holds(b0=50, b10=50))
    found = wait_p99([meter], 100 * MILLISECOND)
    assert (1 << 10) * MICROSECOND <= found <= (2 << 10) * MICROSECOND
    meter = fed(fed(Meter(), 0, 0), 100 * MILLISECOND, 100, holds(b0=100))
    assert 0 < wait_p99([meter], 100 * MILLISECOND) <= 2 * MICROSECOND


def test_p99_of_all_members_together() -> None:
    """A member that never waits makes the others' waits rarer, not the other way round."""
    waits = fed(fed(Meter(), 0, 0), 100 * MILLISECOND, 10, holds(b12=10))
    busy = fed(fed(Meter(), 0, 0), 100 * MILLISECOND, 100_000)
    assert wait_p99([waits], 100 * MILLISECOND) > 0
    assert wait_p99([waits, busy], 100 * MILLISECOND) == 0


def test_who_is_held_now_counts() -> None:
    meter = fed(fed(Meter(), 0, 0), 800 * MILLISECOND, 0, NONE, holding=1, hold_since_ns=300 * MILLISECOND)
    found = wait_p99([meter], 800 * MILLISECOND)
    assert 250 * MILLISECOND <= found <= 1100 * MILLISECOND  # 500 ms, to within its bucket
    # A page that says nonsense: held since the future.
    meter = fed(Meter(), 0, 0, NONE, holding=1, hold_since_ns=2**63)
    assert wait_p99([meter], 0) <= 2 * MICROSECOND


def test_holds_are_forgotten_after_a_second() -> None:
    meter = fed(fed(Meter(), 0, 0), 100 * MILLISECOND, 100, holds(b10=100))
    for ms in range(150, 2000, 50):
        fed(meter, ms * MILLISECOND, 100, holds(b10=100))
        if ms <= 1000:
            assert wait_p99([meter], ms * MILLISECOND) > 0
    assert wait_p99([meter], 1950 * MILLISECOND) == 0
    assert meter._holds.past[0][0] >= 1950 * MILLISECOND - WAIT_WINDOW_NS - 100 * MILLISECOND
    assert len(meter._holds.past) <= 22


def test_nobody_wants_to_know() -> None:
    meter = fed(fed(Meter(), 0, 0, None), 100 * MILLISECOND, 100, None)
    assert meter.waits() == (0, ())
    fed(meter, 5 * SECOND, 200, holds(b5=100))  # from now on: what was before is not of the last second
    assert meter.waits() == (0, ())


def charged(meter: Meter, at: int, spent: int, active: int = 1, **more: int) -> Meter:
    meter.feed(Counters(entered=1, spent_ns=spent, active=active, **more), None, 0, at)
    return meter


def busy(meter: Meter, at: int) -> float:
    served = meter.rate(SERVED, at)
    assert served is not None
    return served / SECOND


@pytest.mark.parametrize(("what", "of"), [(BLOCKS, "blocks"), (COPIED, "copy_bytes")])
def test_rates_of_blocks_and_of_copies(what: int, of: str) -> None:
    meter = Meter()
    for ms in range(0, 1000, 5):
        meter.feed(Counters(entered=1, **{of: ms * 7}), None, 0, ms * MILLISECOND)
    assert meter.rate(what, 995 * MILLISECOND) == 7000.0


def test_gpu_time_of_a_client_whose_launches_are_as_long_as_the_time_between_them() -> None:
    meter = Meter()
    for ms in range(0, 1000, 5):
        charged(meter, ms * MILLISECOND, ms * MILLISECOND // 4)
    assert busy(meter, 995 * MILLISECOND) == 0.25


def test_a_queue_counts_as_it_is_worked_off() -> None:
    """Half a second of launches at once is no device at five times its speed, and then an idle one."""
    meter = charged(Meter(), 0, 0)
    found = []
    for ms in range(5, 700, 5):
        charged(meter, ms * MILLISECOND, 500 * MILLISECOND)
        if ms % 100 == 0:
            found.append(busy(meter, ms * MILLISECOND))
    assert found == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]


def test_all_of_it_has_been_once_the_client_is_idle() -> None:
    """What was charged too much (a kernel ended early) is not carried on for ever."""
    meter = charged(charged(Meter(), 0, 0), 100 * MILLISECOND, 900 * MILLISECOND)
    assert meter.served_ns == 100 * MILLISECOND
    charged(meter, 105 * MILLISECOND, 900 * MILLISECOND, active=0)
    assert meter.served_ns == 900 * MILLISECOND
    for ms in range(110, 300, 5):
        charged(meter, ms * MILLISECOND, 900 * MILLISECOND, active=0)
    assert busy(meter, 295 * MILLISECOND) == 0


def test_what_is_given_back_was_not_used() -> None:
    """A thread draws more than it needs and gives back what it did not spend."""
    meter = charged(charged(Meter(), 0, 0), 50 * MILLISECOND, 20 * MILLISECOND)
    assert charged(meter, 60 * MILLISECOND, 15 * MILLISECOND, active=0).served_ns == 15 * MILLISECOND
    assert busy(meter, 60 * MILLISECOND) == 0.15


def test_gpu_time_of_a_client_of_an_earlier_daemon_counts_from_now() -> None:
    meter = Meter()
    for ms in range(0, 205, 5):
        charged(meter, 100 * SECOND + ms * MILLISECOND, 40 * SECOND + ms * MILLISECOND // 2)
        known = meter.rate(SERVED, 100 * SECOND + ms * MILLISECOND)
        assert (known is None) == (ms < 100)
    assert busy(meter, 100 * SECOND + 200 * MILLISECOND) == 0.5


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 2**64 - 1), st.booleans()), min_size=1, max_size=40))
def test_whatever_a_page_says_a_client_uses_one_device_at_most(looks: list[tuple[int, int, bool]]) -> None:
    """While it is active. It says itself what it spent."""
    meter, now = charged(Meter(), 0, 0), 0
    for ms, spent, active in looks:
        now += ms * MILLISECOND
        before = meter.served_ns
        charged(meter, now, spent, active=active)
        assert busy(meter, now) >= 0
        if active:
            assert meter.served_ns <= before + ms * MILLISECOND


def sampled(meter: Meter, at: int, launches: int, delays: tuple[int, ...] | None, active: int = 1) -> int | None:
    meter.feed(Counters(entered=launches, active=active), None, 0, at, delays)
    return delay_p99([meter], at)


def test_delays_are_those_of_the_last_second() -> None:
    meter = Meter()
    sampled(meter, 0, 0, NONE)
    found = sampled(meter, 100 * MILLISECOND, 1000, holds(b11=4))
    assert found is not None
    assert (1 << 11) * MICROSECOND <= found <= (2 << 11) * MICROSECOND
    for ms in range(150, 1500, 50):
        found = sampled(meter, ms * MILLISECOND, 1000 + ms, holds(b11=4, b2=ms // 50))
    assert found is not None
    assert found <= (2 << 2) * MICROSECOND


def test_who_is_seldom_sampled_has_the_delay_of_its_last_samples() -> None:
    """One launch in some hundred is sampled; who launches ten a second would be without delay for most of the time."""
    meter = Meter()
    sampled(meter, 0, 0, NONE)
    first = sampled(meter, 100 * MILLISECOND, 1, holds(b11=1))
    assert first
    for ms in range(200, 9000, 100):
        assert sampled(meter, ms * MILLISECOND, ms // 100, holds(b11=1)) == first
    for ms in range(9000, 12000, 100):
        known = sampled(meter, ms * MILLISECOND, ms // 100, holds(b11=1))
    assert known is None, "nobody has looked for ten seconds"
    assert DELAY_STALE_NS == 10 * SECOND
    assert sampled(meter, 12 * SECOND, 121, holds(b11=1, b0=1)) == 2 * MICROSECOND


def test_who_launches_nothing_is_not_delayed() -> None:
    meter = Meter()
    sampled(meter, 0, 0, NONE)
    assert sampled(meter, 100 * MILLISECOND, 1, holds(b11=1))
    for ms in range(200, 20_000, 100):
        known = sampled(meter, ms * MILLISECOND, 1, holds(b11=1), active=0)
    assert known == 0
    assert sampled(meter, 20 * SECOND, 2, holds(b11=1)) == 0, "the one before was long ago, this one is not sampled yet"


def test_delays_of_all_members_together() -> None:
    slow, fast = Meter(), Meter()
    for meter in (slow, fast):
        sampled(meter, 0, 0, NONE)
    sampled(slow, 100 * MILLISECOND, 100, holds(b11=1))
    sampled(fast, 100 * MILLISECOND, 100, holds(b1=99))
    found = delay_p99([slow, fast], 100 * MILLISECOND)
    assert found is not None
    assert found <= 4 * MICROSECOND
    sampled(slow, 110 * MILLISECOND, 200, holds(b11=2))
    found = delay_p99([slow, fast], 110 * MILLISECOND)
    assert found is not None
    assert found >= (1 << 11) * MICROSECOND


def test_nobody_wants_to_know_of_delays() -> None:
    meter = Meter()
    assert sampled(meter, 0, 0, None) == 0
    assert sampled(meter, 20 * MILLISECOND, 9, None) == 0
