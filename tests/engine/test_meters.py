from hypothesis import given
from hypothesis import strategies as st

from gpud.engine.meters import RATE_WINDOW_NS, WAIT_WINDOW_NS, Meter, wait_p99
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
    assert meter.launch_rate(995 * MILLISECOND) == 2000.0


def test_a_client_that_is_younger_than_the_window() -> None:
    """Else its first launch would be a rate of thousands a second."""
    assert fed(Meter(), 10 * MILLISECOND, 5).launch_rate(10 * MILLISECOND) == 50.0


def test_a_client_of_an_earlier_daemon_counts_from_now() -> None:
    """What it did in the last 100 ms is not known before they have passed: not nothing, as a policy would believe."""
    meter = fed(Meter(), 100 * SECOND, 1_000_000)
    assert meter.launch_rate(100 * SECOND) is None
    fed(meter, 100 * SECOND + 50 * MILLISECOND, 1_000_010)
    assert meter.launch_rate(100 * SECOND + 50 * MILLISECOND) is None
    fed(meter, 100 * SECOND + 100 * MILLISECOND, 1_000_015)
    assert meter.launch_rate(100 * SECOND + 100 * MILLISECOND) == 150.0


def test_one_that_has_launched_nothing_yet_is_known_to_be_idle() -> None:
    assert fed(Meter(), 100 * SECOND, 0).launch_rate(100 * SECOND) == 0.0


def test_what_was_seen_long_ago_says_nothing_of_now() -> None:
    """The policy that read it was taken away, and another one comes an hour later."""
    meter = Meter()
    for ms in range(0, 200, 5):
        fed(meter, ms * MILLISECOND, 0)
    hour = 3600 * SECOND
    waited = holds(b20=1000)
    fed(meter, hour, 360_000_000, waited)
    assert meter.launch_rate(hour) is None
    assert wait_p99([meter], hour) == 0
    for ms in range(5, 200, 5):
        fed(meter, hour + ms * MILLISECOND, 360_000_000, waited)
    assert meter.launch_rate(hour + 195 * MILLISECOND) == 0.0
    assert wait_p99([meter], hour + 195 * MILLISECOND) == 0


def test_a_rate_ends_with_the_window() -> None:
    meter = fed(fed(Meter(), 0, 0), 5 * MILLISECOND, 1000)
    assert fed(meter, 50 * MILLISECOND, 1000).launch_rate(50 * MILLISECOND) == 10_000.0
    assert fed(meter, 200 * MILLISECOND, 1000).launch_rate(200 * MILLISECOND) == 0.0


def test_a_count_that_goes_back_is_no_rate() -> None:
    """A launch that was not made after all is taken back."""
    meter = fed(fed(Meter(), 0, 0), 5 * MILLISECOND, 10)
    fed(meter, 105 * MILLISECOND, 10)
    assert fed(meter, 110 * MILLISECOND, 9).launch_rate(110 * MILLISECOND) == 0.0


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
    assert meter.launch_rate(now) in [(entered - count) * SECOND / max(now - at, RATE_WINDOW_NS) for at, count in bases]


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
    assert meter._holds[0][0] >= 1950 * MILLISECOND - WAIT_WINDOW_NS - 100 * MILLISECOND
    assert len(meter._holds) <= 22


def test_nobody_wants_to_know() -> None:
    meter = fed(fed(Meter(), 0, 0, None), 100 * MILLISECOND, 100, None)
    assert meter.waits() == (0, ())
    fed(meter, 5 * SECOND, 200, holds(b5=100))  # from now on: what was before is not of the last second
    assert meter.waits() == (0, ())
