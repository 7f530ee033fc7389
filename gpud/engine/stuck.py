"""Who is active and uses nothing, while others must wait for it: it loses its rank until one of its kernels finishes.

A kernel that hangs, a device that is lost, a page that somebody has scribbled over: all look like this. Pure.
"""

from gpud.engine.peers import update_client
from gpud.engine.standing import arbiter_on
from gpud.engine.state import Claim, Client, State
from gpud.model import effects as do
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.events import Reading
from gpud.model.ids import ClientId, Slot
from gpud.model.units import SECOND, format_duration

PATIENCE_NS = 10 * SECOND
"""Active for so long …"""
_PART = 100
"""… with less than a hundredth of that used."""
LOOK_NS = SECOND // 2
"""Not oftener, however often policies look."""
YOUNG_NS = 2 * SECOND


def judge(state: State, reading: Reading, now: int) -> list[Effect]:
    """Looks at all that somebody may have to wait for. Who has lost a rank, or has it again, is in the tables then."""
    if now - state.judged_ns < LOOK_NS:
        return []
    state.judged_ns = now
    effects: list[Effect] = []
    claims: dict[tuple[ClientId, Slot], Claim] = {}
    changed: dict[Slot, None] = {}
    ranked = {slot for slot in state.runs if _has_ranks(state, slot)}
    for client in state.clients.values():
        if client.stuck:
            client.stuck &= client.slots()
        for slot in sorted(client.slots() & ranked) if ranked else ():
            counters = reading.counters.get((client.id, slot))
            if counters is None:
                continue
            before = state.watched.get((client.id, slot)) or _first(counters, now - client.attached_ns < YOUNG_NS, now)
            claim = claims[client.id, slot] = _look(before, counters, now)
            idle = not counters.active or claim.finished_ns != before.finished_ns
            lost = not idle and (slot in client.stuck or now - claim.since_ns >= PATIENCE_NS)
            if lost != (slot in client.stuck):
                changed[slot] = None
                effects.append(_change(state, client, slot, lost, now - claim.since_ns))
    state.watched = claims
    for client in list(state.clients.values()):
        if client.slots() & changed.keys():
            effects += update_client(state, client)
    return effects


def _has_ranks(state: State, slot: Slot) -> bool:
    applied = arbiter_on(state, slot)
    return applied is not None and applied.arbiter is not None and applied.arbiter.mode == "preempt"


def _first(counters: Counters, young: bool, now: int) -> Claim:
    """Of one that nobody has looked at. What an old one was charged, it has had."""
    return _begin(counters, now, 0 if young else counters.spent_ns)


def _look(claim: Claim, counters: Counters, now: int) -> Claim:
    """It begins anew while the client is idle, once something of it has finished, or is seen to use the device."""
    if not counters.active:
        return _begin(counters, now, counters.spent_ns)
    worked_off = min(counters.spent_ns, claim.spent_ns + max(now - claim.looked_ns, 0))
    claim.used_ns += max(worked_off - claim.spent_ns, 0)
    claim.spent_ns, claim.looked_ns = worked_off, now
    if counters.spent_ns:
        moves = claim.used_ns * _PART >= max(now - claim.since_ns, 1)
    else:  # nobody charges it: that it launches has to do
        moves = counters.entered != claim.entered
    if moves or counters.last_finish_ns != claim.finished_ns:
        return _begin(counters, now, worked_off)
    return claim


def _begin(counters: Counters, now: int, spent_ns: int) -> Claim:
    return Claim(now, now, spent_ns, 0, counters.entered, counters.last_finish_ns)


def _change(state: State, client: Client, slot: Slot, lost: bool, for_ns: int) -> Effect:
    tenant = state.tenants[client.job]
    who = f"job {tenant.id} ({tenant.name}, pid {client.who.pid})"
    if not lost:
        client.stuck.discard(slot)
        text = f"{who} moves again on device {slot}: it has its rank back"
        return do.Record(level="info", text=text, job=tenant.id, slot=slot)
    client.stuck.add(slot)
    text = f"{who} has been active on device {slot} for {format_duration(for_ns, SECOND)}, used nothing of it"
    text = f"{text} and finished nothing: it has no rank there until a kernel finishes"
    return do.Record(level="warning", text=text, job=tenant.id, slot=slot)
