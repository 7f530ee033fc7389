"""`peak(x, span = unlimited, forget = false)`: the greatest x of the last `span`, since `forget` was last true.

The window is a queue of falling maxima (Tarjan's amortised minimum queue, as in Lemire, "Streaming maximum-minimum
filter", 2006) over at most 128 buckets of time: a value is forgotten between `span` and `span` + 1/127 after it was
last seen. Without a span one number is kept.
"""

from typing import NamedTuple

BUCKETS = 128
_UNLIMITED = float("inf")


class Peak(NamedTuple):
    x: float | None
    """At the last step; it holds until the next one."""
    maxima: tuple[tuple[int, float], ...]
    """(begin of its bucket, greatest x there), falling; the first is the peak."""
    forgotten_ns: int | None
    """When the first is forgotten, if it is not x; None: never."""


INITIAL: Peak | None = None


def step(
    state: Peak | None, now_ns: int, x: float | None, span_ns: float, forget: bool | None
) -> tuple[Peak | None, float | None]:
    if span_ns == _UNLIMITED:
        if x is None or forget is None:
            return state, None
        if state is None or forget or x > state.maxima[0][1]:
            return Peak(None, ((now_ns, x),), None), x
        return state, state.maxima[0][1]
    width = _width(span_ns)
    bucket = now_ns - now_ns % width
    if x is None or forget is None:
        return (state if state is None or state.x is None else Peak(None, _seen(state, bucket, width), None)), None
    maxima = ((bucket, x),) if state is None or forget else _add(_seen(state, bucket, width), bucket, x)
    peak = maxima[0][1]
    return Peak(x, maxima, maxima[0][0] + BUCKETS * width if peak > x else None), peak


def _width(span_ns: float) -> int:
    return max(-(-int(span_ns) // (BUCKETS - 1)), 1)


def _seen(state: Peak, bucket: int, width: int) -> tuple[tuple[int, float], ...]:
    """The maxima in this bucket, if x has stayed what it was until now."""
    maxima, oldest = state.maxima, bucket - (BUCKETS - 1) * width
    gone = 0
    while gone < len(maxima) and maxima[gone][0] < oldest:
        gone += 1
    if gone:
        maxima = maxima[gone:]
    return maxima if state.x is None else _add(maxima, bucket, state.x)


def _add(maxima: tuple[tuple[int, float], ...], bucket: int, x: float) -> tuple[tuple[int, float], ...]:
    kept = len(maxima)
    while kept and maxima[kept - 1][1] <= x:
        kept -= 1
    if kept and maxima[kept - 1][0] == bucket:  # a greater one of the same bucket
        return maxima
    if kept == len(maxima) - 1 and maxima[kept] == (bucket, x):
        return maxima
    if kept >= BUCKETS:  # only after a reload with longer buckets: the old ones are too fine
        return (maxima[0], *maxima[kept - BUCKETS + 2 : kept], (bucket, x))
    return (*maxima[:kept], (bucket, x))


def due(state: Peak | None, now_ns: int) -> int | None:
    return None if state is None or state.forgotten_ns is None else max(state.forgotten_ns, now_ns + 1)
