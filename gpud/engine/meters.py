"""What counters mean over the last moments: rates, GPU time, waits and delays. Pure.

Windows are as long as they say once a client is that old, and one look longer at most. Before, what it has done since
it attached counts as all of the window. Of an older client that nobody looked at until now, a rate is not known before
the window has passed.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from operator import sub

from attrs import Factory, define

from gpud.model.counters import Counters
from gpud.model.units import MICROSECOND, MILLISECOND, SECOND

RATE_WINDOW_NS = 100 * MILLISECOND
WAIT_WINDOW_NS = 1 * SECOND
DELAY_STALE_NS = 10 * SECOND
"""Who launches for so long and is not sampled once: its delay is not known."""
HISTOGRAM_STEP_NS = 50 * MILLISECOND
"""Between two looks at a histogram: twenty of them are kept."""
NOT_READ: tuple[int, ...] = ()
"""In place of a histogram."""
_RATE_STEP_NS = 2 * MILLISECOND
_FORGOTTEN_NS = 1 * SECOND
"""Not looked at for this long: what was seen before says nothing of now."""

LAUNCHES, BLOCKS, COPIED, SERVED = range(1, 5)
"""What there are rates of, by place in a sample."""
_Sample = tuple[int, int, int, int, int]
"""(when, launches, blocks, bytes copied, nanoseconds served), so far."""


@define
class _Histogram:
    """One over the last second, and how many launches there were meanwhile."""

    latest: tuple[int, ...] = ()
    past: deque[tuple[int, int, tuple[int, ...]]] = Factory(deque)
    """(when, launches so far, histogram); the first is the last one before the window."""
    _counted: tuple[int, ...] = ()
    """Of `_of`, so that it is counted once."""
    _of: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def look(self, latest: tuple[int, ...] | None, launches: int, attached_ns: int, now: int) -> None:
        """None: nobody wants to know; nothing is kept. NOT_READ: it was not read this time."""
        past = self.past
        if latest is None:
            if past:
                past.clear()
            return
        if latest:
            self.latest = latest
            if not past:
                young = now - attached_ns < WAIT_WINDOW_NS
                past.append((attached_ns, 0, (0,) * len(latest)) if young else (now, launches, latest))
            if now - past[-1][0] >= HISTOGRAM_STEP_NS:
                past.append((now, launches, latest))
        while len(past) > 1 and past[1][0] <= now - WAIT_WINDOW_NS:
            past.popleft()

    def window(self, launches: int) -> tuple[int, tuple[int, ...]]:
        """(launches, counts by bucket); no counts: all are zero."""
        if not self.past:
            return 0, ()
        _, before, then = self.past[0]
        if self._of is None or self._of[0] is not then or self._of[1] is not self.latest:
            self._of = then, self.latest
            self._counted = () if self.latest == then else _more(self.latest, then)
        return max(launches - before, 0), self._counted


def _more(latest: tuple[int, ...], then: tuple[int, ...]) -> tuple[int, ...]:
    """By bucket, how many have come since. A hook may write nonsense: never less than none."""
    more = tuple(map(sub, latest, then))
    return more if min(more) >= 0 else tuple(max(count, 0) for count in more)


@define(kw_only=True)
class Meter:
    """One client on one device."""

    counters: Counters = Factory(Counters)
    """As read last."""
    between: bool = False
    """It was active since the look before, but is not now and was not then."""
    served_ns: int = 0
    """GPU time that the device can have given it so far. A launch is charged when it is made: a queue of a second
    counts as it is worked off, in a second at least; once the client is idle, all of it has been."""
    _past: deque[_Sample] = Factory(deque)
    """The first is the last one before the window."""
    fed_ns: int = 0
    """The last look that is remembered."""
    _known_ns: int = 0
    """Rates are known from then on."""
    _holds: _Histogram = Factory(_Histogram)
    _delays: _Histogram = Factory(_Histogram)
    _delayed: tuple[int, ...] = ()
    """Delays by bucket, of the last window that had some; forgotten once it launches nothing."""
    _sampled_ns: int = 0
    """When that was, or when it last had nothing to sample."""

    def feed(
        self,
        counters: Counters,
        histogram: tuple[int, ...] | None,
        attached_ns: int,
        now: int,
        delays: tuple[int, ...] | None = None,
    ) -> None:
        """Takes what was read now. `histogram` (of holds), `delays`: None where nobody wants to know, NOT_READ where it
        is not time yet."""
        past = self._past
        if past and now - self.fed_ns > _FORGOTTEN_NS:
            past.clear()
            self._holds, self._delays = _Histogram(), _Histogram()
        if not past:
            self._begin(counters, attached_ns, now)
        spent = counters.spent_ns
        if self.served_ns != spent:
            worked_off = self.served_ns + max(now - self.fed_ns, 0) if counters.active else spent
            self.served_ns = min(spent, worked_off)
        self.counters, self.fed_ns = counters, now
        if now - past[-1][0] >= _RATE_STEP_NS:
            past.append((now, counters.entered, counters.blocks, counters.copy_bytes, self.served_ns))
        while len(past) > 1 and past[1][0] <= now - RATE_WINDOW_NS:
            past.popleft()
        self._holds.look(histogram, counters.entered, attached_ns, now)
        self._delays.look(delays, counters.entered, attached_ns, now)
        if delays is not None:
            launches, buckets = self._delays.window(counters.entered)
            if any(buckets):
                self._delayed, self._sampled_ns = buckets, now
            elif not launches and not counters.active:
                self._delayed, self._sampled_ns = (), now

    def rested(self, now: int) -> None:
        """It was not looked at, because nothing could happen: until a moment ago all was as it was then."""
        if not self._past:
            return
        counters, before = self.counters, now - _RATE_STEP_NS
        self._past = deque([(before, counters.entered, counters.blocks, counters.copy_bytes, self.served_ns)])
        self.fed_ns = self._sampled_ns = before
        for histogram in (self._holds, self._delays):
            if histogram.past:
                histogram.past = deque([(before, counters.entered, histogram.latest)])

    def _begin(self, counters: Counters, attached_ns: int, now: int) -> None:
        """Nothing is remembered."""
        young = now - attached_ns < RATE_WINDOW_NS
        self.served_ns = 0 if young else counters.spent_ns
        self.fed_ns = attached_ns if young else now
        self._known_ns = now if young or not counters.entered else now + RATE_WINDOW_NS
        sample = (now, counters.entered, counters.blocks, counters.copy_bytes, counters.spent_ns)
        self._past.append((attached_ns, 0, 0, 0, 0) if young else sample)
        self._delayed, self._sampled_ns = (), now

    def rate(self, what: int, now: int) -> float | None:
        """Launches, blocks, bytes copied, or nanoseconds served a second; None: not known yet."""
        if not self._past:
            return 0.0
        if now < self._known_ns:
            return None
        counters, since = self.counters, self._past[0]
        so_far = (now, counters.entered, counters.blocks, counters.copy_bytes, self.served_ns)
        return max(so_far[what] - since[what], 0) * SECOND / max(now - since[0], RATE_WINDOW_NS)

    def busy(self, now: int) -> float | None:
        """Part of the device that it uses, 0 … 1; None: not known, since nobody looks."""
        served = self.rate(SERVED, self.fed_ns) if self._past and now - self.fed_ns < _FORGOTTEN_NS else None
        return None if served is None else min(served / SECOND, 1.0)

    def waits(self) -> tuple[int, tuple[int, ...]]:
        """(launches, holds by bucket) of the window."""
        return self._holds.window(self.counters.entered)

    def delays(self, now: int) -> tuple[int, ...] | None:
        """Samples by bucket of the window. Few launches are sampled: while it goes on launching, those of the last
        window that had some stand; None once that has lasted too long."""
        return self._delayed if now - self._sampled_ns < DELAY_STALE_NS else None


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
    return quantile(buckets, max(launches + holding, held) - held, 99)


def delay_p99(meters: Iterable[Meter], now: int) -> int | None:
    """99th percentile of the time from launch to start, of all sampled launches of the window together, in nanoseconds.
    Known to within its bucket; 0 without any; None: not known of one of them."""
    buckets = [0] * 64
    for meter in meters:
        delays = meter.delays(now)
        if delays is None:
            return None
        for bucket, count in enumerate(delays):
            buckets[bucket] += count
    return quantile(buckets, 0, 99)


def quantile(buckets: Sequence[int], at_once: int, percent: int) -> int:
    """In nanoseconds. Bucket i counts 2^i … 2^(i+1) µs, the first from 0; `at_once` more took no time at all."""
    total = sum(buckets) + at_once
    rank = -(-percent * total // 100)
    below = at_once
    if total == 0 or rank <= below:
        return 0
    for bucket, count in enumerate(buckets):
        if rank <= below + count:
            low = (1 << bucket) * MICROSECOND if bucket else 0
            high = (2 << bucket) * MICROSECOND
            return low + (high - low) * (rank - below) // count
        below += count
    raise AssertionError
