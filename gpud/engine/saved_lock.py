"""Turns on file: over a restart of the daemon who has a device keeps it, who waits keeps its place, and what `fair`
goes by is not forgotten. Pure."""

from collections import deque
from typing import Annotated, Any

import msgspec
from attrs import Factory, frozen

from gpud.engine.lock_queue import Line, Locks, Request, Turn
from gpud.engine.state import State
from gpud.model.ids import ClientId, JobId, Slot, UnitName
from gpud.model.units import FOREVER_NS, SECOND

PAST_STEP_NS = 10 * SECOND
"""So exactly is the past on file: of ten minutes, sixty rows for each unit."""
PAST_AGE_NS = 1 * SECOND
"""… and it may be so old: who gets a device is not to wait for it."""
_Slot = Annotated[int, msgspec.Meta(ge=0, lt=8)]
_Word = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


@frozen(kw_only=True)
class SavedTurn:
    slot: _Slot
    job: int
    unit: UnitName
    epoch: _Word
    since_ns: _Word
    clients: list[int]
    in_ns: _Word | None = None
    revoked_ns: _Word | None = None
    deadline_ns: _Word | None = None
    """None: it was not asked back."""
    overrun: bool = False
    ended_ns: _Word | None = None
    killed: bool = False
    never: bool = False
    retry_ns: _Word = 0


@frozen(kw_only=True)
class SavedRequest:
    client: int
    job: int
    number: Annotated[int, msgspec.Meta(ge=0)]
    slots: list[_Slot]
    explicit: bool
    since_ns: _Word


@frozen(kw_only=True)
class SavedPast:
    """Turns of a unit that are over."""

    slot: _Slot
    unit: UnitName
    turns: list[tuple[_Word, _Word]]
    """(from, how long in sum), oldest first."""


@frozen(kw_only=True)
class SavedLock:
    last_epoch: _Word = 0
    turns: list[SavedTurn] = Factory(list)
    requests: list[SavedRequest] = Factory(list)
    past: list[SavedPast] = Factory(list)


def dump(locks: Locks) -> dict[str, Any]:
    """The fields of a SavedLock, for msgspec."""
    turns = [(slot, line.turn) for slot, line in sorted(locks.lines.items()) if line.turn is not None]
    return {
        "last_epoch": locks.last_epoch,
        "turns": [
            SavedTurn(
                slot=slot,
                job=turn.job,
                unit=turn.unit,
                epoch=turn.epoch,
                since_ns=turn.since_ns,
                clients=[*sorted(turn.clients)],
                in_ns=turn.in_ns,
                revoked_ns=turn.revoked_ns,
                deadline_ns=None if turn.deadline_ns >= 2**63 else turn.deadline_ns,
                overrun=turn.overrun,
                ended_ns=turn.ended_ns,
                killed=turn.killed,
                never=turn.never,
                retry_ns=turn.retry_ns,
            )
            for slot, turn in turns
        ],
        "requests": [
            SavedRequest(
                client=one.client,
                job=one.job,
                number=one.number,
                slots=[*sorted(one.slots)],
                explicit=one.explicit,
                since_ns=one.since_ns,
            )
            for one in locks.requests
        ],
        "past": [row for slot, line in sorted(locks.lines.items()) for row in _past(slot, line)],
    }


def _past(slot: Slot, line: Line) -> list[msgspec.Raw]:
    """Encoded anew at most once in `PAST_AGE_NS`: it is the largest part of what is written with each grant."""
    noted = line.noted_ns // PAST_AGE_NS
    if line.on_file is None or line.on_file[0] != noted:
        rows = [SavedPast(slot=slot, unit=unit, turns=_condensed(its)) for unit, its in line.past.items()]
        line.on_file = noted, [msgspec.Raw(msgspec.json.encode(row)) for row in rows]
    return line.on_file[1]


def _condensed(turns: deque[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that began within one step as one."""
    found: list[tuple[int, int]] = []
    for start, took in turns:
        if found and start < found[-1][0] + PAST_STEP_NS:
            found[-1] = found[-1][0], found[-1][1] + took
        else:
            found.append((start, took))
    return found


def restore(state: State, saved: SavedLock, stale_until_ns: int) -> None:
    """After clients and devices. Of those that have died meanwhile nothing is left."""
    locks = state.locks
    locks.last_epoch = max(locks.last_epoch, saved.last_epoch)
    for turn in saved.turns:
        clients = {ClientId(one) for one in turn.clients if _is_of(state, one, turn.job)}
        if not clients or turn.slot not in state.devices:
            continue
        locks.lines[Slot(turn.slot)] = Line(
            turn=Turn(
                job=JobId(turn.job),
                unit=turn.unit,
                epoch=turn.epoch,
                since_ns=turn.since_ns,
                clients=clients,
                in_ns=turn.in_ns,
                revoked_ns=turn.revoked_ns,
                deadline_ns=FOREVER_NS if turn.deadline_ns is None else turn.deadline_ns,
                overrun=turn.overrun,
                ended_ns=turn.ended_ns,
                killed=turn.killed,
                never=turn.never,
                retry_ns=turn.retry_ns,
            )
        )
        locks.last_epoch = max(locks.last_epoch, turn.epoch)
    for past in saved.past:
        if past.slot in state.devices and past.turns:
            line = locks.lines.setdefault(Slot(past.slot), Line())
            line.past[past.unit] = deque(past.turns)
    locks.requests += [
        Request(
            client=ClientId(one.client),
            job=JobId(one.job),
            number=one.number,
            slots=frozenset(Slot(slot) for slot in one.slots),
            explicit=one.explicit,
            since_ns=one.since_ns,
            stale_until_ns=stale_until_ns,
        )
        for one in saved.requests
        if _is_of(state, one.client, one.job)
    ]


def _is_of(state: State, client: int, job: int) -> bool:
    found = state.clients.get(ClientId(client))
    return found is not None and found.job == job
