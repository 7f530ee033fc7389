"""The gate's decision, as the hook takes it. One table drives both: tests/contract/gate_cases.toml, whose heading says
it in words.
"""

from collections.abc import Sequence

from gpud.policies.simulate.gate_turn import own_spent, take_turn
from gpud.policies.simulate.gate_words import (
    BUDGET,
    COPY,
    GRANT,
    NEVER,
    NONE_LAG,
    PAUSED,
    PREEMPT,
    RATE,
    SHARE,
    TURN_ASKS,
    WINDOW,
    Decision,
    Own,
    Peer,
    Words,
    later,
)

WINDOW_PATIENCE_NS = 10_000_000_000
"""A full window holds no longer: the work waited for is the tenant's own, and may need the thread that is held."""
_PASSES = Decision(False, "open")


def decide(words: Words, peers: Sequence[Peer], own: Own, now: int) -> Decision:
    """What the gate says to a launch (or a copy) at `now`."""
    if words.gate and words.detach:
        return Decision(False, "detached")
    decided = _memory(words, own, now) if own.bytes or own.memory else _launch(words, peers, own, now)
    if decided.hold and decided.why != "lock" and words.failsafe_opens:
        end = later(words.lease_until_ns, words.failsafe_after_ns)
        if end <= now:
            granted = own.elsewhere or _is_granted(words, own)
            return Decision(False, "failsafe") if granted else Decision(True, "lock")
        return decided._replace(until_ns=min(decided.until_ns, end))
    return decided


def _launch(words: Words, peers: Sequence[Peer], own: Own, now: int) -> Decision:
    """The first that holds counts. max_pause overrules peers above and the own window, but neither caps nor rates nor
    turns: those are owed to others."""
    passed = _PASSES
    if words.gate & PAUSED:
        return Decision(True, "paused")
    if words.gate & PREEMPT:
        held = _peers(words, peers, now)
        if held is not None:
            passed = _unless_paused_long(held, words.max_pause_ns, own, now)
    if passed.hold or own.elsewhere:
        return passed
    if not _is_granted(words, own):
        return Decision(True, "lock")
    for bit, look in ((BUDGET, _cap), (RATE, _rates)):
        held = look(words, peers, own, now) if words.gate & bit else None
        if held is not None:
            return held
    turn = take_turn(words, peers, own, now) if words.gate & SHARE else _PASSES
    if turn.hold:
        return turn
    if words.gate & WINDOW and passed.why == "open" and _is_full(words, own):
        patience = min(words.max_pause_ns, WINDOW_PATIENCE_NS)
        passed = _unless_paused_long(Decision(True, "window"), patience, own, now)
    return passed._replace(turn=turn.turn)


def _is_granted(words: Words, own: Own) -> bool:
    """The grant is one, and its memory is in."""
    return not words.gate & GRANT or own.epoch == words.grant_epoch != 0


def _memory(words: Words, own: Own, now: int) -> Decision:
    if not _is_granted(words, own):
        return Decision(True, "lock")
    due = own.copied.due(own.bytes, now) if words.gate & COPY and own.bytes else now
    return Decision(True, "rate", due) if due > now else _PASSES


def _peers(words: Words, peers: Sequence[Peer], now: int) -> Decision | None:
    """The one ranked above that holds longest."""
    held: Decision | None = None
    for index, peer in enumerate(peers):
        if not peer.known or peer.rank >= words.rank:
            continue
        until = NEVER
        if not peer.active and peer.turn != TURN_ASKS:
            if peer.idle_since_ns == 0:
                continue
            until = later(peer.idle_since_ns, words.resume_after_ns)
            if until <= now:
                continue
        if held is None or until > held.until_ns:
            held = Decision(True, "peer", until, index)
    if held is None and words.others_active:
        return Decision(True, "others")
    return held


def _cap(words: Words, peers: Sequence[Peer], own: Own, now: int) -> Decision | None:
    spent = own_spent(peers, own) + own.forfeit_ns + _enough_to_go_on(words, own)
    if words.cap.at(spent, now) > 0 or (words.soft and not _somebody_wants(words, peers)):
        return None
    return Decision(True, "budget", words.cap.positive_at(spent))


def _enough_to_go_on(words: Words, own: Own) -> int:
    """Under turns, whoever was stopped by its cap runs on in bursts, not as its level trickles in."""
    if not own.gathers or not words.gate & SHARE:
        return 0
    return min(words.turn_ns * words.cap.rate_ppm // 1_000_000, words.cap_burst_ns // 2)


def _somebody_wants(words: Words, peers: Sequence[Peer]) -> bool:
    """A process of another tenant is active, or waits."""
    others = (peer for peer in peers if peer.known and not peer.own)
    return any(peer.active or peer.waiting for peer in others) or words.others_active or words.others_lag_ns != NONE_LAG


def _rates(words: Words, peers: Sequence[Peer], own: Own, now: int) -> Decision | None:
    due = max(own.launches.due(1, now), own.block_bucket.due(own.blocks, now))
    return Decision(True, "rate", due) if due > now else None


def _is_full(words: Words, own: Own) -> bool:
    if own.full or 0 < words.max_inflight <= own.inflight:
        return True
    return 0 < words.max_inflight_ns < own.inflight_ns + own.cost_ns and own.inflight > 0


def _unless_paused_long(held: Decision, max_pause: int, own: Own, now: int) -> Decision:
    end = later(own.held_since_ns or now, max_pause)
    if own.passes > 0 or own.pass_ns > 0 or (own.held_since_ns and max_pause != NEVER and end <= now):
        return Decision(False, "max_pause")
    return held if max_pause == NEVER else held._replace(until_ns=min(held.until_ns, end))
