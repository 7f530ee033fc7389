"""Turns and what they move, from events and the state after them. Pure.

A turn ends when its last process has given the device back. Where the next one's memory needs the room, that of the
last one leaves in the same breath, and belongs to its turn; what leaves at another time stands alone.
"""

from collections.abc import Sequence

from attrs import define

from gpud.engine.lock_queue import Turn, has
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.units import MILLISECOND
from gpud.telemetry.records import Phase, SwapMoment, TurnMoment, TurnRef

GOES_ON = "goes on"
_ENDS = frozenset((ev.Detached, ev.SessionEnded, ev.PagesFailed))
SWEEP_NS = 100 * MILLISECOND
"""Between two looks who waits no more."""
_EACH_TURN = frozenset((ev.LockAsked, ev.LockIsIn, ev.LockBack, ev.WentActive, ev.WentIdle))
_FAILED = 2, 3
"""`code` of Swapped; 0: it goes on."""


@define(kw_only=True, eq=False)
class _Open:
    """A turn that is waited for, had, or whose memory leaves."""

    job: JobId
    slot: Slot
    asked_ns: int
    from_ns: int
    """Where the part begins that was not told yet."""
    until_ns: int | None = None
    turn: Turn | None = None
    swaps: bool = False
    back_ns: int | None = None
    end: str = ""
    outs: frozenset[tuple[ClientId, int]] = frozenset()
    """(client, request) that have yet to let memory go."""
    taken_in: int = 0
    came: dict[ClientId, int] | None = None
    """All of it so far, as each process has said last."""
    let_go: int = 0
    failed: str = ""
    after: TurnRef | None = None
    next_job: JobId | None = None
    part: int = 0


@define(kw_only=True, eq=False)
class _Out:
    """Memory that leaves by itself."""

    job: JobId
    slot: Slot
    began_ns: int
    next_job: JobId | None


