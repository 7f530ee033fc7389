"""A bound that is missed is tried again, some times and no more; an assertion is not."""

import pytest

from gpud.testing import measured as module
from gpud.testing.measured import TRIES, Bounds, measured


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST_S", 0)


def test_one_try_within_all_bounds_is_enough() -> None:
    values = [0.2, 0.5, 0.2]

    def attempt(bounds: Bounds) -> None:
        bounds.near(values.pop(0), 0.5, 0.1, "share")

    measured(attempt)
    assert values == [0.2]


def test_what_misses_each_time_fails_with_each_figure() -> None:
    tries: list[int] = []

    def attempt(bounds: Bounds) -> None:
        tries.append(len(tries))
        bounds.most(tries[-1], -1, "tries")
        bounds.least(tries[-1], 100, "tries")

    with pytest.raises(
        AssertionError, match=r"missed each time: tries: 0, not -1 at most; tries: 0, not 100 at least \|"
    ):
        measured(attempt)
    assert len(tries) == TRIES


def test_an_assertion_is_not_tried_again() -> None:
    tries: list[int] = []

    def attempt(bounds: Bounds) -> None:
        tries.append(1)
        raise AssertionError("wrong")

    with pytest.raises(AssertionError, match="wrong"):
        measured(attempt)
    assert len(tries) == 1
