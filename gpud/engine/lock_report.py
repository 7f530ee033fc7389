"""Turns as commands show them. Pure."""

from gpud.engine import lock_queue
from gpud.engine.explained import of_word, place
from gpud.engine.in_force import said, tightest
from gpud.engine.lock_queue import Turn
from gpud.engine.lock_words import terms_of, working
from gpud.engine.memory_room import why_short
from gpud.engine.standing import arbitrated_at
from gpud.engine.state import State, Tenant
from gpud.model.ids import JobId, Slot
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND, format_duration
from gpud.model.views import LockView


def views(state: State, tenant: Tenant, now: int) -> tuple[LockView, ...]:
    """One for each of its devices with turns."""
    slots = {slot for client in tenant.clients if client in state.clients for slot in state.clients[client].slots()}
    return tuple(view(state, tenant, slot, now) for slot in sorted(slots & state.locks.lines.keys()))


def holder(state: State, slot: Slot) -> int | None:
    """Who has a device, or has yet to leave it."""
    line = state.locks.lines.get(slot)
    return line.turn.job if line is not None and line.turn is not None else None


def reason(state: State, slot: Slot) -> str:
    """What that one says it has the device for."""
    line = state.locks.lines.get(slot)
    clients = sorted(line.turn.clients) if line is not None and line.turn is not None else ()
    return next((text for client in clients if (text := state.reasons.get((client, slot)))), "")


def waiters(state: State, slot: Slot) -> int:
    return len(lock_queue.places(lock_queue.waiting_on(state.locks, slot)))


def view(state: State, tenant: Tenant, slot: Slot, now: int) -> LockView:
    """One job on one device."""
    line = state.locks.lines.get(slot)
    if line is None:
        return LockView(device=slot, state="none", text="there are no turns any more")
    turn = line.turn
    asks = [one for one in lock_queue.waiting_on(state.locks, slot) if one.job == tenant.id]
    if turn is not None and turn.job == tenant.id and not (asks and turn.overrun):
        return _held(state, tenant, slot, turn, now)
    if not asks:
        return LockView(
            device=slot,
            state="none",
            holder=holder(state, slot),
            reason=reason(state, slot),
            text="it does not ask for the device",
        )
    first = min(asks, key=lambda one: one.since_ns)
    at = lock_queue.starts_ns(state.locks, slot, tenant.id, lambda job, where: terms_of(state, job, where), now)
    at = None if at is None else max(at, line.opens_ns)
    number = line.places.index(tenant.id) + 1 if tenant.id in line.places else 0
    return LockView(
        device=slot,
        state="waits",
        place=number,
        waiting_ns=max(now - first.since_ns, 0),
        starts_ns=None if at is None else max(at - now, 0),
        explicit=any(one.explicit for one in asks),
        holder=holder(state, slot),
        reason=reason(state, slot),
        text=_waits(state, tenant.id, slot, number, at, now),
        by=by(state, tenant, slot),
    )


def steady(state: State, tenant: Tenant, slot: Slot) -> str:
    """Why a job that waits for its turn waits, without numbers: what has them are places and times of their own."""
    line = state.locks.lines.get(slot)
    if line is None:
        return "there are no turns any more"
    turn = line.turn
    if turn is not None and turn.job == tenant.id and not turn.overrun:
        return "it has the device, and its memory comes in" if turn.in_ns is None else "it has the device"
    kept_out = _kept_out(state, tenant, slot)
    first = line.places[:1] == [tenant.id]  # of all in line, it would cost too much to find out
    if kept_out or (first and why_short(state, tenant, slot)):
        return f"it waits in line, but {kept_out or 'its memory finds no room on the device'}"
    if turn is None and line.opens_ns:
        return f"it waits for its turn; {_not_open(state, slot)}"
    if turn is None:
        kept = line.reserved.job if line.reserved is not None and line.reserved.job != tenant.id else None
        return f"it waits for its turn{f'; the device is kept for job {kept}' if kept is not None else ''}"
    name = state.tenants[turn.job].name if turn.job in state.tenants else "?"
    what = "has the device"
    if turn.revoked_ns is not None:
        what = "was asked for the device and finishes its work"
        if turn.overrun:
            why, how = _late(state, turn), held_how(state, turn)
            what = f"was asked for the device and is late: {why}; {how} (grace of {_grace(state, slot)})"
    return f"it waits for its turn; job {turn.job} ({name}) {what}"


def _held(state: State, tenant: Tenant, slot: Slot, turn: Turn, now: int) -> LockView:
    others = waiters(state, slot)
    explicit = any(row.holds for (client, where), row in state.held.items() if where == slot and client in turn.clients)
    if turn.revoked_ns is not None:
        word, end = ("overruns", None) if turn.overrun else ("leaves", turn.deadline_ns)
        text = _leaves(state, slot, turn, now)
    else:
        word = "has" if turn.in_ns is not None else "comes in"
        end = min(lock_queue.ends_ns(turn, terms_of(state, turn.job, slot), None), FOREVER_NS)
        text = f"it has had the device for {_rough(now - turn.began_ns)}{_for(state, slot)}"
        if turn.never:
            text += ", and could not give it back: a stream capture of its own waits for the device"
        elif not others:
            text += ", and nobody waits"
        elif end < FOREVER_NS:
            text += f"; it is asked back {_in(end - now)}, {_jobs(others)}"
        else:
            text += f"; its turn has no end, {_jobs(others)}"
    left = None if end is None or end >= FOREVER_NS else max(end - now, 0)
    return LockView(
        device=slot,
        state=word,
        left_ns=left,
        explicit=explicit,
        holder=tenant.id,
        reason=reason(state, slot),
        text=text,
        by=by(state, tenant, slot),
    )


