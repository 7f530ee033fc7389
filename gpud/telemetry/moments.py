"""From events, effects and the state after them to records of what is over. Pure."""

from collections.abc import Sequence

from gpud.engine.state import State, Waiting
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId, SessionId, Slot
from gpud.model.units import SECOND
from gpud.telemetry.records import Came, Evicted, Gone, Job, NoMemory, Record, Refused, TurnMoment, job_of
from gpud.telemetry.turns import Turns

OOM_NS = 1 * SECOND
"""A program that tries again and again is told of once in so long."""
_NO_MEMORY = {
    1: "it does not fit below its limit",
    2: "there is no room on the device",
    3: "it has waited for as long as it may",
    4: "there is no room in host memory",
}
"""GPUD_MEMORY_NO_* of gpud_wire.h."""


_STAY = frozenset((ev.LockAsked, ev.LockIsIn, ev.LockBack, ev.WentActive, ev.WentIdle, ev.Swapped, ev.PluginSample))
"""Nobody comes or goes by these, unless somebody waits to be let in."""


class Moments:
    """Of one engine's state, which is only read."""

    def __init__(self, state: State, now: int) -> None:
        self._state = state
        self._turns = Turns(state, now)
        self._waiting: dict[JobId, Waiting] = {}
        self._shape = (0, 0, 0, 0)
        self._asks: dict[tuple[ClientId, int], tuple[int, int]] = {}
        """Allocation that waits → since when, bytes."""
        self._failed: dict[tuple[JobId, Slot, int], int] = {}
        self._evicts: dict[JobId, tuple[int, str]] = {}
        self.jobs: set[JobId] = set(state.tenants)
        """Those that are in."""
        self._waiting = {one.tenant.id: one for one in state.waiting}
        self._shape = self._look()

    def saw(self, event: ev.Event, effects: Sequence[Effect], now: int) -> Sequence[Record]:
        """What is over by this event."""
        kind = type(event)
        if kind in _STAY and not (self._waiting or self._asks or self._evicts):
            return self._turns.saw(event, effects, now)
        done: list[Record] = []
        gone: list[Record] = []
        if (kind not in _STAY or self._waiting) and (shape := self._look()) != self._shape:
            self._shape = shape
            done, gone = self._members(effects, now)
        done += self._turns.saw(event, effects, now)
        if kind is ev.LaunchAsked:
            done += self._refused_at_once(event, effects, now)  # type: ignore[arg-type]
        elif kind is ev.AllocAsked:
            self._allocates(event, now)  # type: ignore[arg-type]
        elif kind is ev.EvictAsked:
            self._evicted(event, now)  # type: ignore[arg-type]
        if self._asks:
            for effect in effects:
                if type(effect) is do.SendAllocReply:
                    done += self._answered(effect, now)
        if self._evicts:
            done += self._left(now)
        return done + gone

    def split(self, job: JobId, before: int, at: int) -> list[TurnMoment]:
        """Of a job's turns that go on and began before that time, the part until now."""
        return self._turns.split(job, before, at)

    def close(self, at: int) -> list[TurnMoment]:
        """All that goes on, until now."""
        return self._turns.close(at)

    def _look(self) -> tuple[int, int, int, int]:
        """Whoever comes or goes changes it."""
        state = self._state
        return len(state.tenants), len(state.waiting), state.next_job, len(state.clients)

    def _members(self, effects: Sequence[Effect], now: int) -> tuple[list[Record], list[Record]]:
        state = self._state
        came: list[Record] = []
        waiting = {one.tenant.id: one for one in state.waiting}
        for job, one in self._waiting.items():
            if job not in waiting and job not in state.tenants:
                text = _refusal(effects, one.event.session) or "it left the line"
                came.append(Refused(job=job_of(one.tenant), at_ns=now, text=text))
        for job, tenant in state.tenants.items():
            if job not in self.jobs:
                came.append(Came(job=job_of(tenant), at_ns=now))
        gone: list[Record] = [Gone(job=job, at_ns=now) for job in self.jobs if job not in state.tenants]
        self._waiting, self.jobs = waiting, set(state.tenants)
        if self._asks:
            self._asks = {key: since for key, since in self._asks.items() if key[0] in state.clients}
        self._failed = {key: at for key, at in self._failed.items() if key[0] in state.tenants}
        return came, gone

    def _refused_at_once(self, event: ev.LaunchAsked, effects: Sequence[Effect], now: int) -> list[Record]:
        """`gpud run` was told no."""
        text = _refusal(effects, event.session)
        if not text:
            return []
        asked = dict(event.asked)
        job = Job(
            id=0,
            name=asked.get("name", ""),
            user=event.who.user,
            uid=event.who.uid,
            pid=event.who.pid,
            command=asked.get("command", ""),
            exe=asked.get("exe", ""),
            labels=(),
            caller=asked.get("traceparent", ""),
            asked_ns=now,
        )
        return [Refused(job=job, at_ns=now, text=text)]

    def _allocates(self, event: ev.AllocAsked, now: int) -> None:
        key = (event.client, event.request)
        if not event.bytes:
            self._asks.pop(key, None)
        elif event.client in self._state.clients:
            self._asks.setdefault(key, (now, event.bytes))

    def _answered(self, effect: do.SendAllocReply, now: int) -> list[Record]:
        since, count = self._asks.pop((effect.client, effect.request), (now, 0))
        client = self._state.clients.get(effect.client)
        if client is None or not effect.code:
            return []
        key = (client.job, effect.slot, effect.code)
        if now - self._failed.get(key, -OOM_NS) < OOM_NS:
            return []
        self._failed[key] = now
        return [
            NoMemory(
                job=client.job,
                slot=effect.slot,
                began_ns=since,
                ended_ns=now,
                bytes=count,
                why=_NO_MEMORY.get(effect.code, f"code {effect.code}"),
            )
        ]

    def _evicted(self, event: ev.EvictAsked, now: int) -> None:
        job = JobId(event.job)
        if job in self._state.tenants and job not in self._evicts:
            self._evicts[job] = now, event.by.name

    def _left(self, now: int) -> list[Record]:
        """Those that have left their devices."""
        state, done = self._state, list[Record]()
        for job, (began, by) in list(self._evicts.items()):
            tenant = state.tenants.get(job)
            turns = [line.turn for line in state.locks.lines.values() if line.turn is not None]
            asked = any(turn.job == job and turn.revoked_ns is not None for turn in turns)
            if tenant is None or not (tenant.leaves or asked):
                del self._evicts[job]
                done.append(Evicted(job=job, began_ns=began, ended_ns=now, by=by))
        return done


def _refusal(effects: Sequence[Effect], session: SessionId) -> str:
    for effect in effects:
        if type(effect) is do.Refuse and effect.session == session:
            return effect.text
    return ""
