"""What high leaves for low, out of the steps at which low was let in."""

import pytest

from bench.aimd import KEPT, _settled, crossing


def test_what_is_left_lies_between_two_steps() -> None:
    assert crossing([1.0, 1.0, 0.94], [100, 200, 300]) == pytest.approx(250)
    assert crossing([1.0, KEPT, 0.5], [100, 200, 300]) == pytest.approx(200)


def test_the_first_step_is_not_looked_at() -> None:
    assert crossing([0.9, 1.0, 0.94], [100, 200, 300]) == pytest.approx(250)
    assert crossing([1.0, 0.94], [100, 200]) == pytest.approx(150)


def test_whoever_is_never_hurt_leaves_all_that_low_got() -> None:
    assert crossing([1.0, 1.0, 0.99], [100, 300, 290]) == 300


def test_settled_when_three_seconds_are_good_on_average() -> None:
    highs, lows = [1.0] * 100, [0.5] * 20 + [0.8, 1.0] * 40
    assert _settled(highs, lows, 0, 100) == pytest.approx(2.0)
    assert _settled(highs, lows, 10, 90) == pytest.approx(1.0)
    assert _settled([0.96] * 100, lows, 0, 100) == 10.0, "never: the whole phase"
    assert _settled(highs, [0.89] * 100, 0, 100) == 10.0
