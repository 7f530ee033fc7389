"""What the engine decides, said for people: effects and the state after them → decisions for the journal. The one place
that does. Pure.

Times are monotonic here; who asks for a decision gets it as Unix time.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, evolve, frozen

from gpud.engine import lock_report
from gpud.engine.explained import of_word, place, sentence
from gpud.engine.in_force import said, tightest
from gpud.engine.live_still import cut, short
from gpud.engine.lock_queue import Turn
from gpud.engine.publish import GATE_PAUSED
from gpud.engine.state import State, Tenant
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.ids import JobId, Slot
from gpud.model.live_views import Decision
from gpud.model.units import MILLISECOND, SECOND, format_duration
from gpud.policies.quantities import show_value
from gpud.policies.types import Type

LONGEST = 600
"""Characters of a sentence."""
OOM_NS = 1 * SECOND
"""A program that tries again and again is told of once in so long."""
_NO = {
    1: "does not fit below its limit",
    2: "finds no room on the device",
    3: "has waited for as long as it may",
    4: "finds no room in host memory",
}
"""GPUD_MEMORY_NO_* of gpud_wire.h."""
_JOB = re.compile(r"job (\d+)\b")
"""How a change of a reload begins that is about a job."""


@frozen(kw_only=True, eq=False)
class Made:
    """A decision, as it was made. `tell`: its sentence and place, where these are made only when somebody asks."""

    mono_ns: int
    kind: str
    text: str = ""
    slot: Slot | None = None
    job: int | None = None
    uid: int | None = None
    """Whose job it is."""
    by: str = ""
    level: str = "info"
    tell: Callable[[], tuple[str, str]] | None = None

    def decision(self, number: int, offset: int) -> Decision:
        """`offset`: of Unix time."""
        text, by = (self.text, self.by) if self.tell is None else self.tell()
        return Decision(
            number=number,
            at_ns=self.mono_ns + offset,
            kind=self.kind,
            text=cut(short(text), LONGEST),
            device=self.slot,
            job=self.job,
            by=cut(short(by), LONGEST),
            level=self.level,
        )


@define(kw_only=True)
class _Turn:
    """A turn as it was seen last."""

    turn: Turn
    revoked: bool = False
    is_in: bool = False


class Decisions:
    """Of one engine."""

    def __init__(self) -> None:
        self._turns: dict[Slot, _Turn] = {}
        self._paused: set[tuple[int, Slot]] = set()
        self._oom: dict[tuple[int, Slot, int], int] = {}
        self._by: dict[tuple[int, Slot], tuple[Any, str]] = {}
        """(job, device) → knobs in force, and where they say how long its turn is: it costs something to find, and
        turns change hands often."""
        self._uids: dict[int, int] = {}
        """Job → whose, also of one that has just ended."""

    def of(self, state: State, effects: Iterable[Effect], now: int) -> list[Made]:
        """After an event, its effects worked out."""
        found: list[Made] = []
        refused: list[do.Refuse] = []
        recorded: set[tuple[str, Slot | None]] = set()
        for effect in effects:
            match effect:
                case do.Record():
                    recorded.add((effect.kind, effect.slot))
                    found += _recorded(effect, now)
                case do.Reloaded():
                    found += _reloaded(effect, now)
                case do.KnobChanged():
                    found.append(_knob(effect, now))
                case do.PublishDevice():
                    found += self._published(state, effect, now)
                case do.SwapOut():
                    found += _leaves(state, effect, now)
                case do.SendAllocReply():
                    found += self._no_memory(state, effect, now)
                case do.Refuse():
                    refused.append(effect)
        if refused and ("refuse", None) not in recorded and not state.draining:
            found += [Made(mono_ns=now, kind="refuse", text=f"refused: {one.text}") for one in refused]
        if state.locks.lines or self._turns:
            found += [
                one for one in self._turned(state, now) if one.kind != "back" or ("back", one.slot) not in recorded
            ]
        if not found:
            return found
        return [self._whose(state, one) for one in found]

    def _whose(self, state: State, made: Made) -> Made:
        """Keeps the owners of jobs that were spoken of: a job that ends is gone from the state by then."""
        if made.job is None or made.uid is not None:
            return made
        tenant = state.tenants.get(JobId(made.job))
        waiting = next((one.tenant for one in state.waiting if one.tenant.id == made.job), None)
        owner = tenant or waiting
        if owner is not None:
            if len(self._uids) >= 4096:
                self._uids = {job: uid for job, uid in self._uids.items() if JobId(job) in state.tenants}
            self._uids[made.job] = owner.who.uid
        uid = self._uids.get(made.job)
        if uid is None:
            return made
        return evolve(made, uid=uid)

    def _published(self, state: State, effect: do.PublishDevice, now: int) -> list[Made]:
        client = state.clients.get(effect.client)
        key = (effect.words.tenant, effect.slot)
        paused = bool(effect.words.gate & GATE_PAUSED)
        if client is None or paused == (key in self._paused):
            return []
        if paused:
            self._paused = {one for one in self._paused if one[0] in state.tenants} | {key}
        else:
            self._paused.discard(key)
        tenant = state.tenants[client.job]
        text = f"job {tenant.id} ({tenant.name}) {'is paused' if paused else 'goes on'} on device {effect.slot}"
        by = _pauses(state, tenant, effect.slot) if paused else ""
        return [Made(mono_ns=now, kind="hold" if paused else "go", text=text, slot=effect.slot, job=tenant.id, by=by)]

    def _no_memory(self, state: State, effect: do.SendAllocReply, now: int) -> list[Made]:
        client = state.clients.get(effect.client)
        if client is None or effect.code not in _NO:
            return []
        key = (client.job, effect.slot, effect.code)
        if now - self._oom.get(key, -OOM_NS) < OOM_NS:
            return []
        if len(self._oom) >= 1024:
            self._oom.clear()
        self._oom[key] = now
        text = f"an allocation of {_who(state, client.job)} on device {effect.slot} fails: it {_NO[effect.code]}"
        return [Made(mono_ns=now, kind="oom", text=text, slot=effect.slot, job=client.job, level="warning")]

    def _terms_by(self, state: State, job: JobId, slot: Slot) -> str:
        tenant = state.tenants.get(job)
        if tenant is None:
            return ""
        knobs, known = tenant.in_force.get(slot), self._by.get((job, slot))
        if knobs is None or known is None or known[0] is not knobs:
            if len(self._by) >= 4096:
                self._by.clear()
            known = self._by[job, slot] = knobs, lock_report.by(state, tenant, slot)
        return known[1]

    def _turned(self, state: State, now: int) -> list[Made]:
        """Turns that have begun, were asked back, or are over."""
        found: list[Made] = []
        lines = state.locks.lines
        for slot in [*lines, *(slot for slot in self._turns if slot not in lines)]:
            turn = lines[slot].turn if slot in lines else None
            known = self._turns.get(slot)
            if known is not None and (turn is None or turn.epoch != known.turn.epoch):
                del self._turns[slot]
                found += _is_back(state, slot, known, now)
                known = None
            if turn is None:
                continue
            if known is None:
                known = self._turns[slot] = _Turn(turn=turn)
                found.append(_granted(state, slot, turn, now, self._terms_by(state, turn.job, slot)))
            if turn.in_ns is not None and not known.is_in:
                known.is_in = True
                found += _came_in(state, slot, turn, now)
            if (turn.revoked_ns is not None) != known.revoked:
                known.revoked = not known.revoked
                by = self._terms_by(state, turn.job, slot)
                found += [_revoked(state, slot, turn, now, by)] if known.revoked else []
        return found


def _pauses(state: State, tenant: Tenant, slot: Slot) -> str:
    """Who pauses it: a person, or where that stands."""
    if tenant.paused is not None:
        return tenant.paused.by.name
    word = tightest("pause", said(state, tenant, slot, "pause")) if slot in state.runs else None
    return place(of_word(word)) if word is not None and word.value else ""


def _recorded(effect: do.Record, now: int) -> list[Made]:
    if not effect.kind:
        return []
    made = Made(
        mono_ns=now,
        kind=effect.kind,
        text=effect.text,
        slot=effect.slot,
        job=effect.job,
        by=effect.by,
        level=effect.level,
    )
    return [made]


def _reloaded(effect: do.Reloaded, now: int) -> list[Made]:
    """What it means for a job is a decision about that job."""
    of_jobs = [(found, change) for change in effect.changes if (found := _JOB.match(change))]
    others = [change for change in effect.changes if not _JOB.match(change)]
    text = f"policies {effect.digest[:8] or 'none'} in force ({effect.why}, number {effect.generation})"
    text = ": ".join([text, "; ".join(others)] if others else [text])
    reload = Made(mono_ns=now, kind="reload", text=text)
    return [reload, *(Made(mono_ns=now, kind="note", text=change, job=int(found[1])) for found, change in of_jobs)]


def _knob(effect: do.KnobChanged, now: int) -> Made:
    """The words cost something, and a policy may change its mind two hundred times a second: they are made when
    somebody asks."""

    def tell() -> tuple[str, str]:
        before, because = effect.tell()
        return f"{sentence(because)}, was {before}", place(because)

    return Made(mono_ns=now, kind="knob", slot=effect.slot, job=effect.job, tell=tell)


def _leaves(state: State, effect: do.SwapOut, now: int) -> list[Made]:
    client = state.clients.get(effect.client)
    if client is None:
        return []
    amount = show_value(effect.bytes, Type.BYTES)
    text = f"{_who(state, client.job)} shall let {amount} of device {effect.slot} go"
    turn = state.locks.lines[effect.slot].turn if effect.slot in state.locks.lines else None
    if turn is not None and turn.job != client.job:
        text += f" for {_who(state, turn.job)}"
    return [Made(mono_ns=now, kind="swap_out", text=text, slot=effect.slot, job=client.job)]


def _granted(state: State, slot: Slot, turn: Turn, now: int, by: str) -> Made:
    text = f"{_who(state, turn.job)} has device {slot}"
    return Made(mono_ns=now, kind="grant", text=text, slot=slot, job=turn.job, by=by)


def _revoked(state: State, slot: Slot, turn: Turn, now: int, by: str) -> Made:
    others = [job for job in state.locks.lines[slot].places if job != turn.job]
    who_next = f": {_who(state, others[0])} is next" if others else ""
    return Made(
        mono_ns=now,
        kind="revoke",
        text=f"{_who(state, turn.job)} shall give device {slot} back{who_next}",
        slot=slot,
        job=turn.job,
        by=by,
    )


def _came_in(state: State, slot: Slot, turn: Turn, now: int) -> list[Made]:
    if slot not in state.moves.devices:
        return []
    took = format_duration(max(now - turn.since_ns, 0), MILLISECOND)
    text = f"the memory of {_who(state, turn.job)} is in on device {slot}, {took} after its turn began"
    return [Made(mono_ns=now, kind="swap_in", text=text, slot=slot, job=turn.job)]


def _is_back(state: State, slot: Slot, known: _Turn, now: int) -> list[Made]:
    had = format_duration(max(now - known.turn.since_ns, 0), MILLISECOND)
    text = f"{_who(state, known.turn.job)} has given device {slot} back after {had}"
    return [Made(mono_ns=now, kind="back", text=text, slot=slot, job=known.turn.job)]


def _who(state: State, job: JobId) -> str:
    tenant = state.tenants.get(job)
    return f"job {job} ({tenant.name})" if tenant is not None else f"job {job}"
