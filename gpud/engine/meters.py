"""What counters mean over the last moments: launch rate, wait at the gate. Pure.

Windows are as long as they say once a client is that old, and one look longer at most. Before, what it has done since
it attached counts as all of the window. Of an older client that nobody looked at until now, the rate is not known
before the window has passed.
"""

from collections import deque
from collections.abc import Iterable

from attrs import Factory, define

from gpud.model.counters import Counters
from gpud.model.units import MICROSECOND, MILLISECOND, SECOND

RATE_WINDOW_NS = 100 * MILLISECOND
WAIT_WINDOW_NS = 1 * SECOND
_WAIT_STEP_NS = 50 * MILLISECOND
"""Between two samples of a histogram: twenty of them are kept."""
_RATE_STEP_NS = 2 * MILLISECOND
_FORGOTTEN_NS = 1 * SECOND
"""Not looked at for this long: what was seen before says nothing of now."""


@define(kw_only=True)
class Meter:
    """One client on one device."""

    counters: Counters = Factory(Counters)
    """As read last."""
    histogram: tuple[int, ...] = ()
    _launches: deque[tuple[int, int]] = Factory(deque)
    """(when, launches so far); the first is the last one before the window."""
    _holds: deque[tuple[int, int, tuple[int, ...]]] = Factory(deque)
    """(when, launches so far, histogram)."""
    _known_ns: int = 0
    """The rate is known from then on."""

    def feed(self, counters: Counters, histogram: tuple[int, ...] | None, attached_ns: int, now: int) -> None:
        """Takes what was read now. `histogram`: None where nobody wants to know."""
        if self._launches and now - self._launches[-1][0] > _FORGOTTEN_NS:
            self._launches.clear()
            self._holds.clear()
        if not self._launches:
            young = now - attached_ns < RATE_WINDOW_NS
            self._launches.append((attached_ns, 0) if young else (now, counters.entered))
            self._known_ns = now if young or not counters.entered else now + RATE_WINDOW_NS
        self.counters = counters
        if now - self._launches[-1][0] >= _RATE_STEP_NS:
            self._launches.append((now, counters.entered))
        _forget(self._launches, now - RATE_WINDOW_NS)
        if histogram is None:
            self.histogram = ()
            self._holds.clear()
            return
        if not self._holds:
            young = now - attached_ns < WAIT_WINDOW_NS
            nothing = (0,) * len(histogram)
            self._holds.append((attached_ns, 0, nothing) if young else (now, counters.entered, histogram))
        self.histogram = histogram
        if now - self._holds[-1][0] >= _WAIT_STEP_NS:
            self._holds.append((now, counters.entered, histogram))
        _forget(self._holds, now - WAIT_WINDOW_NS)

    def launch_rate(self, now: int) -> float | None:
        """Launches per second; None: not known yet."""
        if not self._launches:
            return 0.0
        if now < self._known_ns:
            return None
        since, launches = self._launches[0]
        return max(self.counters.entered - launches, 0) * SECOND / max(now - since, RATE_WINDOW_NS)

    def waits(self) -> tuple[int, tuple[int, ...]]:
        """(launches, holds by bucket) of the window."""
        if not self._holds:
            return 0, ()
        _, launches, before = self._holds[0]
        if self.histogram == before:
            return max(self.counters.entered - launches, 0), ()
        holds = tuple(max(now - then, 0) for now, then in zip(self.histogram, before, strict=True))
        return max(self.counters.entered - launches, 0), holds


def _forget(samples: "deque[tuple[int, int]] | deque[tuple[int, int, tuple[int, ...]]]", before: int) -> None:
    while len(samples) > 1 and samples[1][0] <= before:
        samples.popleft()


def wait_p99(meters: Iterable[Meter], now: int) -> int:
    """99th percentile of the wait at the gate of all launches of the window together, and of those held now, in
    nanoseconds. Known to within its bucket (a factor of two); 0 without launches."""
    launches = holding = 0
    buckets = [0] * 64
    for meter in meters:
        passed, holds = meter.waits()
        launches += passed
        for bucket, count in enumerate(holds):
            buckets[bucket] += count
        counters = meter.counters
        if counters.holding and counters.hold_since_ns:
            holding += counters.holding
            waited = max(now - counters.hold_since_ns, 0) // MICROSECOND
            buckets[min(max(waited.bit_length() - 1, 0), 63)] += counters.holding
    held = sum(buckets)
    total = max(launches + holding, held)
    rank = -(-99 * total // 100)
    below = total - held
    if total == 0 or rank <= below:
        return 0
    for bucket, count in enumerate(buckets):
        if rank <= below + count:
            low = (1 << bucket) * MICROSECOND if bucket else 0
            high = (2 << bucket) * MICROSECOND
            return low + (high - low) * (rank - below) // count
        below += count
    raise AssertionError
