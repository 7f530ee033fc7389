"""`ewma(x, half_life)`: exponentially weighted moving average (Roberts, Technometrics 1959), in continuous time.

While x stays, the average nears it by half of what is left in every half-life. It is computed from the moment at which
x last changed and not from the last tick, so ticks leave no trace in it, not even in the last bit.
"""

from math import isfinite
from typing import NamedTuple

ARRIVED = 40
"""Half-lives after which what is left (10⁻¹²) counts as nothing."""


class Ewma(NamedTuple):
    x: float | None
    """What it nears; None: x was unknown, it stands still."""
    value: float
    """At `since_ns`."""
    since_ns: int
    arrived_ns: int
    """From then on it is x."""


INITIAL: Ewma | None = None


def step(state: Ewma | None, now_ns: int, x: float | None, half_life_ns: float) -> tuple[Ewma | None, float | None]:
    if state is None:
        return (None, None) if x is None else (Ewma(x, x, now_ns, now_ns), x)
    towards, value, since_ns, arrived_ns = state
    if towards is None:
        pass
    elif now_ns >= arrived_ns:
        value = towards
    elif (left := 0.5 ** ((now_ns - since_ns) / half_life_ns)) < 1:  # an infinite half-life leaves all of it
        value = towards + (value - towards) * left
    if x == towards:
        return state, value if x is not None else None
    if x is None:
        return Ewma(None, value, now_ns, now_ns), None
    if not isfinite(x - value):  # one of them is unlimited: there is no way between them, so it is there at once
        value = x
    arrived = now_ns if x == value else now_ns + min(int(ARRIVED * min(half_life_ns, 1e17)), 1 << 62)
    return Ewma(x, value, now_ns, arrived), value


def due(state: Ewma | None, now_ns: int) -> int | None:
    return now_ns + 1 if state is not None and state.x is not None and now_ns < state.arrived_ns else None
