"""The gate's decision, as gate_decide.c takes it. One table drives both: tests/contract/gate_cases.toml.

Times are nanoseconds of one clock, from 0 to `NEVER`, which stays what it is when something is added.
"""

from collections.abc import Sequence
from typing import NamedTuple

NEVER = 2**64 - 1
PAUSED, PREEMPT, WINDOW = 1, 2, 4
"""Bits of the gate word."""
WINDOW_PATIENCE_NS = 10_000_000_000
"""A full window holds no longer: the work waited for is the tenant's own, and may need the thread that is held."""
NO_PEER = -1


class Peer(NamedTuple):
    """Another tenant as its presence page shows it."""

    rank: int
    """Smaller is higher."""
    active: bool = False
    idle_since_ns: int = 0
    """0: was never active."""
    known: bool = True
    """Its page is mapped and of the generation that is meant; an unknown peer holds nobody."""


class Words(NamedTuple):
    """What a tenant's control page says of one device."""

    gate: int = 0
    rank: int = 0
    resume_after_ns: int = 0
    max_pause_ns: int = NEVER
    max_inflight: int = 0
    """0: unlimited."""
    others_active: bool = False
    """One of the peers that no longer fit in the table is active."""
    detach: bool = False
    lease_until_ns: int = NEVER
    failsafe_opens: bool = True
    """`hold` never opens by itself."""
    failsafe_after_ns: int = 30_000_000_000


class Own(NamedTuple):
    """What the asking thread brings."""

    held_since_ns: int = 0
    """0: not held yet."""
    passes: int = 0
    """Launches that an earlier max_pause still lets through."""
    inflight: int = 0


class Decision(NamedTuple):
    """May a launch pass?"""

    hold: bool
    why: str
    """`open`, `detached`, `paused`, `peer`, `others`, `window`, `max_pause`, `failsafe`."""
    until_ns: int = NEVER
    """When time alone changes the answer."""
    peer: int = NO_PEER
    """Index of the peer waited for."""


def _later(time_ns: int, by_ns: int) -> int:
    return min(time_ns + by_ns, NEVER)


def _held_by_peers(words: Words, peers: Sequence[Peer], now: int) -> Decision | None:
    """The one that holds longest, or None."""
    held: Decision | None = None
    for index, peer in enumerate(peers):
        if not peer.known or peer.rank >= words.rank:
            continue
        until = NEVER
        if not peer.active:
            if peer.idle_since_ns == 0:
                continue
            until = _later(peer.idle_since_ns, words.resume_after_ns)
            if until <= now:
                continue
        if held is None or until > held.until_ns:
            held = Decision(True, "peer", until, index)
    if held is None and words.others_active:
        return Decision(True, "others")
    return held


def decide(words: Words, peers: Sequence[Peer], own: Own, now: int) -> Decision:
    """What the gate says to a launch at `now`."""
    if words.gate and words.detach:
        return Decision(False, "detached")
    held: Decision | None = None
    max_pause = words.max_pause_ns
    if words.gate & PAUSED:
        held = Decision(True, "paused")
    if held is None and words.gate & PREEMPT:
        held = _held_by_peers(words, peers, now)
    if held is None and words.gate & WINDOW and 0 < words.max_inflight <= own.inflight:
        held = Decision(True, "window")
        max_pause = min(max_pause, WINDOW_PATIENCE_NS)
    if held is None:
        return Decision(False, "open")
    if held.why != "paused":
        end = _later(own.held_since_ns or now, max_pause)
        if own.passes > 0 or (own.held_since_ns and max_pause != NEVER and end <= now):
            return Decision(False, "max_pause")
        if max_pause != NEVER:
            held = held._replace(until_ns=min(held.until_ns, end))
    if words.failsafe_opens:
        end = _later(words.lease_until_ns, words.failsafe_after_ns)
        if end <= now:
            return Decision(False, "failsafe")
        held = held._replace(until_ns=min(held.until_ns, end))
    return held
