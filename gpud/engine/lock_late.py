"""Who has not given a device back in time: that is told, and where a policy says so (`max_overrun`), its job is ended.
Pure."""

from gpud.engine import lock_queue
from gpud.engine.in_force import knobs_for
from gpud.engine.lock_queue import Turn
from gpud.engine.lock_report import by, ends_when, held_how
from gpud.engine.lock_words import terms_of
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.ids import Slot
from gpud.model.units import FOREVER_NS, SECOND, format_duration

KILL_NS = 10 * SECOND
"""Who was told to end and still has the device then is killed: a process that waits for a kernel may never look at
another signal."""


def who(state: State, turn: Turn) -> str:
    tenant = state.tenants.get(turn.job)
    return f"job {turn.job} ({tenant.name})" if tenant is not None else f"job {turn.job}"


def late(state: State, now: int) -> list[Effect]:
    """Those whose grace is over."""
    effects: list[Effect] = []
    for slot, line in state.locks.lines.items():
        if line.turn is not None and line.turn.revoked_ns is not None and now >= line.turn.deadline_ns:
            effects += overruns(state, slot, line.turn)
    return effects


def overruns(state: State, slot: Slot, turn: Turn) -> list[Effect]:
    """It is one of them; told once."""
    if turn.overrun:
        return []
    turn.overrun = True
    grace = format_duration(terms_of(state, turn.job, slot).grace_ns)
    text = (
        f"{who(state, turn)} has not given device {slot} back within {grace}: {held_how(state, turn)}, and nobody gets "
        f"the device before {ends_when(state, turn)}"
    )
    return [do.Record(level="warning", text=text, kind="overrun", job=turn.job, slot=slot)]


def end_late(state: State, now: int) -> list[Effect]:
    """Ends those that have been late for as long as they may: a job once, however many devices it is late on."""
    turns = {slot: line.turn for slot, line in state.locks.lines.items() if line.turn is not None and line.turn.overrun}
    sent = {(turn.job, "TERM") for turn in turns.values() if turn.ended_ns is not None}
    sent |= {(turn.job, "KILL") for turn in turns.values() if turn.killed}
    effects: list[Effect] = []
    for slot, turn in turns.items():
        if now < ends_late_ns(state, slot, turn):
            continue
        if turn.ended_ns is None:
            turn.ended_ns, signal = now, "TERM"
            why = f"it has not given device {slot} back, and others wait (`max_overrun`)"
        else:
            turn.killed, signal = True, "KILL"
            why = f"it still has device {slot}, {format_duration(now - turn.ended_ns, SECOND)} after it was told to end"
        if (turn.job, signal) not in sent:
            sent.add((turn.job, signal))
            place = by(state, state.tenants[turn.job], slot, "max_overrun")
            effects.append(do.EndJob(job=turn.job, signal=signal, slot=slot, why=why, by=place))
    return effects


def ends_late_ns(state: State, slot: Slot, turn: Turn) -> int:
    """When something is to be done about one that overruns; FOREVER_NS: nothing."""
    if turn.killed or turn.job not in state.tenants:
        return FOREVER_NS
    if turn.ended_ns is not None:
        return turn.ended_ns + KILL_NS
    waiting = (one for one in lock_queue.waiting_on(state.locks, slot) if one.stale_until_ns is None)
    if slot not in state.runs or not any(
        one.job != turn.job and not knobs_for(state, state.tenants[one.job], slot).pause for one in waiting
    ):
        return FOREVER_NS
    # Just restarted: who has not come back yet may have given it back while nobody heard it.
    ends = max(turn.deadline_ns + terms_of(state, turn.job, slot).max_overrun_ns, state.adopt_until_ns or 0)
    return min(ends, FOREVER_NS)
