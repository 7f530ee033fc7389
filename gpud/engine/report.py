"""State and counters → what commands show. Pure."""

from collections.abc import Iterable, Mapping

from gpud.engine.publish import GATE_PREEMPT, GATE_WINDOW, REASONS
from gpud.engine.state import Client, State, Tenant
from gpud.model.counters import Counters, HookCounters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.units import FOREVER_NS, format_duration
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
        used_bytes=_total(row.used_bytes for _, _, row in rows),
        why=why,
    )


def job_stats(state: State, tenant: Tenant, sums: Sums, hooks: Mapping[ClientId, HookCounters], now: int) -> JobStats:
    """One job and what it has done."""
    rows = [row for (client, _), row in sums.items() if client in tenant.clients]
    own = [hooks[client] for client in tenant.clients if client in hooks]
    buckets = max((len(hook.histogram) for hook in own), default=0)
    return JobStats(
        job=job_view(state, tenant, sums, now),
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
        text = f"held {how_long}: {who} is active; goes on {resume} after it is idle"
        pause = words.max_pause_ns
        return text if pause >= FOREVER_NS else f"{text}, one launch after {format_duration(pause)} at most"
    if row.hold_reason == GATE_WINDOW and words is not None:
        return f"held {how_long}: its window of {words.max_inflight} unfinished launches is full"
    return f"held {how_long} by the policy {state.policy.name}"
