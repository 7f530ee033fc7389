"""Rates of counters, and the last minutes of a figure."""

from collections import deque

from attrs import define, field

WINDOW_NS = 2_000_000_000
"""A rate is of the last moments: this long."""
BUCKET_NS = 1_000_000_000
"""A history keeps one figure for each such span …"""
BUCKETS = 240
"""… so many of them."""


@define
class Meter:
    """A counter that only grows, at some moments. Between two of them it did not change."""

    _seen: deque[tuple[int, int]] = field(factory=deque)
    """Unix time and value, oldest first; the first one may be older than the window."""

    def put(self, at_ns: int, value: int) -> None:
        """A clock that went back, or a counter that did, begins anew."""
        seen = self._seen
        if seen and (at_ns < seen[-1][0] or value < seen[-1][1]):
            seen.clear()
        if seen and seen[-1][1] == value and len(seen) > 1 and seen[-2][1] == value:
            seen[-1] = (at_ns, value)
        else:
            seen.append((at_ns, value))
        while len(seen) > 2 and seen[1][0] <= at_ns - WINDOW_NS:
            seen.popleft()

    def rate(self) -> float | None:
        """Per second, over the window; None before there are two moments."""
        if len(self._seen) < 2:
            return None
        (begin, low), (end, high) = self._seen[0], self._seen[-1]
        if self._seen[1][1] == low:
            begin = max(begin, min(end - WINDOW_NS, self._seen[1][0]))
        return (high - low) * 1e9 / (end - begin) if end > begin else None


@define
class Ring:
    """The last minutes of a figure, one mean for each second; None where nothing was said."""

    _last: int = -1
    """Number of the last bucket."""
    _sum: float = 0.0
    _count: int = 0
    _values: deque[float | None] = field(factory=lambda: deque(maxlen=BUCKETS))

    def put(self, at_ns: int, value: float | None) -> None:
        bucket = at_ns // BUCKET_NS
        if bucket < self._last or bucket - self._last > BUCKETS:
            self._values.clear()  # a clock that was set
            self._last = bucket - 1
        for _ in range(bucket - self._last):
            self._values.append(None)
            self._sum, self._count = 0.0, 0
        self._last = bucket
        if value is None:
            return
        self._sum += value
        self._count += 1
        self._values[-1] = self._sum / self._count

    def last(self, count: int) -> list[float | None]:
        """The newest `count` of them, oldest first; what was never said is None."""
        values = list(self._values)[-count:] if count > 0 else []
        return [None] * (count - len(values)) + values
