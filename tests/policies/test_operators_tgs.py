"""TGS as published, report by report (the figures of published.md), and whatever ticks are left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.operators import tgs
from gpud.policies.schema import OPERATORS
from tests.policies.programs import TICK, S

CONSTANTS = tuple(parameter.default for parameter in OPERATORS["tgs"].parameters[1:])
REPORT = 5 * S


def reports(rates: list[float | None], state: tgs.Tgs | None = None, begin: int = 0) -> list[float]:
    """The limit while each of these reports is made, in blocks per 50 ms; the last is after all of them."""
    found = []
    for number, rate in enumerate([*rates, rates[-1]]):
        state, limit = tgs.step(state, begin + number * REPORT, rate, *CONSTANTS)
        found.append(limit / 20)
    return found


def test_the_constants_are_in_the_order_of_the_schema() -> None:
    assert tuple(tgs.Constants._fields) == tuple(one.name for one in OPERATORS["tgs"].parameters[1:])


def test_a_profile_takes_five_reports_and_one_that_agrees() -> None:
    found = reports([1_000_000.0] * 8)
    assert found[:6] == [0] * 6
    assert found[6:] == [20_000, 20_000 * 1.5 + 1, (20_000 * 1.5 + 1) * 1.5 + 1]


def test_avoidance_adds_a_share_of_high_s_blocks_and_takes_eight_percent() -> None:
    high = 1_000_000.0
    found = reports([high] * 6 + [0.96 * high, high, 0.95 * high, high])
    limit = 20_000 / 1.5
    assert found[7] == pytest.approx(limit)
    limit += max(0.00025 * high * 5, 1_000)  # of the blocks of a report
    assert found[8] == pytest.approx(limit)
    limit -= max(0.08 * limit, 1_000)
    assert found[9] == pytest.approx(limit)


def test_small_steps_are_a_thousand_blocks_at_least() -> None:
    high = 100_000.0
    found = reports([high] * 6 + [0.96 * high, high, 0.95 * high])
    limit = 20_000 / 1.5
    assert found[8] == pytest.approx(limit + 1_000)
    assert found[9] == pytest.approx(limit + 1_000 - max(0.08 * (limit + 1_000), 1_000))


def test_a_high_that_speeds_up_throttles_low_too() -> None:
    high = 1_000_000.0
    assert reports([high] * 6 + [1.04 * high])[7] == pytest.approx(20_000 / 1.5)


def test_after_twenty_reports_far_away_the_rate_was_wrong() -> None:
    high = 1_000_000.0
    found = reports([high] * 6 + [0.96 * high] + [0.85 * high] * 20)
    assert found[26] < found[8]
    state, now = None, 0
    for rate in [high] * 6 + [0.96 * high] + [0.85 * high] * 21:
        state, _ = tgs.step(state, now, rate, *CONSTANTS)
        now += REPORT
    assert state is not None
    assert state.own == pytest.approx(0.8 * high)
    assert state.phase == tgs.SLOW_START


def test_a_profile_follows_what_it_finds_within_two_and_a_half_percent() -> None:
    state, now, own = None, 0, []
    for rate in [1_000_000.0] * 5 + [1_200_000.0] * 4:
        state, limit = tgs.step(state, now, rate, *CONSTANTS)
        now += REPORT
        own.append(state.own)
    assert own[5:] == pytest.approx([975_000, 0.975 * 1_100_000, 0.975 * 1_200_000, 1_200_000])
    assert limit == 400_000


def test_unknown_makes_no_report() -> None:
    state, now = None, 0
    for _ in range(7):
        state, limit = tgs.step(state, now, 1_000_000.0, *CONSTANTS)
        now += REPORT
    assert limit == 400_000
    state, limit = tgs.step(state, now - S, None, *CONSTANTS)
    assert tgs.due(state, now) is None
    for _ in range(7):
        state, limit = tgs.step(state, now, None, *CONSTANTS)
        now += REPORT
        assert limit == 400_000
    state, limit = tgs.step(state, now, 1_000_000.0, *CONSTANTS)
    assert tgs.due(state, now) == now + REPORT
    state, limit = tgs.step(state, now + REPORT, 1_000_000.0, *CONSTANTS)
    assert limit == 600_020


def test_beaten_for_longer_than_a_profile_it_makes_one() -> None:
    state, _ = tgs.step(None, 0, 1.0, *CONSTANTS)
    assert tgs.resume(state, S, 26 * S + 1, 1.0, *CONSTANTS) is None
    resumed = tgs.resume(state, S, 26 * S, 1.0, *CONSTANTS)
    assert resumed is not None
    assert resumed.next_ns == 30 * S


@given(
    trace=st.lists(
        st.tuples(st.integers(1, 3_000), st.sampled_from([0.0, 1e3, 1e6, 1e6, 1e6, 0.96e6, 0.5e6, None])), max_size=15
    )
)
def test_tgs_needs_no_ticks(trace: list[tuple[int, float | None]]) -> None:
    every, some, now, due, shown, given_last = None, None, 0, 0, 0.0, object()
    for later, received in trace:
        for tick in range(later):
            now += TICK
            every, limit = tgs.step(every, now, received, *CONSTANTS)
            if received != given_last or (due is not None and now >= due):
                some, shown = tgs.step(some, now, received, *CONSTANTS)
                due, given_last = tgs.due(some, now), received
            assert limit == shown, tick
