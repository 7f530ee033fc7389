"""`level(x, over, forget = false)`: what x usually is: its mean over the second half of the first `over`, counted from
the start, or since `forget` was last true. Until then it is x itself.

A baseline for a controller that slows down what it measures. A `peak` will not do for that: whoever was slowed down
makes up for it afterwards, faster than ever, and a peak would take that for the pace to be kept from then on. The first
half is left out because a smoothed x is still on its way.
"""

from typing import NamedTuple


class Level(NamedTuple):
    half_ns: int
    """From then on x counts."""
    end_ns: int
    x: float
    """At the last step that brought another one; it holds until the next one."""
    since_ns: int
    area: float
    """Of x until `since_ns`, times nanoseconds."""
    value: float | None
    """None: not known before `end_ns`."""


INITIAL: Level | None = None


def step(
    state: Level | None, now_ns: int, x: float | None, over_ns: int, forget: bool | None
) -> tuple[Level | None, float | None]:
    """While x is unknown nothing is learnt: what was begun is begun anew."""
    if x is None or forget is None:
        return (state if state is not None and state.value is not None else None), None
    if forget:
        return None, x
    if state is None:
        return Level(now_ns + over_ns // 2, now_ns + over_ns, x, now_ns, 0.0, None), x
    if state.value is not None:
        return state, state.value
    if now_ns >= state.end_ns:
        value = _area(state, state.end_ns) / (state.end_ns - state.half_ns)
        return state._replace(value=value), value
    if x == state.x:
        return state, x
    return state._replace(x=x, since_ns=now_ns, area=_area(state, now_ns)), x


def _area(state: Level, until_ns: int) -> float:
    counted = until_ns - max(state.since_ns, state.half_ns)
    return state.area + state.x * counted if counted > 0 else state.area


def due(state: Level | None, now_ns: int) -> int | None:
    return None if state is None or state.value is not None else max(state.end_ns, now_ns + 1)
