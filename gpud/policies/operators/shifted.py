"""`shifted(x, more_than, rising, falling)`: true at the one tick at which x is found to have moved to another level.

x has moved when it was more than `more_than` above its level for all of `rising`, or below for all of `falling`. The
level is what x was when it was found last. A smoothed x is still on its way then, so for `falling` after that, and
after the start, the level goes up with x: a short burst becomes the level, and its end is found as a fall.

It has also moved when it was off what it usually is (as `level(x, over = falling)` learns it) by more than a quarter of
that for longer, four times `rising` or ten times `falling`: a small loss that does not end is the new normal, and a
controller that takes it for harm would stand at its floor for ever; and on a device that is full a load that doubles
shows as a small gain.

Who was held back makes up for it: x is then a little above without any rise in what is asked for. So what x falls short
is owed, up to what it usually is in `OWED_NS`, and is paid back before x counts as a little above.
"""

from math import ceil, isfinite
from typing import NamedTuple

from gpud.policies.operators import level as usually

SLIGHT, LONG_RISING, LONG_FALLING = 4, 4, 10
"""A move by a `SLIGHT`th is found after that many times `rising` or `falling`."""
OWED_NS = 200_000_000


class Shifted(NamedTuple):
    level: float
    """What a fall is measured from."""
    found: float
    """What a rise is measured from: x when the level was found, so a rise that goes on is found again."""
    follow_until_ns: int
    """Until then the level goes up with x."""
    usual: usually.Level | None
    """What x usually is; the small moves are measured from that."""
    x: float
    since_ns: int
    owed: float
    """At `since_ns`, and with x since then: what x fell short of what is usual, times nanoseconds."""
    above_ns: int | None
    """x is above; this is when that will have lasted."""
    below_ns: int | None
    slightly_above_ns: int | None
    slightly_below_ns: int | None
    """x is a little off; likewise."""
    moved: bool
    """The last value."""


INITIAL: Shifted | None = None


def step(
    state: Shifted | None, now_ns: int, x: float | None, more_than: float, rising_ns: int, falling_ns: int
) -> tuple[Shifted | None, bool | None]:
    if x is None:
        return (state._replace(moved=False) if state and state.moved else state), None
    if state is None:
        return _at(x, now_ns, falling_ns, False), False
    level, found, since_ns, owed = state.level, state.found, state.since_ns, state.owed
    usual, _ = usually.step(state.usual, now_ns, x, max(falling_ns, 1), False)
    if x != state.x or _value(usual) != _value(state.usual):
        since_ns, owed = now_ns, _owed(state, now_ns)
    if now_ns >= state.follow_until_ns:
        found = level
    elif x > level:
        level = x
    value = _value(usual)
    more, less, slight = more_than * abs(found), more_than * abs(level), more_than / SLIGHT * abs(value or 0.0)
    lasting = (
        _lasting(x > found + more, state.above_ns, now_ns, rising_ns),
        _lasting(x < level - less, state.below_ns, now_ns, falling_ns),
        _lasting(
            value is not None and x > value + slight and now_ns >= _paid_ns(x - value, since_ns, owed),
            state.slightly_above_ns,
            now_ns,
            LONG_RISING * rising_ns,
        ),
        _lasting(value is not None and x < value - slight, state.slightly_below_ns, now_ns, LONG_FALLING * falling_ns),
    )
    if any(due_ns is not None and now_ns >= due_ns for due_ns in lasting):
        return _at(x, now_ns, falling_ns, True), True
    after = Shifted(level, found, state.follow_until_ns, usual, x, since_ns, owed, *lasting, False)
    return (after if state.moved or after != state else state), False


def _at(x: float, now_ns: int, falling_ns: int, moved: bool) -> Shifted:
    usual, _ = usually.step(None, now_ns, x, max(falling_ns, 1), False)
    return Shifted(x, x, now_ns + falling_ns, usual, x, now_ns, 0.0, None, None, None, None, moved)


def _value(usual: usually.Level | None) -> float | None:
    return None if usual is None else usual.value


def _owed(state: Shifted, now_ns: int) -> float:
    value = _value(state.usual)
    if value is None or not isfinite(value - state.x):
        return 0.0
    return min(max(state.owed + (value - state.x) * (now_ns - state.since_ns), 0.0), abs(value) * OWED_NS)


def _paid_ns(surplus: float, since_ns: int, owed: float) -> int:
    """When it has paid what was owed at `since_ns`."""
    return since_ns + ceil(owed / surplus) if owed > 0 and surplus > 0 and isfinite(surplus) else since_ns


def _lasting(holds: bool, due_ns: int | None, now_ns: int, duration_ns: int) -> int | None:
    """When it will have held for so long; None: it does not hold."""
    return None if not holds else now_ns + duration_ns if due_ns is None else due_ns


def due(state: Shifted | None, now_ns: int) -> int | None:
    if state is None:
        return None
    if state.moved:
        return now_ns + 1
    lasting = (state.above_ns, state.below_ns, state.slightly_above_ns, state.slightly_below_ns)
    times = [time for time in (*lasting, usually.due(state.usual, now_ns)) if time is not None]
    value = _value(state.usual)
    paid_ns = state.since_ns if value is None else _paid_ns(state.x - value, state.since_ns, state.owed)
    if paid_ns > now_ns:
        times.append(paid_ns)
    if state.found != state.level:  # a rise is measured from the level that x has reached by then
        times.append(state.follow_until_ns)
    return max(min(times), now_ns + 1) if times else None
