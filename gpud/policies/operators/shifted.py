"""`shifted(x, more_than, rising, falling)`: true at the one tick at which x is found to have moved to another level.

x has moved when it was more than `more_than` above its level for all of `rising`, or below for all of `falling`; also
when it was below by more than a quarter of that for ten times as long: a small loss that does not end is the new
normal, and a controller that takes it for harm would stand at its floor for ever.

The level is then what x is at that moment. A smoothed x is still on its way, so for `falling` after that, and after the
start, the level goes up with x: a short burst becomes the level, and its end is found as a fall.
"""

from typing import NamedTuple

SLIGHT, LONG = 4, 10
"""A fall by a `SLIGHT`th is found after `LONG` times `falling`."""


class Shifted(NamedTuple):
    level: float
    """What a fall is measured from."""
    found: float
    """What a rise is measured from: x when the level was found, so a rise that goes on is found again."""
    follow_until_ns: int
    """Until then the level goes up with x."""
    above_ns: int | None
    """x is above; this is when that will have lasted."""
    below_ns: int | None
    slightly_ns: int | None
    """x is a little below; likewise."""
    moved: bool
    """The last value."""


INITIAL: Shifted | None = None


def step(
    state: Shifted | None, now_ns: int, x: float | None, more_than: float, rising_ns: int, falling_ns: int
) -> tuple[Shifted | None, bool | None]:
    if x is None:
        return (state._replace(moved=False) if state and state.moved else state), None
    if state is None:
        return Shifted(x, x, now_ns + falling_ns, None, None, None, False), False
    level, found, follow_until, above, below, slightly, moved = state
    if now_ns >= follow_until:
        found = level
    elif x > level:
        level = x
    above = _lasting(x > found + more_than * abs(found), above, now_ns, rising_ns)
    below = _lasting(x < level - more_than * abs(level), below, now_ns, falling_ns)
    slightly = _lasting(x < level - more_than / SLIGHT * abs(level), slightly, now_ns, LONG * falling_ns)
    for due_ns in (above, below, slightly):
        if due_ns is not None and now_ns >= due_ns:
            return Shifted(x, x, now_ns + falling_ns, None, None, None, True), True
    after = Shifted(level, found, follow_until, above, below, slightly, False)
    return (after if moved or after != state else state), False


def _lasting(holds: bool, due_ns: int | None, now_ns: int, duration_ns: int) -> int | None:
    """When it will have held for so long; None: it does not hold."""
    return None if not holds else now_ns + duration_ns if due_ns is None else due_ns


def due(state: Shifted | None, now_ns: int) -> int | None:
    if state is None:
        return None
    if state.moved:
        return now_ns + 1
    times = [time for time in (state.above_ns, state.below_ns, state.slightly_ns) if time is not None]
    if state.found != state.level:  # a rise is measured from the level that x has reached by then
        times.append(state.follow_until_ns)
    return max(min(times), now_ns + 1) if times else None
