"""Devices with turns as rows show them: who has each, until when, who is next and when. Worked out once for each look,
not once for each job. Pure."""

from attrs import frozen

from gpud.engine.lock_queue import Line, ends_ns
from gpud.engine.lock_words import max_hold_ns, terms_of
from gpud.engine.state import State
from gpud.model.ids import JobId, Slot
from gpud.model.units import FOREVER_NS, SECOND


@frozen
class Place:
    """Of a job in line. Times are monotonic."""

    number: int
    """1: next."""
    starts_ns: int | None
    """If all before it use their turns up; None: nobody can say."""


@frozen(kw_only=True)
class LineView:
    """One device with turns."""

    holder: JobId | None
    """Who has it, or has yet to leave it."""
    ends_ns: int | None
    """Of the holder's turn, while others wait; None: it has no end, or nobody knows it."""
    overrun: bool
    places: dict[JobId, Place]
    reserved: JobId | None
    """It is free, and kept for that job."""


Lines = dict[Slot, LineView]


def lines(state: State, now: int) -> Lines:
    """Of all devices with turns."""
    return {slot: _view(state, slot, line, now) for slot, line in state.locks.lines.items()}


def _view(state: State, slot: Slot, line: Line, now: int) -> LineView:
    turn = line.turn
    waiting = [job for job in line.places if job in state.tenants]
    end: int | None = None
    if turn is not None and turn.job in state.tenants and not turn.overrun:
        end = turn.deadline_ns if turn.revoked_ns is not None else ends_ns(turn, terms_of(state, turn.job, slot), None)
        end = None if end >= FOREVER_NS else end
    places: dict[JobId, Place] = {}
    at = now if turn is None else end
    for number, job in enumerate(waiting, start=1):
        places[job] = Place(number, _shown(at, now))
        hold = max_hold_ns(state, state.tenants[job], slot)
        at = None if at is None or hold >= FOREVER_NS else max(at, now) + hold
    return LineView(
        holder=turn.job if turn is not None else None,
        ends_ns=end if waiting else None,
        overrun=turn is not None and turn.overrun,
        places=places,
        reserved=line.reserved.job if line.reserved is not None else None,
    )


def _shown(at: int | None, now: int) -> int | None:
    """What goes on with the clock (a turn that should be over) moves by whole seconds, so that rows stay the same."""
    return None if at is None else at if at > now else at // SECOND * SECOND