def _waits(state: State, job: JobId, slot: Slot, number: int, at: int | None, now: int) -> str:
    """`place 2 in line for the device, its turn is estimated in 40s; job 3 (train) has it`"""
    line = state.locks.lines[slot]
    when = "nobody can say when its turn is" if at is None else f"its turn is estimated {_in(at - now)}"
    text = f"place {number} in line for its turn; {when}"
    kept_out = _kept_out(state, state.tenants[job], slot)
    if kept_out:
        return f"it waits in line, but {kept_out}"
    missing = why_short(state, state.tenants[job], slot)
    if missing:
        return f"it waits in line, but {missing}"
    turn = line.turn
    if turn is None and line.opens_ns:
        return f"{text}; {_not_open(state, slot)}"
    if turn is None:
        reserved = line.reserved
        if reserved is not None and line.places[:1] != [reserved.job]:
            return text
        kept = reserved is not None and f"; the device is kept for job {reserved.job}, which waits for others, too"
        return text + (kept or "")
    name = state.tenants[turn.job].name if turn.job in state.tenants else "?"
    what = _leaves(state, slot, turn, now) if turn.revoked_ns is not None else "it has the device"
    what += _for(state, slot)
    return f"{text}; job {turn.job} ({name}): {what}"


def _not_open(state: State, slot: Slot) -> str:
    """There are turns only now, and who was there before may finish."""
    names = [f"job {job} ({state.tenants[job].name})" for job in working(state, slot)]
    who = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    grace = f"grace of {_grace(state, slot)}"
    return f"there are turns only now, and work from before may end first ({grace}){who and ': ' + who}"


def _kept_out(state: State, tenant: Tenant, slot: Slot) -> str:
    """By a person's word, a clause; "": it is not."""
    if tenant.paused is not None:
        return f"it is paused by {tenant.paused.by.name}"
    evicted = slot in tenant.leaves and slot in state.moves.devices
    return "it is evicted, and its memory has yet to leave" if evicted else ""


def _for(state: State, slot: Slot) -> str:
    """` ("validation")`"""
    said = reason(state, slot).replace('"', "'")
    return f' ("{said}")' if said else ""


def _leaves(state: State, slot: Slot, turn: Turn, now: int) -> str:
    since = _rough(now - (turn.revoked_ns or now))
    if not turn.overrun:
        return f"it was asked for the device {since} ago and finishes its work"
    why, where = _late(state, turn), _grace(state, slot)
    text = f"it was asked for the device {since} ago and is late: {why}; {held_how(state, turn)} (grace of {where})"
    return text + _ends(state, slot, turn, now)


def _ends(state: State, slot: Slot, turn: Turn, now: int) -> str:
    """`; others waiting, it is ended in 20s (turns.gpol:12)`"""
    tenant = state.tenants.get(turn.job)
    if tenant is None:
        return ""
    where = by(state, tenant, slot, "max_overrun")
    if turn.ended_ns is not None:
        return f"; it was told to end {_rough(now - turn.ended_ns)} ago ({where})"
    at = turn.deadline_ns + terms_of(state, turn.job, slot).max_overrun_ns
    return f"; while others wait it is ended {_in(at - now)} ({where})" if at < FOREVER_NS else ""


def _late(state: State, turn: Turn) -> str:
    """Why it has not given its device back in time, a clause."""
    if not any(client in state.heard for client in turn.clients):
        return "it does not answer"
    if hookless(state, turn):
        return "it has not released its turn"
    return "a stream capture is open in it" if turn.never else "its work has not ended"


def hookless(state: State, turn: Turn) -> bool:
    """Of who has it, a process takes turns without hook."""
    return any(client in state.clients and state.clients[client].hookless for client in turn.clients)


def held_how(state: State, turn: Turn) -> str:
    """What is done about one that is late, a clause."""
    return "it runs without hook, so that its launches go on" if hookless(state, turn) else "its gate is shut"


def ends_when(state: State, turn: Turn) -> str:
    """When the next one gets the device of one that is late."""
    return "it releases its turn, or ends" if hookless(state, turn) else "its work has ended, or it has"


def _grace(state: State, slot: Slot) -> str:
    """Where the grace stands that a turn is given back in."""
    return arbitrated_at(state, slot, "grace") or "no policy"


def by(state: State, tenant: Tenant, slot: Slot, knob: str = "max_hold") -> str:
    """`turns.gpol:12`, where the length of its turn comes from, or how long it may be late."""
    word = tightest(knob, said(state, tenant, slot, knob)) if slot in state.runs else None
    explained = of_word(word) if word is not None else None
    return place(explained) if explained is not None and explained.line else arbitrated_at(state, slot, knob)


def _jobs(count: int) -> str:
    return "one job waits" if count == 1 else f"{count} jobs wait"


def _in(ns: int) -> str:
    return "now" if ns <= 0 else f"in {_rough(ns)}"


def _rough(ns: int) -> str:
    """Without what nobody wants to read."""
    step = SECOND if ns >= 10 * SECOND else 100 * MILLISECOND if ns >= SECOND else MILLISECOND
    return format_duration(max(ns, 0) // step * step)
