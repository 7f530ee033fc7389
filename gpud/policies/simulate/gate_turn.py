"""Whose turn is it? Every hook answers this by itself, from the same words, so all come to the same answer."""

from collections.abc import Iterator, Sequence

from attrs import define

from gpud.policies.simulate.gate_words import (
    BEYOND,
    NEVER,
    NO_PEER,
    NONE_LAG,
    TURN_ASKS,
    TURN_HAS,
    TURN_NONE,
    Decision,
    Own,
    Peer,
    Words,
    later,
)

_LEAST_GRACE_NS = 1_000_000
_GRACE_PART = 8
"""Whoever has the turn keeps the device busy until its window was not full for this part of a turn, or for 1 ms."""
_MOST_FULL_NS = 10_000_000_000
_LAG_TURNS, _MOST_LAG_NS = 8, 500_000_000
"""What no client says that is well: that its window stays full for longer; and that it is further behind than so many
turns, or so long, and what came since the daemon wrote its level."""


@define
class _Wanting:
    """Another tenant that has the turn or asks for it."""

    entry: int
    """Of its first process."""
    tenant: int
    has: bool = False
    lag_ns: int = 0
    full_ns: int = 0
    active: bool = False
    """One of its processes is."""
    peer: int = NO_PEER
    """The process that has the turn, or else asks."""


def own_spent(peers: Sequence[Peer], own: Own) -> int:
    """Of all processes of the tenant."""
    return own.spent_ns + sum(peer.spent_ns for peer in peers if peer.own and peer.known)


def take_turn(words: Words, peers: Sequence[Peer], own: Own, now: int) -> Decision:
    """Holds, or passes with or without a turn."""
    if not words.share.rate_ppm:
        return Decision(False, "open")
    lag = words.share.lag(own_spent(peers, own), now)
    wanting = list(_wanting(words, peers, own, now))
    has = own.turn == TURN_HAS or any(peer.own and peer.known and peer.turn == TURN_HAS for peer in peers)
    if has and not any(_takes_over(words, other, lag, now) for other in wanting):
        return Decision(False, "open", turn=TURN_HAS)
    asking = [other for other in wanting if not other.has]
    first = max(asking, key=lambda other: (other.lag_ns, -other.tenant), default=None)
    if first is not None and not _is_before(first, words, lag):
        first = None
    busy = next((other for other in wanting if other is not first and _busy_until(words, other, now)), None)
    if first is not None:  # it waits itself, or is about to go on
        return Decision(True, "share", NEVER, first.peer if busy is None else busy.peer, TURN_ASKS)
    if busy is not None:
        return Decision(True, "share", _busy_until(words, busy, now), busy.peer, TURN_ASKS)
    return Decision(False, "open", turn=TURN_HAS)


def _is_before(other: _Wanting, words: Words, lag: int) -> bool:
    return (other.lag_ns, -other.tenant) > (lag, -words.tenant)


def _takes_over(words: Words, other: _Wanting, lag: int, now: int) -> bool:
    """Further behind by more than a turn; or it took the turn at the same time, and is further behind."""
    if other.lag_ns - lag > words.turn_ns:
        return True
    return other.has and _busy_until(words, other, now) > 0 and _is_before(other, words, lag)


def _busy_until(words: Words, other: _Wanting, now: int) -> int:
    """Until when it keeps the device busy; 0: it does not."""
    if not other.has:
        return NEVER if other.active else 0
    until = later(other.full_ns, max(words.turn_ns // _GRACE_PART, _LEAST_GRACE_NS))
    return until if other.full_ns and until > now and other.full_ns <= later(now, _MOST_FULL_NS) else 0


def _wanting(words: Words, peers: Sequence[Peer], own: Own, now: int) -> Iterator[_Wanting]:
    """Entries of one tenant stand next to each other."""
    entry = 0
    while entry < len(peers):
        end = entry + 1
        while end < len(peers) and peers[end].tenant == peers[entry].tenant:
            end += 1
        found = _tenant(words, peers, entry, end, now)
        if found is not None and entry not in own.ignored:
            yield found
        entry = end
    if words.others_lag_ns != NONE_LAG and BEYOND not in own.ignored:
        yield _Wanting(BEYOND, 2**32 - 1, lag_ns=words.others_lag_ns)


def _tenant(words: Words, peers: Sequence[Peer], entry: int, end: int, now: int) -> _Wanting | None:
    level = peers[entry].share
    found = _Wanting(entry, peers[entry].tenant)
    turn, spent = TURN_NONE, 0
    for index in range(entry, end):
        peer = peers[index]
        if not peer.known or peer.share is None or peer.own:
            continue
        spent += peer.spent_ns
        found.active |= peer.active
        found.full_ns = max(found.full_ns, peer.full_ns)
        if peer.turn not in (TURN_HAS, TURN_ASKS):
            continue
        if turn != TURN_HAS:
            turn, found.peer = peer.turn, index
    if turn == TURN_NONE or level is None or not level.rate_ppm:
        return None
    found.has, found.lag_ns = turn == TURN_HAS, level.lag(spent, now)
    most = max(_LAG_TURNS * words.turn_ns, _MOST_LAG_NS) + max(now - level.t0_ns, 0)
    return found if found.lag_ns <= most else None
