"""ewma, peak, shifted: against what they are by definition, and whatever ticks are left out."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpud.policies.operators import BUILT_IN, ewma, peak, shifted
from tests.policies.programs import MS, TICK, S

UNLIMITED = float("inf")
VALUES = st.sampled_from([0.0, 1.0, 10.0, 500.0, 930.0, 1_000.0, 1_100.0, 2_000.0, None])
TRACES = st.lists(st.tuples(st.integers(1, 300), VALUES, st.sampled_from([False, False, True, None])), max_size=30)
"""(ticks later, x, forget)"""


def dense_and_sparse(name: str, trace: list[tuple[int, float | None, bool | None]], arguments, forgets: bool = False):
    """(value with every tick, value with those ticks only that bring something new or are due) at every tick."""
    built = BUILT_IN[name]
    every, some, now, due = built.initial, built.initial, 0, 0
    shown, given_last = None, None
    for later, x, forget in trace:
        live = (x, *arguments[:1], forget) if forgets else (x, *arguments)
        for _ in range(later):
            now += TICK
            every, value = built.step(every, now, *live)
            if live != given_last or (due is not None and now >= due):
                some, shown = built.step(some, now, *live)
                due, given_last = built.due(some, now), live
            yield value, shown


@given(trace=TRACES)
def test_ewma_needs_no_ticks(trace) -> None:
    for value, shown in dense_and_sparse("ewma", trace, (50 * MS,)):
        assert value == shown


@given(trace=TRACES)
def test_peak_needs_no_ticks(trace) -> None:
    for value, shown in dense_and_sparse("peak", trace, (640 * MS,), forgets=True):
        assert value == shown
    for value, shown in dense_and_sparse("peak", trace, (UNLIMITED,), forgets=True):
        assert value == shown


@given(trace=TRACES)
def test_level_needs_no_ticks(trace) -> None:
    for value, shown in dense_and_sparse("level", trace, (640 * MS,), forgets=True):
        assert value == shown


@given(trace=TRACES)
@example(trace=[(1, 1.0, False), (181, 0.0, False), (20, 1.0, False), (1, 10.0, False)])  # two rises, the level between
def test_shifted_needs_no_ticks(trace) -> None:
    for value, shown in dense_and_sparse("shifted", trace, (0.12, 100 * MS, 500 * MS)):
        assert value == shown


# ----------------------------------------------------------------------------------------------------------------- ewma


def test_ewma_nears_by_half_in_a_half_life() -> None:
    state, value = ewma.step(None, 0, 100.0, 200 * MS)
    assert value == 100
    state, value = ewma.step(state, 50 * MS, 0.0, 200 * MS)
    assert value == 100  # x was 100 until now
    state, value = ewma.step(state, 250 * MS, 0.0, 200 * MS)
    assert value == 50
    state, value = ewma.step(state, 450 * MS, 0.0, 200 * MS)
    assert value == 25
    assert ewma.due(state, 450 * MS) == 450 * MS + 1
    state, value = ewma.step(state, 50 * MS + ewma.ARRIVED * 200 * MS, 0.0, 200 * MS)
    assert value == 0
    assert ewma.due(state, 50 * MS + ewma.ARRIVED * 200 * MS) is None


def test_ewma_stands_still_while_x_is_unknown() -> None:
    state, _ = ewma.step(None, 0, 100.0, 200 * MS)
    state, _ = ewma.step(state, 10, 0.0, 200 * MS)
    state, value = ewma.step(state, 10 + 200 * MS, None, 200 * MS)
    assert value is None
    assert ewma.due(state, 10 + 200 * MS) is None
    state, value = ewma.step(state, 90 * S, 0.0, 200 * MS)
    assert value == 50


@pytest.mark.parametrize("x", [UNLIMITED, 0.0])
def test_ewma_of_unlimited_is_never_no_number(x: float) -> None:
    state, _ = ewma.step(None, 0, 100.0, 200 * MS)
    state, _ = ewma.step(state, 10, UNLIMITED, 200 * MS)
    state, value = ewma.step(state, 20, x, 200 * MS)
    assert not math.isnan(value)
    state, value = ewma.step(state, 300 * S, x, 200 * MS)
    assert value == x


@given(trace=st.lists(st.tuples(st.integers(1, 100), st.floats(0, 1e6)), min_size=1, max_size=30))
def test_ewma_lies_between_what_it_has_seen(trace: list[tuple[int, float]]) -> None:
    state, now, seen = ewma.INITIAL, 0, []
    for later, x in trace:
        now += later * MS
        seen.append(x)
        state, value = ewma.step(state, now, x, 30 * MS)
        assert min(seen) - 1e-6 <= value <= max(seen) + 1e-6


# ----------------------------------------------------------------------------------------------------------------- peak


@given(
    trace=st.lists(st.tuples(st.integers(1, 60), st.floats(0, 100)), min_size=1, max_size=60),
    span=st.integers(128, 2_000),
)
def test_peak_is_the_greatest_of_the_window(trace: list[tuple[int, float]], span: int) -> None:
    """Within the resolution of its buckets, and with x held until the next step."""
    state, now, history = peak.INITIAL, 0, []
    for later, x in trace:
        now += later
        if history:
            history[-1] = (history[-1][0], now, history[-1][2])
        history.append((now, now, x))
        state, value = peak.step(state, now, x, span, False)
        width = -(-span // 127)
        inside = [x for _, until, x in history if until > now - span]
        reachable = [x for _, until, x in history if until > now - 128 * width - width]
        assert max(inside) <= value <= max(reachable)
        assert len(state.maxima) <= peak.BUCKETS


def test_peak_without_a_span_forgets_only_when_told() -> None:
    state, value = peak.step(None, 0, 5.0, UNLIMITED, False)
    for now, x, forget, expected in [
        (1, 9.0, False, 9),
        (10**15, 2.0, False, 9),
        (2, 3.0, True, 3),
        (3, 2.0, False, 3),
    ]:
        state, value = peak.step(state, now, x, UNLIMITED, forget)
        assert value == expected
    assert peak.due(state, 3) is None


def test_peak_says_when_it_will_forget() -> None:
    state, _ = peak.step(None, 0, 9.0, 127, False)
    state, value = peak.step(state, 10, 1.0, 127, False)
    assert value == 9
    due = peak.due(state, 10)
    assert due == 10 + 128
    _, value = peak.step(state, due - 1, 1.0, 127, False)
    assert value == 9
    _, value = peak.step(state, due, 1.0, 127, False)
    assert value == 1


def test_peak_keeps_within_its_bound_when_its_span_changes() -> None:
    state = peak.INITIAL
    for now in range(127):
        state, _ = peak.step(state, now, 1_000.0 - now, 127, False)
    for now in range(127, 100_000, 100):
        state, value = peak.step(state, now, 800.0 - now / 1000, 12_700, False)
        assert value >= 800.0 - now / 1000
        assert len(state.maxima) <= peak.BUCKETS


# -------------------------------------------------------------------------------------------------------------- shifted


def moments(trace: list[tuple[int, float]], until: int) -> list[int]:
    """Milliseconds at which a shift is found; x changes at the given milliseconds."""
    state, found = shifted.INITIAL, []
    for now in range(0, until, 5):
        x = [x for since, x in trace if since <= now][-1]
        state, moved = shifted.step(state, now * MS, x, 0.12, 100 * MS, 2 * S)
        if moved:
            assert shifted.due(state, now * MS) == now * MS + 1
            found.append(now)
    return found


def test_a_rise_and_a_fall_are_found_after_their_time() -> None:
    assert moments([(0, 1_000.0), (3_000, 1_150.0)], 9_000) == [3_100]
    assert moments([(0, 1_000.0), (3_000, 860.0)], 9_000) == [5_000]


def test_what_is_short_or_small_is_not_found() -> None:
    assert moments([(0, 1_000.0), (3_000, 1_150.0), (3_095, 1_000.0)], 9_000) == []
    assert moments([(0, 1_000.0), (3_000, 860.0), (4_995, 900.0), (5_000, 860.0)], 6_900) == []
    assert moments([(0, 1_000.0), (3_000, 1_119.0), (3_395, 1_000.0), (5_000, 881.0)], 20_000) == []


def test_a_slight_fall_is_found_if_it_does_not_end() -> None:
    assert moments([(0, 1_000.0), (3_000, 960.0)], 30_000) == [23_000]
    assert moments([(0, 1_000.0), (3_000, 960.0), (22_990, 980.0), (23_000, 960.0)], 40_000) == []
    assert moments([(0, 1_000.0), (3_000, 971.0)], 60_000) == []


def test_a_slight_rise_is_found_if_it_lasts_but_not_what_makes_up_for_a_loss() -> None:
    assert moments([(0, 1_000.0), (3_000, 1_040.0)], 9_000) == [3_400]
    assert moments([(0, 1_000.0), (3_000, 1_029.0)], 60_000) == []
    made_up = [(0, 1_000.0), (3_000, 920.0), (4_000, 1_080.0), (5_000, 1_000.0)]
    assert moments(made_up, 9_000) == []
    assert moments([*made_up[:-1], (9_000, 1_000.0)], 9_000) == [5_400]  # all is paid after a second
    long_loss = [(0, 1_000.0), (3_000, 920.0), (13_000, 1_080.0)]
    assert moments(long_loss, 20_000) == [13_000 + 2_500 + 400]  # what is owed is bounded: 200 ms of the level


def test_a_rise_that_goes_on_is_found_again_and_its_end_is_the_level() -> None:
    ramp = [(0, 1_000.0), *((3_000 + 50 * step, 1_000.0 + 100 * step) for step in range(1, 11))]
    found = moments([*ramp, (30_000, 1_750.0)], 40_000)  # 2,000 - 12.5 %: below the level that it went up to
    assert found[-1] == 32_000
    assert len(found) >= 3
    assert found[-2] < 3_800


def test_the_end_of_a_burst_is_found_as_a_fall() -> None:
    assert moments([(0, 1_000.0), (3_000, 2_000.0), (3_500, 1_000.0)], 9_000) == [3_100, 5_500]


def test_from_nothing_anything_is_a_rise() -> None:
    assert moments([(0, 0.0), (3_000, 1.0)], 5_000) == [3_100]


def test_shifted_of_unknown_is_unknown_and_keeps_its_level() -> None:
    state, _ = shifted.step(None, 0, 1_000.0, 0.12, 100 * MS, 2 * S)
    state, moved = shifted.step(state, 3 * S, None, 0.12, 100 * MS, 2 * S)
    assert moved is None
    state, moved = shifted.step(state, 4 * S, 1_200.0, 0.12, 100 * MS, 2 * S)
    assert moved is False
    state, moved = shifted.step(state, 4 * S + 100 * MS, 1_200.0, 0.12, 100 * MS, 2 * S)
    assert moved is True
