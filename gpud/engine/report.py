"""State and counters → what commands show. Pure."""

from collections.abc import Iterable, Mapping

from gpud.engine.publish import GATE_PREEMPT, GATE_WINDOW, REASONS
from gpud.engine.state import Client, State, Tenant
from gpud.model.counters import Counters, HookCounters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.units import format_duration
from gpud.model.views import HoldView, JobStats, JobView

Sums = Mapping[tuple[ClientId, Slot], Counters]


def job_view(state: State, tenant: Tenant, sums: Sums, now: int) -> JobView:
    """One job as it is now."""
    clients = [state.clients[client] for client in sorted(tenant.clients) if client in state.clients]
    rows = [(client, slot, sums.get((client.id, slot), Counters())) for client in clients for slot in client.slots()]
    why = _why(state, rows, now)
    return JobView(
        id=tenant.id,
        name=tenant.name,
        user=tenant.who.user,
        job_class=tenant.job_class,
        state=_state(clients, [row for _, _, row in rows], why),
        pids=tuple(sorted({client.who.pid for client in clients})),
        launcher_pid=tenant.who.pid if tenant.launcher and tenant.launcher_alive else None,
        command=tenant.command,
        labels=dict(tenant.labels),
        devices=tuple(sorted({slot for client in clients for slot in client.slots()})),
        age_ns=max(now - tenant.began_ns, 0),
        used_bytes=sum(row.used_bytes for _, _, row in rows),
        why=why,
    )


def job_stats(state: State, tenant: Tenant, sums: Sums, hooks: Mapping[ClientId, HookCounters], now: int) -> JobStats:
    """One job and what it has done."""
    rows = [row for (client, _), row in sums.items() if client in tenant.clients]
    own = [hooks[client] for client in tenant.clients if client in hooks]
    buckets = max((len(hook.histogram) for hook in own), default=0)
    return JobStats(
        job=job_view(state, tenant, sums, now),
        launches=sum(row.entered for row in rows),
        launches_failed=sum(row.launches_failed for row in rows),
        # The two counters are read one after the other: never show less than nothing.
        unfinished=sum(max(row.entered - row.left, 0) for row in rows),
        held=sum(row.held for row in rows),
        held_ns=sum(row.held_ns for row in rows),
        passed=sum(row.passed for row in rows),
        allocations=sum(row.allocations for row in rows),
        held_histogram=tuple(sum(hook.histogram[i] for hook in own if i < len(hook.histogram)) for i in range(buckets)),
        hook_errors=sum(hook.errors for hook in own),
        attaches=sum(hook.attaches for hook in own),
    )


def job_of(state: State, pid: int, started: int, ancestors: Iterable[tuple[int, int]]) -> JobId | None:
    """The job a process belongs to: its own, or that of the nearest ancestor that has one."""
    processes = {(c.who.pid, c.who.started): c.job for c in state.clients.values()}
    processes |= {(t.who.pid, t.who.started): t.id for t in state.tenants.values()}
    for process in ((pid, started), *ancestors):
        if process in processes:
            return processes[process]
    return None


def _state(clients: list[Client], rows: list[Counters], why: HoldView | None) -> str:
    if not any(client.live for client in clients):
        return "starting"
    if why is not None:
        return "held"
    return "active" if any(row.active for row in rows) else "idle"


def _why(state: State, rows: list[tuple[Client, Slot, Counters]], now: int) -> HoldView | None:
    """The hold that has lasted longest, and what it waits for."""
    held = [row for row in rows if row[2].holding and row[2].hold_since_ns]
    if not held:
        return None
    client, slot, row = min(held, key=lambda found: found[2].hold_since_ns)
    since = max(now - row.hold_since_ns, 0)
    entry = next((e for e in client.peers.values() if e.present == row.hold_peer), None)
    peer = state.clients.get(entry.client) if entry else None
    holder = state.tenants.get(peer.job) if peer else None
    return HoldView(
        code=REASONS.get(row.hold_reason, f"gate {row.hold_reason:#x}"),
        text=_sentence(state, client, slot, row, holder, since),
        held_by=holder.id if holder else None,
        for_ns=since,
        device=slot,
    )


def _sentence(state: State, client: Client, slot: Slot, row: Counters, holder: Tenant | None, since: int) -> str:
    words = client.words.get(slot)
    how_long = f"for {format_duration(since // 1000 * 1000)}"
    if row.hold_reason == GATE_PREEMPT and words is not None:
        who = f"job {holder.id} ({holder.name}, {holder.job_class})" if holder else "a job of higher rank"
        resume = format_duration(words.resume_after_ns)
        pause = format_duration(words.max_pause_ns)
        return f"held {how_long}: {who} is active; goes on {resume} after it is idle, one launch after {pause} at most"
    if row.hold_reason == GATE_WINDOW and words is not None:
        return f"held {how_long}: its window of {words.max_inflight} unfinished launches is full"
    return f"held {how_long} by the policy {state.policy.name}"