class Turns:
    """Of one engine's state, which is only read."""

    def __init__(self, state: State, now: int) -> None:
        self._state = state
        self._waits: dict[tuple[JobId, Slot], _Open] = {}
        self._held: dict[Slot, _Open] = {}
        self._leaving: dict[tuple[JobId, Slot], _Open] = {}
        self._outs: dict[tuple[ClientId, int], _Open | _Out] = {}
        self._before: dict[Slot, tuple[TurnRef, int]] = {}
        """The last turn that is over, and when."""
        self._swept_ns = now
        self._clients = 0
        for request in state.locks.requests:
            for one in request.slots:
                self._waits[request.job, one] = _Open(
                    job=request.job,
                    slot=one,
                    asked_ns=request.since_ns,
                    from_ns=request.since_ns,
                    until_ns=request.until_ns,
                )
        for slot, line in state.locks.lines.items():
            if line.turn is not None:
                self._grant(slot, line.turn, now)

    def saw(self, event: ev.Event, effects: Sequence[Effect], now: int) -> list[TurnMoment | SwapMoment]:
        """What is over now."""
        state = self._state
        lines = state.locks.lines
        if not (lines or self._held or self._waits or self._leaving or self._outs):
            return []
        done: list[TurnMoment | SwapMoment] = []
        kind = type(event)
        if kind is ev.LockAsked:
            self._asked(event)  # type: ignore[arg-type]
        elif kind is ev.LockBack and event.asks is not None:  # type: ignore[union-attr]
            self._asked(event.asks)  # type: ignore[union-attr]
        elif kind is ev.LockIsIn:
            self._came_in(event)  # type: ignore[arg-type]
        elif kind is ev.Swapped:
            done += self._swapped(event, now)  # type: ignore[arg-type]
        for slot, line in lines.items():
            held = self._held.get(slot)
            if held is None:
                if line.turn is not None:
                    done += self._grant(slot, line.turn, now)
            elif held.turn is not line.turn:
                done += self._close(held, event, effects, now)
                if line.turn is not None:
                    done += self._grant(slot, line.turn, now)
        if len(self._held) > len(lines):
            for slot in [slot for slot in self._held if slot not in lines]:
                done += self._close(self._held[slot], event, effects, now)
        if self._waits and self._may_have_left(kind, now):
            done += self._sweep(now)
        if state.moves.devices:
            self._note_outs(effects, now)
        if self._outs and len(state.clients) != self._clients:
            for key in [key for key in self._outs if key[0] not in state.clients]:
                done += self._out_over(key, 0, "its process ended", now)
        self._clients = len(state.clients)
        return done

    def _may_have_left(self, kind: type, now: int) -> bool:
        """Is it worth looking who waits no more? Who asks or gives back comes with each turn, and drops nobody else's
        request unless its time is over, which the next tick finds as well."""
        if kind in _EACH_TURN:
            return len(self._waits) > len(self._state.locks.requests)
        return kind is not ev.Tick or now - self._swept_ns >= SWEEP_NS

    def split(self, job: JobId, before: int, at: int) -> list[TurnMoment]:
        """Of a job's turns that go on and began before that time, the part until now."""
        return [self._tell(one, at, GOES_ON) for one in self._open() if one.job == job and one.from_ns < before]

    def close(self, at: int) -> list[TurnMoment]:
        """All that goes on, until now."""
        return [self._tell(one, at, GOES_ON) for one in self._open()]

    def _open(self) -> list[_Open]:
        return [*self._waits.values(), *self._held.values(), *self._leaving.values()]

    def _asked(self, event: ev.LockAsked) -> None:
        locks, waits = self._state.locks, self._waits
        for request in locks.requests:
            if request.client == event.client and request.number == event.request:
                job, since = request.job, request.since_ns
                for slot in request.slots:
                    if (job, slot) not in waits and not has(locks, job, slot):
                        waits[job, slot] = _Open(
                            job=job, slot=slot, asked_ns=since, from_ns=since, until_ns=request.until_ns
                        )

    def _grant(self, slot: Slot, turn: Turn, now: int) -> list[TurnMoment]:
        since = min(turn.since_ns, now)
        one = self._waits.pop((turn.job, slot), None)
        if one is None:
            one = _Open(job=turn.job, slot=slot, asked_ns=since, from_ns=since)
        one.turn, one.swaps = turn, slot in self._state.moves.devices
        before = self._before.get(slot)
        if before is not None and before[1] >= one.asked_ns and before[0].job != turn.job:
            one.after = before[0]
        self._held[slot] = one
        left = self._leaving.get((turn.job, slot))
        return [self._finish(left, now)] if left is not None else []

    def _came_in(self, event: ev.LockIsIn) -> None:
        """Each word of a process counts from the grant on, also the one that not all of it has come."""
        if not event.bytes:
            return
        for slot in sorted(event.slots):
            one = self._held.get(slot)
            if one is not None and one.turn is not None and one.turn.epoch == event.epoch:
                came = one.came = one.came or {}
                before = came.get(event.client, 0)
                came[event.client] = max(event.bytes, before)
                one.taken_in += came[event.client] - before
                return  # one count for all of its devices

    def _close(self, one: _Open, event: ev.Event, effects: Sequence[Effect], now: int) -> list[TurnMoment]:
        """It has the device no more."""
        state, slot, turn = self._state, one.slot, one.turn
        assert turn is not None
        del self._held[slot]
        one.back_ns = now
        gone = type(event) in _ENDS
        one.end = "gone" if gone else "back" if turn.revoked_ns is None else "asked back"
        line = state.locks.lines.get(slot)
        if line is not None:
            following = line.turn.job if line.turn is not None else next(iter(line.places), None)
            one.next_job = following if following != one.job else None
        self._before[slot] = TurnRef(job=one.job, epoch=turn.epoch), now
        for effect in effects if one.swaps else ():
            if type(effect) is do.SwapOut and effect.slot == slot and self._job(effect.client) == one.job:
                one.outs |= {(effect.client, effect.request)}
                self._outs[effect.client, effect.request] = one
        if not one.outs:
            return [self._tell(one, now, one.end)]
        self._leaving[one.job, slot] = one
        return []

    def _note_outs(self, effects: Sequence[Effect], now: int) -> None:
        for effect in effects:
            if type(effect) is do.SwapOut and (effect.client, effect.request) not in self._outs:
                job = self._job(effect.client)
                if job is None:
                    continue
                left = self._leaving.get((job, effect.slot))
                if left is not None:
                    left.outs |= {(effect.client, effect.request)}
                    self._outs[effect.client, effect.request] = left
                    continue
                line = self._state.locks.lines.get(effect.slot)
                has_it = line.turn.job if line is not None and line.turn is not None else None
                out = _Out(job=job, slot=effect.slot, began_ns=now, next_job=has_it if has_it != job else None)
                self._outs[effect.client, effect.request] = out

    def _swapped(self, event: ev.Swapped, now: int) -> list[TurnMoment | SwapMoment]:
        key = (event.client, event.request)
        if not event.code or key not in self._outs:
            return []
        return self._out_over(key, event.bytes, "it could not let go" if event.code in _FAILED else "", now)

    def _out_over(self, key: tuple[ClientId, int], count: int, failed: str, now: int) -> list[TurnMoment | SwapMoment]:
        out = self._outs.pop(key)
        if isinstance(out, _Out):
            return [
                SwapMoment(
                    job=out.job,
                    slot=out.slot,
                    began_ns=out.began_ns,
                    ended_ns=now,
                    bytes=count,
                    next_job=out.next_job,
                    failed=failed,
                )
            ]
        out.outs -= {key}
        out.let_go += count
        out.failed = out.failed or failed
        return [] if out.outs else [self._finish(out, now)]

    def _finish(self, left: _Open, now: int) -> TurnMoment:
        """Its memory has left, or it has the device again."""
        del self._leaving[left.job, left.slot]
        for key in left.outs:
            self._outs.pop(key, None)
        return self._tell(left, now, left.end)

    def _sweep(self, now: int) -> list[TurnMoment]:
        """Of those that wait no more, and were not granted."""
        self._swept_ns = now
        waiting = {(request.job, slot) for request in self._state.locks.requests for slot in request.slots}
        done = []
        for key in [key for key in self._waits if key not in waiting]:
            one = self._waits.pop(key)
            line = self._state.locks.lines.get(one.slot)
            if line is not None and line.turn is not None and line.turn.job != one.job:
                one.after = TurnRef(job=line.turn.job, epoch=line.turn.epoch)
            timed_out = one.until_ns is not None and now >= one.until_ns
            end = "timed out" if timed_out else "withdrawn" if one.job in self._state.tenants else "gone"
            done.append(self._tell(one, now, end))
        return done

    def _job(self, client: ClientId) -> JobId | None:
        found = self._state.clients.get(client)
        return found.job if found is not None else None

    def _tell(self, one: _Open, at: int, end: str) -> TurnMoment:
        turn, part = one.turn, one.part
        moment = TurnMoment(  # by place, as it is made with each turn
            one.job,
            one.slot,
            turn.epoch if turn is not None else 0,
            one.from_ns,
            at,
            _phases(one, at),
            end,
            one.taken_in,
            one.let_go,
            turn is not None and turn.overrun,
            one.failed,
            turn.revoked_ns if turn is not None else None,
            one.back_ns,
            one.after if not part or turn is None or one.from_ns < turn.since_ns else None,
            one.next_job,
            part,
        )
        one.from_ns, one.part, one.taken_in = at, part + 1, 0
        return moment


def _phases(one: _Open, at: int) -> tuple[Phase, ...]:
    """Of the part that is told now; those that took no time are left out."""
    turn, begin = one.turn, one.from_ns
    if turn is None:
        return (Phase("wait", begin, at),) if begin < at else ()
    granted = turn.since_ns if turn.since_ns > one.asked_ns else one.asked_ns
    back = at if one.back_ns is None else one.back_ns
    held = granted
    found = [Phase("wait", begin, granted)] if begin < granted else []
    if one.swaps:
        held = back if turn.in_ns is None else max(turn.in_ns, granted)
        if max(granted, begin) < held:
            found.append(Phase("swap_in", max(granted, begin), held))
    if begin > held:
        held = begin
    if held < back:
        found.append(Phase("hold", held, back))
    if back < at:
        found.append(Phase("swap_out", max(back, begin), at))
    return tuple(found)
