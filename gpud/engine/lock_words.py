"""What a policy says of turns, and what a control page says of them. Pure."""

from attrs import frozen

from gpud.engine.board import Turns
from gpud.engine.in_force import knobs_for
from gpud.engine.lock_queue import Line, Request, Terms, in_line, places, wanted_by
from gpud.engine.memory_room import short
from gpud.engine.standing import arbiter_on, standing
from gpud.engine.state import Client, State, Tenant
from gpud.engine.units import unit_name
from gpud.model.ids import JobId, Slot
from gpud.model.knobs import LOCK_WANTED
from gpud.model.units import FOREVER_NS

MIN_HOLD_SWAPS = 5
"""Where a policy says nothing: a turn lasts this much longer than it took to bring its memory in, but not longer than
its `arbitrate` block says. (Rules that shorten turns while many wait would only make them swap all the time.)"""


@frozen(kw_only=True)
class LockWords:
    gated: bool = False
    epoch: int = 0
    until_ns: int = 0
    flags: int = 0
    place: int = 0


def turns_on(state: State, slot: Slot) -> Turns | None:
    """None: no turns there."""
    applied = arbiter_on(state, slot)
    return applied.arbiter.turns if applied is not None and applied.arbiter is not None else None


def terms_of(state: State, job: JobId, slot: Slot) -> Terms:
    """What the policy says of a tenant on a device with turns."""
    said = state.locks.said
    if said is None:
        return _terms_of(state, job, slot)
    found = said.get((job, slot))
    if found is None:
        found = said[job, slot] = _terms_of(state, job, slot)
    return found


def _terms_of(state: State, job: JobId, slot: Slot) -> Terms:
    turns, tenant = turns_on(state, slot), state.tenants[job]
    assert turns is not None
    own, unit = standing(state, tenant, slot), unit_name(state, tenant, slot)
    line = state.locks.lines.get(slot)
    least = MIN_HOLD_SWAPS * (line.took_ns.get(job, 0) if line is not None else 0)
    return Terms(
        rank=own.rank,
        unit=unit,
        max_hold_ns=max_hold_ns(state, tenant, slot),
        max_overrun_ns=_max_overrun_ns(state, tenant, slot),
        min_hold_ns=min(least, turns.max_hold_ns) if turns.min_hold_ns is None else turns.min_hold_ns,
        max_wait_ns=turns.max_wait_ns,
        grace_ns=turns.grace_ns,
        idle_release_ns=turns.idle_release_ns,
        fair=turns.fair,
    )


def max_hold_ns(state: State, tenant: Tenant, slot: Slot) -> int:
    """How long a turn of its is, on a device with turns."""
    turns = turns_on(state, slot)
    assert turns is not None
    if slot not in state.runs:
        return turns.max_hold_ns  # just restarted: policies have yet to speak
    said = knobs_for(state, tenant, slot).max_hold_ns
    return min(said, turns.max_hold_ns) if standing(state, tenant, slot).job_class is None else said


def _max_overrun_ns(state: State, tenant: Tenant, slot: Slot) -> int:
    """How long it may be late there."""
    turns = turns_on(state, slot)
    assert turns is not None
    if slot not in state.runs:
        return FOREVER_NS  # just restarted: nobody is ended before policies have spoken
    said = knobs_for(state, tenant, slot).max_overrun_ns
    return min(said, turns.max_overrun_ns) if standing(state, tenant, slot).job_class is None else said


def reachable(state: State, request: Request) -> bool:
    """Can its client be told of a grant, and use it?"""
    tenant, client = state.tenants[request.job], state.clients.get(request.client)
    there = client is not None and client.session is not None and client.id in state.heard
    if not there or request.stale_until_ns is not None:
        return False
    if any(slot in tenant.leaves and slot in state.moves.devices for slot in request.slots):
        return False
    if any(short(state, tenant, slot) for slot in request.slots):
        return False
    return not any(slot in state.runs and knobs_for(state, tenant, slot).pause for slot in request.slots)


def wanted(state: State, slot: Slot) -> bool:
    """Shall who has the device give it back once it is done, or its turn is over?"""
    turn = state.locks.lines[slot].turn
    swaps = turn is not None and slot in state.moves.devices and slot in state.runs
    if turn is not None and swaps and knobs_for(state, state.tenants[turn.job], slot).residency == "host":
        return True
    return bool(wanted_by(state.locks, slot, lambda request: reachable(state, request)))


def working(state: State, slot: Slot) -> list[JobId]:
    """Jobs that may have work under way there by what was read last, or whose processes were not seen."""
    found: set[JobId] = set()
    for client in state.clients_on(slot):
        row = state.held.get((client.id, slot))
        if client.id in state.heard and (row is None or row.active or row.inflight or row.entered != row.left):
            found.add(client.job)
    return sorted(found)


def words(state: State, client: Client, slot: Slot) -> LockWords:
    """What its page must say."""
    if turns_on(state, slot) is None:
        return LockWords()
    line = state.locks.lines.get(slot)
    if line is None:
        return LockWords(gated=True)
    turn = line.turn
    if turn is None or turn.job != client.job or client.id not in turn.clients or turn.overrun:
        return LockWords(gated=True, place=place(line, client.job))
    # Asked back, it shuts its gate itself: what the program has taken by acquire() may go on until the deadline.
    until = turn.began_ns + terms_of(state, client.job, slot).max_hold_ns
    if turn.revoked_ns is not None:
        until = turn.deadline_ns
    return LockWords(
        gated=True,
        epoch=turn.epoch,
        until_ns=min(until, FOREVER_NS),
        flags=LOCK_WANTED if wanted(state, slot) else 0,
    )


def place(line: Line, job: JobId) -> int:
    """In line, 1: next; 0: it does not wait."""
    return line.places.index(job) + 1 if job in line.places else 0


def sort(state: State, now: int) -> None:
    """Places in line, as they are now."""
    locks = state.locks
    for slot, line in locks.lines.items():
        line.places = places(in_line(locks, slot, lambda job, where: terms_of(state, job, where), now))
