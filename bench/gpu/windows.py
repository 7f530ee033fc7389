"""GPU time of jobs in windows of wall time, from when each of their steps was found done. Pure."""

import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence


def done_by(ends: Sequence[float], start: float, when: float) -> float:
    """Steps done by `when`; a step under way counts by its part. `ends` in order, the first step began at `start`."""
    whole = bisect_right(ends, when)
    if whole == len(ends):
        return float(whole)
    began = ends[whole - 1] if whole else start
    return whole + max(0.0, (when - began) / (ends[whole] - began)) if ends[whole] > began else float(whole)


def shares(
    ends: Mapping[str, Sequence[float]], step_s: Mapping[str, float], first: float, last: float, width: float
) -> list[dict[str, float]]:
    """For each whole window in [first, last]: each job's part of the device, by its steps and what one takes alone."""
    windows = []
    for number in range(int((last - first) / width + 1e-9)):
        begin = first + number * width
        windows.append(
            {
                name: (done_by(times, first, begin + width) - done_by(times, first, begin)) * step_s[name] / width
                for name, times in ends.items()
            }
        )
    return windows


def mean_error_points(windows: Sequence[Mapping[str, float]], targets: Mapping[str, float]) -> float:
    """Mean over windows and jobs of |share − target|, in points of the device."""
    return statistics.fmean(100 * abs(window[name] - target) for window in windows for name, target in targets.items())


def busy_percent(windows: Sequence[Mapping[str, float]]) -> float:
    """Mean of what all jobs had together."""
    return statistics.fmean(100 * sum(window.values()) for window in windows)
