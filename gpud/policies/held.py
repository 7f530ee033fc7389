"""`when A for d until B for e`: a condition that must hold for a while.

    off ── A continuously true for d, and B false ──▶ on
    on  ── B, or without `until` not A, continuously true for e ──▶ off
    any ── what decides next is unknown for longer than the grace ──▶ out: neither the rule nor its `else` holds
    out ── what decides is known again ──▶ off

While what decides is unknown, the state is kept, and time goes on counting; after the grace it is out. A guard goes on
instead: it stays on, or off. What decides is B while on (A, if there is no `until`), else A, and B once A has lasted.
A tick that turns it off looks at once whether A begins to last, so that it makes no difference when the next one comes.

The compiler writes this out for each rule (compile/rules.py); tests compare the two.
"""

from typing import NamedTuple

GRACE_NS = 1_000_000_000
OFF, ON, OUT, LOST = 0, 1, 2, 3
"""`LOST` is out as well: it was on, and `until` is unknown. (Odd: B decides.)"""


class Held(NamedTuple):
    """State of one rule; `RESET` while the rule around it sleeps."""

    mode: int = OFF
    since_ns: int | None = None
    """Since when A holds (off), or what ends it (on)."""
    unknown_ns: int | None = None
    """Since when what decides is unknown."""


RESET = Held()


def step(
    state: Held,
    now_ns: int,
    condition: bool | None,
    until: bool | None,
    *,
    dwell_ns: int,
    release_ns: int,
    has_until: bool,
    guard: bool,
) -> Held:
    """One tick. Without `until`, `release_ns` is 0."""
    mode, since, unknown = state
    if mode in (ON, LOST):
        leaving = until if has_until else None if condition is None else not condition
        if leaving is None:
            return _unknown(state, now_ns, guard, None, LOST if has_until else OUT)
        if mode == ON and not leaving:
            return Held(ON)
        if mode == ON and release_ns:
            since = now_ns if since is None else since
            if now_ns - since < release_ns:
                return Held(ON, since)
        mode, since, unknown = RESET
    if condition is None:
        return _unknown(Held(mode, since, unknown), now_ns, guard, None, OUT)
    if not condition:
        return RESET
    since = now_ns if since is None else since
    if now_ns - since < dwell_ns:
        return Held(OFF, since)
    if has_until and until is None:
        return _unknown(Held(mode, since, unknown), now_ns, guard, since, OUT)
    return Held(OFF, since) if has_until and until else Held(ON)


def _unknown(state: Held, now_ns: int, guard: bool, known_since: int | None, out: int) -> Held:
    """`known_since` stays true although something else is unknown."""
    mode, since, unknown = state
    unknown = now_ns if unknown is None else unknown
    if now_ns - unknown < GRACE_NS:
        return Held(mode, since, unknown)
    return Held(mode if guard else out, known_since, unknown)


def due(state: Held, now_ns: int, *, dwell_ns: int, release_ns: int) -> int | None:
    """When it may change although the conditions do not."""
    times = []
    if state.since_ns is not None:
        times.append(state.since_ns + (release_ns if state.mode == ON else dwell_ns))
    if state.unknown_ns is not None:
        times.append(state.unknown_ns + GRACE_NS)
    return min((time for time in times if time > now_ns), default=None)
