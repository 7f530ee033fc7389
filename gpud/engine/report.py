"""State and counters → what commands show. Pure."""

from collections.abc import Iterable, Mapping

from gpud.engine.board import Applied
from gpud.engine.explained import of_word, place
from gpud.engine.in_force import said, tightest
from gpud.engine.publish import GATE_PAUSED, GATE_PREEMPT, GATE_WINDOW, REASONS
from gpud.engine.runs import unknown
from gpud.engine.standing import class_text, is_pinned
from gpud.engine.state import Client, Ran, State, Tenant
from gpud.model.counters import Counters, HookCounters
from gpud.model.ids import ClientId, JobId, Slot, uuid_text
from gpud.model.units import FOREVER_NS, format_duration
from gpud.model.views import AppliedView, ClassView, HoldView, JobStats, JobView, PolicyView
from gpud.policies.quantities import show_value

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
        job_class=class_text(state, tenant),
        state=_state(clients, [row for _, _, row in rows], why),
        pids=tuple(sorted({client.who.pid for client in clients})),
        launcher_pid=tenant.who.pid if tenant.launcher and tenant.launcher_alive else None,
        command=tenant.command,
        labels=dict(tenant.labels),
        devices=tuple(sorted({slot for client in clients for slot in client.slots()})),
        age_ns=max(now - tenant.began_ns, 0),
        used_bytes=_total(row.used_bytes for _, _, row in rows),
        why=why,
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
    tenant = state.tenants[client.job]
    how_long = f"for {format_duration(since // 1000 * 1000)}"
    if row.hold_reason == GATE_PREEMPT and words is not None:
        who = f"job {holder.id} ({holder.name}, {class_text(state, holder)})" if holder else "a job of higher rank"
        resume = format_duration(words.resume_after_ns)
        text = f"held {how_long}: {who} is active; goes on {resume} after it is idle"
        pause = words.max_pause_ns
        return text if pause >= FOREVER_NS else f"{text}, one launch after {format_duration(pause)} at most"
    if row.hold_reason == GATE_WINDOW and words is not None:
        text = f"held {how_long}: its window of {words.max_inflight} unfinished launches is full"
        return text + _by(state, tenant, slot, "max_inflight")
    if row.hold_reason == GATE_PAUSED:
        return f"held {how_long}: it is paused{_by(state, tenant, slot, 'pause')}"
    policies = ", ".join(applied.name for applied in state.stack_on(slot)) if slot in state.runs else ""
    return f"held {how_long} by the policy {policies or 'of no file'}"


def _by(state: State, tenant: Tenant, slot: Slot, knob: str) -> str:
    """Which rule says so, in words after a sentence."""
    found = tightest(knob, said(state, tenant, slot, knob)) if slot in state.runs else None
    if found is None:
        return ""
    explained = of_word(found)
    because = f": “{explained.because}”" if explained.because else ""
    rule = f", {explained.rule}" if explained.line and explained.rule else ""
    return f"{because} ({place(explained)}{rule})"
