"""`aimd(hurt, probe, settle, period, start, floor, ceiling, add, multiply, ramp, used)`: additive increase,
multiplicative decrease (Chiu & Jain, "Analysis of the increase and decrease algorithms for congestion avoidance",
1989), with the slow start of TCP (Jacobson 1988) and, as in TGS (NSDI'23), a rest in which what it might hurt is
measured alone.

It stands at `floor` for `settle` at first and after each `probe`, begins at `start`, and takes a step every `period`:
times `multiply` while `hurt`, else `add` more, or times `ramp` until it was first hurt; then the last of these steps is
taken back. A step down begins at 5/4 of what is `used`, or at `start`, where the value has gone beyond: else a limit
that nobody felt while it rose would take seconds to come down to where it is felt. A period below a tick is a tick. A
step that changes nothing is the last one; the next change of `hurt` is answered at once.
"""

from math import inf
from typing import NamedTuple

FINEST_NS = 5_000_000
"""The shortest period: rules are not looked at more often."""


class Aimd(NamedTuple):
    value: float
    ramping: bool
    """Not hurt since the start."""
    next_ns: int | None
    """Of the next step, or of the start; None: at rest, a step would change nothing."""
    settling: bool
    """Standing aside."""


INITIAL: Aimd | None = None


def step(
    state: Aimd | None,
    now_ns: int,
    hurt: bool | None,
    probe: bool | None,
    settle_ns: float,
    period_ns: float,
    start: float,
    floor: float,
    ceiling: float,
    add: float,
    multiply: float,
    ramp: float,
    used: float | None = inf,
) -> tuple[Aimd, float]:
    """An unknown `probe` is none; while `hurt` is unknown the value stays."""
    if state is None or probe:
        if settle_ns > 0:
            return Aimd(floor, True, _after(now_ns, settle_ns), True), floor
        state = Aimd(floor, True, now_ns, True)
    value, ramping, next_ns, settling = state
    if next_ns is not None and now_ns < next_ns:
        return state, floor if settling else value
    period = max(int(min(period_ns, 1 << 62)), FINEST_NS)
    late = next_ns is None or next_ns + period <= now_ns
    following = now_ns + period if late or next_ns is None else next_ns + period
    if settling:
        value = min(max(start, floor), ceiling)
        return Aimd(value, True, following, False), value
    if hurt is None:
        moved = value
    elif hurt:
        felt = value if used is None else min(value, max(1.25 * used, start))
        moved = min(felt * multiply, value / ramp) if ramping else felt * multiply
        moved, ramping = max(moved, floor), False
    else:
        moved = min(max(value * ramp if ramping and ramp > 1 else value + add, floor), ceiling)
    if moved == value:
        return (state if next_ns is None and ramping == state.ramping else Aimd(value, ramping, None, False)), value
    return Aimd(moved, ramping, following, False), moved


def due(state: Aimd | None, now_ns: int) -> int | None:
    return None if state is None or state.next_ns is None else max(state.next_ns, now_ns + 1)


def resume(
    state: Aimd | None, since_ns: int, now_ns: int, _hurt: bool | None, _probe: bool | None, settle_ns: float, *_: float
) -> Aimd | None:
    """After it was beaten since `since_ns`: it goes on where it was; after longer than `settle`, anew at the floor."""
    if state is None or now_ns - since_ns > settle_ns:
        return None
    return state if state.next_ns is None else state._replace(next_ns=state.next_ns + now_ns - since_ns)


def _after(now_ns: int, duration_ns: float) -> int:
    return now_ns + int(min(duration_ns, 1 << 62))
