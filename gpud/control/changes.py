"""What is done for who may change a job: set, pause, resume, evict, kill. Who may was judged before (authorised.py)."""

import msgspec
import trio
from attrs import frozen

from gpud.control import kill, wire
from gpud.control.authority import Change, Peer
from gpud.engine import report
from gpud.engine.service import Engine
from gpud.engine.state import Tenant
from gpud.model import events as ev
from gpud.model.errors import Refused
from gpud.model.rulings import By
from gpud.model.views import JobView

KILL_S = 5.0
"""How long it may take to find the processes of a job."""


@frozen(kw_only=True)
class Changes:
    """Of a daemon."""

    engine: Engine

    async def answer(self, peer: Peer, ask: Change, *, operator: bool) -> wire.Answer:
        tenant, by = self.tenant(ask.job), By(name=peer.name, operator=operator)
        if tenant is None:
            return wire.ErrorAnswer(code="unknown", text=f"job {ask.job} has ended")
        try:
            match ask:
                case wire.AskSet():
                    if not changes_of(ask):
                        raise Refused("nothing was asked to be changed; set its class, memory or compute")
                    self.engine.change(ev.SetAsked(job=ask.job, by=by, changes=changes_of(ask)))
                    return wire.SetAnswer(job=self._view(tenant))
                case wire.AskPause():
                    self.engine.change(ev.PauseAsked(job=ask.job, by=by))
                    text = f"job {ask.job} ({tenant.name}) is paused: launches wait until gpud resume {ask.job}"
                case wire.AskResume():
                    self.engine.change(ev.ResumeAsked(job=ask.job, by=by))
                    text = f"job {ask.job} ({tenant.name}) goes on"
                case wire.AskEvict():
                    found = self.engine.evict(ev.EvictAsked(job=ask.job, by=by))
                    text = f"job {ask.job} ({tenant.name}) leaves: {found}"
                case wire.AskKill():
                    text = await self.kill(tenant, ask.signal, None if operator else peer.uid, ask.pids)
        except Refused as refused:
            return wire.ErrorAnswer(code="refused", text=str(refused))
        except Ended as ended:
            return wire.ErrorAnswer(code="unknown", text=str(ended))
        return wire.DoneAnswer(job=self._view(tenant), text=text)

    def tenant(self, job: int) -> Tenant | None:
        """A job that is in, or waits in line."""
        state = self.engine.state
        waiting = (one.tenant for one in state.waiting)
        return next((tenant for tenant in (*state.tenants.values(), *waiting) if tenant.id == job), None)

    async def kill(self, tenant: Tenant, name: str, uid: int | None, seen: tuple[int, ...] = ()) -> str:
        """Signals all processes of a job; a sentence about it. `uid`: as kill.send; `seen`: those that it should have,
        if any are named. Raises Refused, Ended."""
        if name not in kill.SIGNALS:
            names = ", ".join(kill.SIGNALS)
            raise Refused(f"no signal that a job can be sent is called {name[:40]!r}; there are {names}")
        pids = {self.engine.state.clients[client].who.pid for client in tenant.clients} or {tenant.who.pid}
        if seen and set(seen) != pids:
            raise Refused(f"job {tenant.id} has other processes by now ({_pids(pids)}): nothing was sent; look again")
        launcher = (tenant.who.pid, tenant.who.started) if tenant.launcher else None
        found: list[kill.Sent] = []
        known, job = self._known(), int(tenant.id)
        with trio.move_on_after(KILL_S):
            found.append(
                await trio.to_thread.run_sync(
                    lambda: kill.send(job, known, launcher, name, uid), abandon_on_cancel=True
                )
            )
        if not found:
            raise Refused(f"the kernel did not say within {KILL_S:g} s which processes job {job} has; look at /proc")
        sent, what = found[0], f"SIG{name}"
        if not sent.reached and not sent.others:
            raise Ended(f"job {job} ({tenant.name}) has just ended: no process of it is there any more")
        if not sent.reached:
            raise Refused(f"the processes of job {job} run as other users ({_pids(sent.others)}): nothing was sent")
        left = f"; {_pids(sent.others)} run as other users and got none" if sent.others else ""
        return f"{what} was sent to {_pids(sent.reached)} of job {job} ({tenant.name}){left}"

    def _known(self) -> dict[tuple[int, int], int]:
        state = self.engine.state
        waiting = {(one.event.who.pid, one.event.who.started): int(one.tenant.id) for one in state.waiting}
        clients = {(one.who.pid, one.who.started): int(one.job) for one in state.clients.values()}
        return waiting | clients | {(t.who.pid, t.who.started): int(t.id) for t in state.tenants.values()}

    def _view(self, tenant: Tenant) -> JobView:
        engine = self.engine
        for one in engine.state.waiting:
            if one.tenant is tenant:
                return report.queued_view(engine.state, one, engine.now())
        return report.job_view(engine.state, tenant, engine.pages.counters(), engine.now(), engine.levels())


class Ended(Exception):
    """The job is gone by now."""


def changes_of(ask: wire.AskSet) -> tuple[tuple[str, str | int | None], ...]:
    """Those that are set."""
    pairs = (("class", ask.job_class), ("memory", ask.memory_bytes), ("compute", ask.compute_ppm))
    return tuple((key, value) for key, value in pairs if not isinstance(value, msgspec.UnsetType))


def _pids(pids: "set[int] | tuple[int, ...]") -> str:
    some = ", ".join(map(str, sorted(pids)[:10]))
    return f"{'pid' if len(pids) == 1 else 'pids'} {some}{' …' if len(pids) > 10 else ''}"
