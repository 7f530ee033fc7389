"""GPU time of jobs in windows, and what the benches of a real device make of it."""

import pytest

from bench.gpu.aimd import longest_below, settled_after
from bench.gpu.windows import busy_percent, done_by, mean_error_points, shares


def test_steps_done_by() -> None:
    """A step under way counts by its part; after the last one nothing more comes."""
    ends = [11.0, 12.0, 14.0]
    wanted = {9.0: 0, 10.0: 0, 10.5: 0.5, 11.0: 1, 11.25: 1.25, 13.0: 2.5, 14.0: 3, 20.0: 3}
    assert {when: done_by(ends, 10.0, when) for when in wanted} == pytest.approx(wanted)
    assert done_by([], 10.0, 11.0) == 0


def test_shares_of_windows() -> None:
    """A does a step of 2 ms each 4 ms, B one of 1 ms each 4 ms: half and a quarter."""
    ends = {"a": [n * 0.004 for n in range(1, 1001)], "b": [n * 0.004 for n in range(1, 1001)]}
    windows = shares(ends, {"a": 0.002, "b": 0.001}, 1.0, 3.5, 1.0)
    assert len(windows) == 2
    for window in windows:
        assert window == pytest.approx({"a": 0.5, "b": 0.25}, abs=1e-6)
    assert busy_percent(windows) == pytest.approx(75)
    assert mean_error_points(windows, {"a": 0.5, "b": 0.25}) == pytest.approx(0, abs=1e-6)
    assert mean_error_points(windows, {"a": 0.6, "b": 0.25}) == pytest.approx(5)


def test_settled() -> None:
    high, low = [1.0, 0.9, 1.0, 1.0, 1.0, 1.0], [0.0, 0.95, 0.95, 0.95, 0.95, 0.5]
    assert settled_after(high, low) == 2
    assert settled_after(high, [0.0] * 6) == 6
    assert settled_after([1.0] * 6, [1.0] * 6) == 0


def test_longest_below() -> None:
    assert longest_below([1, 0.9, 0.9, 1, 0.9], 0.95) == 2
    assert longest_below([1, 1], 0.95) == 0
