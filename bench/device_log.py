"""Truth by the log of a simulated device: who had it when, and how long requests took. Pure.

All times are model nanoseconds. Intervals are in order of time and do not overlap.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from gpud.cli.sim.devicelog import DeviceLog, Kernel, Work
from gpud.cli.sim.summary import on_device

Interval = tuple[int, int]


class Unusable(Exception):
    """Log and programs do not belong together; says where."""


@frozen(kw_only=True)
class Request:
    """One round that arrived, as the program saw it. CLOCK_MONOTONIC nanoseconds."""

    arrival_ns: int
    begin_ns: int
    end_ns: int


def work_of(log: DeviceLog, pids: Iterable[int], device: int | None = None) -> list[Work]:
    """What these programs had on the device (None: on any): kernels, memsets and copies within it, also those that were
    dropped at the end of their program, as far as they came."""
    wanted = frozenset(pids)
    work = on_device([*log.work, *log.dropped])
    return [one for one in work if one.pid in wanted and device in (None, one.device)]


def intervals(work: Iterable[Work]) -> list[Interval]:
    """When any of it was on the device."""
    merged: list[Interval] = []
    for begin, end in sorted(piece for one in work for piece in one.pieces):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def within(times: Iterable[Interval], first: int, last: int) -> int:
    """Nanoseconds of [first, last)."""
    return sum(max(min(end, last) - max(begin, first), 0) for begin, end in times)


def binned(times: Iterable[Interval], first: int, width: int, count: int) -> list[int]:
    """The same of each of `count` windows of `width` from `first` on."""
    bins = [0] * count
    for begin, end in times:
        begin, end = max(begin, first), min(end, first + width * count)
        while begin < end:
            index = (begin - first) // width
            until = min(end, first + (index + 1) * width)
            bins[index] += until - begin
            begin = until
    return bins


def shares(
    times: Mapping[str, Sequence[Interval]], first: int, last: int, width: int, *, of_used: bool
) -> list[dict[str, float]]:
    """Of each whole window: what everybody had, of the window, or (`of_used`) of what all of them had together. Windows
    in which nobody had anything are left out where that is asked for."""
    count = (last - first) // width
    bins = {who: binned(spans, first, width, count) for who, spans in times.items()}
    found = []
    for index in range(count):
        whole = sum(had[index] for had in bins.values()) if of_used else width
        if whole:
            found.append({who: had[index] / whole for who, had in bins.items()})
    return found


def turns(times: Mapping[str, Sequence[Interval]], first: int, last: int) -> list[tuple[str, int]]:
    """Who had the device in [first, last), and for how long until somebody else had it, in order of time."""
    spans = sorted((begin, end, who) for who, spans in times.items() for begin, end in spans if first <= begin < last)
    found: list[tuple[str, int]] = []
    for who, row in itertools.groupby(spans, lambda span: span[2]):
        had = list(row)
        found.append((who, had[-1][1] - had[0][0]))
    return found


def mean_error(found: Sequence[Mapping[str, float]], targets: Mapping[str, float]) -> float:
    """How far shares are from their targets, the mean over windows and units, in points."""
    if not found:
        raise Unusable("the run is shorter than one window")
    return 100 * sum(abs(window[who] - targets[who]) for window in found for who in targets) / len(found) / len(targets)


def latencies_ms(log: DeviceLog, pid: int, requests: Sequence[Request], kernels: int) -> list[float]:
    """Of each request, from its arrival to the end of the last of its `kernels` on the device, however late the program
    woke. The program waits for one before it begins the next. Raises Unusable when they are not in the log."""
    if not requests:
        return []
    begin, end = log.model_ns(requests[0].begin_ns), log.model_ns(requests[-1].end_ns)
    own = sorted(
        (k for k in log.kernels if k.pid == pid and begin <= k.end_ns <= end), key=lambda k: (k.end_ns, k.start_ns)
    )
    if len(own) != kernels * len(requests):
        raise Unusable(f"{len(requests)} requests of {kernels} kernels, but {len(own)} kernels in the device log")
    ends = [own[index + kernels - 1].end_ns for index in range(0, len(own), kernels)]
    return [(end - log.model_ns(one.arrival_ns)) / 1e6 for one, end in zip(requests, ends, strict=True)]


def rates(kernels: Iterable[Kernel], first: int, width: int, count: int) -> list[float]:
    """Kernels that ended in each of `count` windows, per model second."""
    found = [0] * count
    for kernel in kernels:
        if first <= kernel.end_ns < first + width * count:
            found[(kernel.end_ns - first) // width] += 1
    return [number / width * 1e9 for number in found]


def longest_below(values: Sequence[float], least: float) -> int:
    """The most windows in a row below `least`."""
    return max(
        (len(list(row)) for low, row in itertools.groupby(values, lambda value: value < least) if low), default=0
    )


def parts(values: Sequence[float], wanted: Sequence[float], width: int) -> list[float]:
    """What there was of what was wanted, over the `width` windows that end with each one (at first over fewer)."""
    spans = [slice(max(end - width, 0), end) for end in range(1, len(values) + 1)]
    return [sum(values[span]) / sum(wanted[span]) for span in spans]
