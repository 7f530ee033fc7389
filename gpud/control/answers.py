"""What each request of the control socket is answered with. Reads the engine's state between awaits, changes nothing
itself."""

import time
from collections.abc import Awaitable, Callable

from attrs import frozen

import gpud
from gpud.control import wire
from gpud.engine import report
from gpud.engine.service import Engine
from gpud.model.ids import JobId
from gpud.model.views import DeviceView, StatusView

ProcessOf = Callable[[int], tuple[int, tuple[tuple[int, int], ...]] | None]
"""pid → (start time, ancestors), None when there is no such process."""


@frozen(kw_only=True)
class Answers:
    """The answerer of a daemon. Callables stand for what lies beside the control socket."""

    engine: Engine
    pid: int
    runtime_dir: str
    simulated: str | None
    began_ns: int
    devices: Callable[[], Awaitable[tuple[DeviceView, ...]]]
    driver: Callable[[], str]
    attach_ns: Callable[[], int | None]
    process_of: ProcessOf

    async def answer(self, ask: wire.Ask) -> wire.Answer:
        match ask:
            case wire.AskStatus():
                return wire.StatusAnswer(status=await self._status())
            case wire.AskPs():
                return self._ps()
            case wire.AskStats():
                return self._stats(ask.job)
            case wire.AskJobOf():
                return self._job_of(ask.pid)
            case wire.AskStop():
                return wire.StopAnswer(opened=self.engine.stop())

    async def _status(self) -> StatusView:
        devices = await self.devices()
        state = self.engine.state
        return StatusView(
            version=gpud.__version__,
            pid=self.pid,
            uptime_ns=time.monotonic_ns() - self.began_ns,
            runtime_dir=self.runtime_dir,
            policy=state.policy.name,
            parameters=state.policy.parameters(),
            classes=state.policy.order,
            simulated=self.simulated,
            driver=self.driver(),
            devices=devices,
            jobs=len(state.tenants),
            clients=sum(client.live for client in state.clients.values()),
            adopted=state.adopted,
            attach_ns=self.attach_ns(),
        )

    def _ps(self) -> wire.PsAnswer:
        engine = self.engine
        sums, now = engine.pages.counters(), engine.now()
        tenants = sorted(engine.state.tenants.values(), key=lambda tenant: tenant.id)
        return wire.PsAnswer(jobs=[report.job_view(engine.state, tenant, sums, now) for tenant in tenants])

    def _stats(self, job: int | None) -> wire.StatsAnswer | wire.ErrorAnswer:
        engine = self.engine
        tenants = [t for t in sorted(engine.state.tenants.values(), key=lambda t: t.id) if job in (None, t.id)]
        if job is not None and not tenants:
            return self._unknown(f"there is no job {job}")
        sums, now = engine.pages.counters(), engine.now()
        hooks = {client: engine.pages.hook_counters(client) for tenant in tenants for client in tenant.clients}
        return wire.StatsAnswer(stats=[report.job_stats(engine.state, t, sums, hooks, now) for t in tenants])

    def _job_of(self, pid: int) -> wire.JobOfAnswer | wire.ErrorAnswer:
        engine = self.engine
        process = self.process_of(pid) if 0 < pid < 2**31 else None
        if process is None:
            return wire.ErrorAnswer(code="unknown", text=f"there is no process {pid}")
        job = report.job_of(engine.state, pid, *process)
        if job is None:
            return self._unknown(f"process {pid} belongs to no job")
        tenant = engine.state.tenants[job]
        return wire.JobOfAnswer(job=report.job_view(engine.state, tenant, engine.pages.counters(), engine.now()))

    def _unknown(self, what: str) -> wire.ErrorAnswer:
        jobs: list[JobId] = sorted(self.engine.state.tenants)
        known = f"jobs now: {', '.join(map(str, jobs[:20]))}" if jobs else "there are no jobs now"
        return wire.ErrorAnswer(code="unknown", text=f"{what}; {known} (gpud ps)")
