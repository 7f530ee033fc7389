"""What each request of the control socket is answered with. Reads the engine's state between awaits, changes nothing
itself. Those about policies are in policy_answers.py, those that change a job in changes.py; who may ask what, in
authorised.py.
"""

import time
from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

import gpud
from gpud.control import wire
from gpud.control.policy_answers import PolicyAnswers
from gpud.engine import report
from gpud.engine.reload import Reloader
from gpud.engine.service import Engine
from gpud.engine.state import Tenant
from gpud.engine.why import why
from gpud.model.errors import ProtocolError
from gpud.model.ids import JobId
from gpud.model.views import DeviceView, JobView, StatusView, WhyView

DRIVER_S = 1.0
"""How long a list waits for the driver."""
ProcessOf = Callable[[int], tuple[int, tuple[tuple[int, int], ...]] | None]
"""pid → (start time, ancestors), None when there is no such process."""


@frozen(kw_only=True)
class Answers:
    """The answerer of a daemon. Callables stand for what lies beside the control socket."""

    engine: Engine
    reloader: Reloader
    pid: int
    runtime_dir: str
    simulated: str | None
    began_ns: int
    devices: Callable[[], Awaitable[tuple[DeviceView, ...]]]
    look: Callable[[], Awaitable[None]]
    """Lets the engine hear what the driver says now."""
    driver: Callable[[], str]
    attach_ns: Callable[[], int | None]
    process_of: ProcessOf

    async def answer(self, ask: wire.Ask) -> wire.Answer:
        match ask:
            case wire.AskStatus():
                return wire.StatusAnswer(status=await self._status())
            case wire.AskPs():
                return self._ps()
            case wire.AskUnmanaged():
                return await self._unmanaged()
            case wire.AskStats():
                return self._stats(ask.job)
            case wire.AskJobOf():
                return self._job_of(ask.pid)
            case wire.AskWhy():
                return self._why(ask.job)
            case wire.AskStop():
                return wire.StopAnswer(opened=self.engine.stop())
            case wire.AskReload() | wire.AskRollback() | wire.AskHistory() | wire.AskShow() | wire.AskDiff():
                return await PolicyAnswers(engine=self.engine, reloader=self.reloader).answer(ask)
        raise ProtocolError(f"{type(ask).__name__} is not answered here")

    async def _status(self) -> StatusView:
        devices = await self.devices()
        state = self.engine.state
        running = self.reloader.view()
        policies = report.policies(state)
        return StatusView(
            version=gpud.__version__,
            pid=self.pid,
            uptime_ns=time.monotonic_ns() - self.began_ns,
            runtime_dir=self.runtime_dir,
            simulated=self.simulated,
            driver=self.driver(),
            devices=devices,
            jobs=len(state.tenants),
            clients=sum(client.live for client in state.clients.values()),
            adopted=state.adopted,
            attach_ns=self.attach_ns(),
            policies=policies,
            policy_set=running,
            generation=state.board_generation,
        )

    def _ps(self) -> wire.PsAnswer:
        engine = self.engine
        sums, now = engine.sums(), engine.now()
        tenants = sorted(engine.state.tenants.values(), key=lambda tenant: tenant.id)
        levels = engine.levels()
        jobs = [report.job_view(engine.state, tenant, sums, now, levels) for tenant in tenants]
        queued = [report.queued_view(engine.state, one, now) for one in engine.state.waiting]
        return wire.PsAnswer(jobs=[*jobs, *queued])

    async def _unmanaged(self) -> wire.UnmanagedAnswer:
        """As the driver says now; where it takes long, as it said last."""
        with trio.move_on_after(DRIVER_S):
            await self.look()
        return wire.UnmanagedAnswer(processes=report.unmanaged(self.engine.state))

    def _stats(self, job: int | None) -> wire.StatsAnswer | wire.ErrorAnswer:
        engine = self.engine
        tenants = [t for t in sorted(engine.state.tenants.values(), key=lambda t: t.id) if job in (None, t.id)]
        if job is not None and not tenants:
            return _unknown(job)
        sums, now = engine.sums(), engine.now()
        hooks = {client: engine.pages.hook_counters(client) for tenant in tenants for client in tenant.clients}
        levels = engine.levels()
        return wire.StatsAnswer(stats=[report.job_stats(engine.state, t, sums, hooks, now, levels) for t in tenants])

    def _job_of(self, pid: int) -> wire.JobOfAnswer | wire.ErrorAnswer:
        engine = self.engine
        process = self.process_of(pid) if 0 < pid < 2**31 else None
        if process is None:
            return wire.ErrorAnswer(code="unknown", text=f"there is no process {pid}")
        job = report.job_of(engine.state, pid, *process)
        if job is None:
            return wire.ErrorAnswer(code="unknown", text=f"process {pid} belongs to no job (gpud ps)")
        tenant = engine.state.tenants[job]
        return wire.JobOfAnswer(job=self._view(tenant))

    def _why(self, job: int) -> wire.WhyAnswer | wire.ErrorAnswer:
        engine = self.engine
        tenant = engine.state.tenants.get(JobId(job))
        if tenant is not None:
            view = why(engine.state, tenant, engine.sums(), engine.now(), engine.levels())
            return wire.WhyAnswer(why=view)
        for one in engine.state.waiting:
            if one.tenant.id == job:
                queued = report.queued_view(engine.state, one, engine.now())
                return wire.WhyAnswer(why=WhyView(job=queued, hold=queued.why, devices=()))
        return _unknown(job)

    def _view(self, tenant: Tenant) -> JobView:
        engine = self.engine
        return report.job_view(engine.state, tenant, engine.sums(), engine.now(), engine.levels())


def _unknown(job: int) -> wire.ErrorAnswer:
    return wire.ErrorAnswer(code="unknown", text=f"there is no job {job} (gpud ps)")
