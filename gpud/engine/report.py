"""State and counters → what commands show. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence

from gpud.engine import held, lock_report, memory_report, waiting
from gpud.engine.board import Applied
from gpud.engine.held import Sums
from gpud.engine.in_words import Levels, left_ns
from gpud.engine.runs import unknown
from gpud.engine.standing import class_text, is_pinned
from gpud.engine.state import Client, Ran, State, Tenant, Waiting
from gpud.engine.unmanaged import of_device
from gpud.model.counters import Counters, HookCounters
from gpud.model.events import AttachAsked
from gpud.model.ids import ClientId, JobId, Slot, uuid_text
from gpud.model.levels import Level
from gpud.model.text import WITHOUT_HOOK
from gpud.model.views import AppliedView, ClassView, HoldView, JobStats, JobView, PolicyView, TimeView, UnmanagedView
from gpud.policies.quantities import show_value

_WHOLE = 1_000_000


def job_view(state: State, tenant: Tenant, sums: Sums, now: int, levels: Levels) -> JobView:
    """One job as it is now."""
    clients = state.clients_of(tenant)
    rows = [(client, slot, sums.get((client.id, slot), Counters())) for client in clients for slot in client.slots()]
    hold = held.hold(state, rows, sums, levels, now) or held.paused(state, tenant, now)
    return JobView(
        id=tenant.id,
        name=tenant.name,
        user=tenant.who.user,
        job_class=class_text(state, tenant),
        state=_state(tenant, clients, [row for _, _, row in rows], hold),
        pids=tuple(sorted({client.who.pid for client in clients})),
        launcher_pid=tenant.who.pid if tenant.launcher and tenant.launcher_alive else None,
        command=tenant.command,
        labels=dict(tenant.labels),
        devices=tuple(sorted(state.slots_of(tenant))),
        age_ns=max(now - tenant.began_ns, 0),
        used_bytes=_total(row.used_bytes for _, _, row in rows),
        why=hold or held.waits(state, tenant, now),
        pinned=is_pinned(state, tenant),
        paused_by=tenant.paused.by.name if tenant.paused is not None else "",
        classes=classes(state, tenant),
        time=_time(state, tenant, rows, levels, now),
        memory=memory_report.views(state, tenant, rows),
        lock=lock_report.views(state, tenant, now),
        notes=(WITHOUT_HOOK,) if any(client.hookless for client in clients) else (),
    )


def _time(
    state: State, tenant: Tenant, rows: Sequence[tuple[Client, Slot, Counters]], levels: Levels, now: int
) -> tuple[TimeView, ...]:
    """On each device where anything of it is known."""
    found = []
    for slot in sorted({slot for _, slot, _ in rows}):
        own, level = [(c, row) for c, s, row in rows if s == slot], levels.get((tenant.id, slot))
        spent = _total(row.spent_ns for _, row in own)
        if level is None and not spent:
            continue
        turns = level is not None and level.share_ppm > 0
        capped = level is not None and level.cap_ppm is not None
        found.append(
            TimeView(
                device=slot,
                spent_ns=spent,
                busy=_busy(state, own, slot, level if turns or capped else None, now),
                estimated=any(row.estimated for _, row in own),
                share=level.share_ppm / _WHOLE if level is not None and turns else None,
                lag_ns=level.lag_ns if level is not None and turns else 0,
                turn=any(row.turn == held.TURN_HAS for _, row in own),
                limit=(level.cap_ppm or 0) / _WHOLE if level is not None and capped else None,
                left_ns=left_ns(level, now) if level is not None and capped else 0,
                stuck=any(slot in client.stuck for client, _ in own),
                barred=level.barred.word if level is not None and level.barred is not None else "",
                faults=level.faults if level is not None else 0,
            )
        )
    return tuple(found)


def _busy(
    state: State, rows: Sequence[tuple[Client, Counters]], slot: Slot, level: Level | None, now: int
) -> float | None:
    """As policies see it, where they look; else as whoever divides the device does. `level`: None where nobody does."""
    meters = [state.meters.get((client.id, slot)) for client, _ in rows]
    parts = [meter.busy(now) if meter is not None else None for meter in meters]
    known = [part for part in parts if part is not None]
    if parts and len(known) == len(parts):
        return min(math.fsum(known), 1.0)
    return min(level.busy_ppm / _WHOLE, 1.0) if level is not None else None


def queued_view(state: State, one: Waiting, now: int) -> JobView:
    """A job that waits in line to be let in."""
    tenant, slot = one.tenant, one.resource[3]
    text, for_ns = waiting.sentence(one), now - one.since_ns
    hold = HoldView(code="admission", text=text, held_by=None, for_ns=for_ns, device=slot, by=one.by)
    return JobView(
        id=tenant.id,
        name=tenant.name,
        user=tenant.who.user,
        job_class=class_text(state, tenant),
        state="queued",
        pids=(tenant.who.pid,) if isinstance(one.event, AttachAsked) else (),
        launcher_pid=tenant.who.pid if tenant.launcher else None,
        command=tenant.command,
        labels=dict(tenant.labels),
        devices=(),
        age_ns=max(now - one.since_ns, 0),
        used_bytes=0,
        why=hold,
        pinned=is_pinned(state, tenant),
        classes=classes(state, tenant),
    )


def classes(state: State, tenant: Tenant) -> tuple[ClassView, ...]:
    """Where each policy puts it; one applied with several arguments once, unless they differ."""
    found: dict[ClassView, None] = {}
    for applied in state.board.applied:
        placed = tenant.placed[applied.program.digest]
        found[ClassView(policy=applied.name, job_class=placed.job_class or "", how=placed.how)] = None
    return tuple(found)


def unmanaged(state: State) -> list[UnmanagedView]:
    """Processes that no hook of this daemon is in, of all devices."""
    slots = {device.uuid: slot for slot, device in state.devices.items()}
    uuids = sorted(state.unmanaged, key=lambda uuid: (slots.get(uuid, len(slots)), uuid))
    return [view for uuid in uuids for view in unmanaged_on(state, uuid)]


def unmanaged_on(state: State, uuid: bytes) -> tuple[UnmanagedView, ...]:
    """Likewise of one device."""
    slot = next((slot for slot, device in state.devices.items() if device.uuid == uuid), None)
    return tuple(
        UnmanagedView(
            pid=one.pid,
            user=one.user,
            command=one.command,
            device=slot,
            uuid=uuid_text(uuid),
            used_bytes=one.used_bytes,
        )
        for one in of_device(state, uuid)
    )


def policies(state: State) -> tuple[PolicyView, ...]:
    """What applies to each device, and to those that come later."""
    named = [
        PolicyView(device=slot, uuid=uuid_text(state.devices[slot].uuid), policies=_running(state, slot))
        for slot in sorted(state.devices)
    ]
    others = tuple(_applied_view(applied) for applied in state.board.others)
    return (*named, PolicyView(device=None, uuid="", policies=others))


def _running(state: State, slot: Slot) -> tuple[AppliedView, ...]:
    run = state.runs.get(slot)
    if run is None:
        return tuple(_applied_view(applied) for applied in state.stack_on(slot))
    looked_at = next(state.clients_on(slot), None) is not None
    return tuple(_applied_view(applied, ran, looked_at) for applied, ran in zip(run.stack, run.ran, strict=True))


def _applied_view(applied: Applied, ran: Ran | None = None, looked_at: bool = False) -> AppliedView:
    ir = applied.program.ir
    return AppliedView(
        name=applied.name,
        arguments=tuple((param.name, show_value(param.value, param.type)) for param in ir.params),
        mode=ir.mode,
        classes=tuple(job_class.name for job_class in ir.classes),
        digest=applied.program.digest,
        steps=applied.program.steps,
        failed=ran is not None and ran.failed,
        unknown=unknown(applied, ran.snapshot) if ran is not None and looked_at and not ran.failed else (),
        ranks=_ranks(applied),
    )


def _ranks(applied: Applied) -> tuple[tuple[str, ...], ...]:
    found: dict[int, list[str]] = {}
    for job_class, rank in applied.arbiter.ranks.items() if applied.arbiter is not None else ():
        found.setdefault(rank, []).append(job_class)
    return tuple(tuple(found[rank]) for rank in sorted(found))


def job_stats(
    state: State,
    tenant: Tenant,
    sums: Sums,
    hooks: Mapping[ClientId, HookCounters],
    now: int,
    levels: Levels,
) -> JobStats:
    """One job and what it has done."""
    rows = [row for (client, _), row in sums.items() if client in tenant.clients]
    own = [hooks[client] for client in tenant.clients if client in hooks]
    full = max((row.full_ns for row in rows), default=0)
    buckets = max((len(hook.histogram) for hook in own), default=0)
    return JobStats(
        job=job_view(state, tenant, sums, now, levels),
        launches=_total(row.entered for row in rows),
        launches_failed=_total(row.launches_failed for row in rows),
        # The two counters are read one after the other: never show less than nothing.
        unfinished=_total(max(row.entered - row.left, 0) for row in rows),
        held=_total(row.held for row in rows),
        held_ns=_total(row.held_ns for row in rows),
        passed=_total(row.passed for row in rows),
        allocations=_total(row.allocations for row in rows),
        held_histogram=tuple(_total(h.histogram[i] for h in own if i < len(h.histogram)) for i in range(buckets)),
        hook_errors=_total(hook.errors for hook in own),
        attaches=_total(hook.attaches for hook in own),
        spent_ns=_total(row.spent_ns for row in rows),
        samples=_total(row.samples for row in rows),
        clean=_total(row.clean for row in rows),
        calls=_total(row.calls for row in rows),
        estimated=any(row.estimated for row in rows),
        inflight=_total(row.inflight for row in rows),
        waiting=_total(row.waiting for row in rows),
        edges=_total(row.edges for row in rows),
        full_ago_ns=max(now - full, 0) if full else None,
        factors=tuple(row.factor_ppm / _WHOLE for row in rows if row.factor_ppm),
    )


def job_of(state: State, pid: int, started: int, ancestors: Iterable[tuple[int, int]]) -> JobId | None:
    """The job a process belongs to: its own, or that of the nearest ancestor that has one."""
    processes = {(c.who.pid, c.who.started): c.job for c in state.clients.values()}
    processes |= {(t.who.pid, t.who.started): t.id for t in state.tenants.values()}
    for process in ((pid, started), *ancestors):
        if process in processes:
            return processes[process]
    return None


def _total(counts: Iterable[int]) -> int:
    """A hook may write nonsense into its page: the sum still fits into an answer."""
    return min(sum(counts), 2**64 - 1)


def _state(tenant: Tenant, clients: list[Client], rows: list[Counters], hold: HoldView | None) -> str:
    if not any(client.live for client in clients):
        return "starting"
    if tenant.paused is not None:
        return "paused"
    if hold is not None:
        return "held"
    return "active" if any(row.active for row in rows) else "idle"
