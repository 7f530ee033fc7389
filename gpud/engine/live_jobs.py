"""The rows of jobs. What has not changed is not made anew: with hundreds of jobs, twice a second, that is what counts.
Pure."""

from collections.abc import Callable
from typing import Any

from attrs import Factory, define

from gpud.engine import live_figures, live_why, memory_line
from gpud.engine.held import Sums
from gpud.engine.in_words import Levels
from gpud.engine.live_figures import MOST, Figures
from gpud.engine.live_lines import Lines
from gpud.engine.live_still import COMMAND, LABEL, NAME, ClassSum, Still, SumsOn, cut, labels, signature, still
from gpud.engine.standing import class_text, is_pinned
from gpud.engine.state import State, Tenant, Waiting
from gpud.model.counters import Counters
from gpud.model.events import AttachAsked
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.live_views import JobRow, ProcessRow, WhyRow

_NOTHING = Counters()


@define(kw_only=True)
class _Known:
    """One job, as of the last look."""

    signature: tuple[Any, ...]
    still: Still
    rows: dict[tuple[ClientId, Slot], Counters] = Factory(dict)
    left: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Of processes that are gone, so that sums only grow."""
    figures: Figures | None = None
    counts: tuple[tuple[ClassSum, bool, bool], ...] = ()
    why: live_why.Why = Factory(live_why.Why)
    begun: dict[tuple[ClientId, Slot], tuple[str, int]] = Factory(dict)
    """What moves, and since when."""
    made_of: tuple[Any, ...] = ()
    row: JobRow | None = None


@define(kw_only=True)
class Look:
    """What is known of the node at one moment."""

    sums: Sums
    levels: Levels
    lines: Lines
    now: int
    offset: int
    """Unix time less the monotonic clock."""


class JobRows:
    """Of one node. `busy_ns`: GPU time charged on each device since it was seen first."""

    def __init__(self, trace_of: Callable[[JobId], str] = lambda job: "") -> None:
        """`trace_of`: the id of a job's trace, hex; "": none."""
        self._known: dict[JobId, _Known] = {}
        self._trace_of = trace_of
        self.busy_ns: dict[Slot, int] = {}

    def forget_classes(self) -> None:
        """There is another set of policies, or are other devices."""
        for known in self._known.values():
            known.signature = ()

    def look(self, state: State, look: Look, sums_on: SumsOn) -> dict[int, JobRow]:
        """All jobs by number, those that wait to be let in among them. Rows that are as they were are the same
        objects."""
        asks: dict[JobId, list[memory_line.Asked]] = {}
        for ask in state.asks:
            if ask.answered_ns is None:
                asks.setdefault(ask.job, []).append(ask)
        waits = {one.job: one.since_ns for one in reversed(state.locks.requests)}
        found: dict[int, JobRow] = {}
        for job, tenant in state.tenants.items():
            known = self._known.get(job)
            made_of = signature(state, tenant)
            if known is None or known.signature != made_of:
                known = self._anew(state, tenant, known, made_of, sums_on)
            its = self._count(known, look.sums)
            why = _why(state, tenant, known, its, look, asks.get(job), waits.get(job))
            found[job] = _row(state, tenant, known, its, look, why, self._trace_of(job))
        for job in self._known.keys() - state.tenants.keys():
            del self._known[job]
        for place, one in enumerate(state.waiting, start=1):
            found[one.tenant.id] = _queued(state, one, place, look.offset)
        return found

    def _anew(
        self, state: State, tenant: Tenant, known: _Known | None, made_of: tuple[Any, ...], sums_on: SumsOn
    ) -> _Known:
        fresh = still(state, tenant, sums_on)
        if known is None:
            known = self._known[tenant.id] = _Known(signature=made_of, still=fresh)
            return known
        known.signature, known.still, known.figures, known.row = made_of, fresh, None, None
        for key in known.rows.keys() - {pair.key for pair in fresh.pairs}:
            row = known.rows.pop(key)
            spent, launches, held, held_ns = known.left
            known.left = spent + row.spent_ns, launches + row.entered, held + row.held, held_ns + row.held_ns
        return known

    def _count(self, known: _Known, sums: Sums) -> Figures:
        """What its processes have done since the last look, also for classes and devices."""
        rows, found = known.rows, known.figures
        for pair in known.still.pairs:
            row, before = sums.get(pair.key, _NOTHING), rows.get(pair.key)
            if row == before:
                continue
            rows[pair.key], found = row, None
            spent = row.spent_ns - (before.spent_ns if before is not None else 0)
            if spent > 0:
                self.busy_ns[pair.slot] = min(self.busy_ns.get(pair.slot, 0) + spent, MOST)
                for one in pair.sums:
                    one.spent_ns = min(one.spent_ns + spent, MOST)
        if found is None:
            found = known.figures = live_figures.figures(known.still.pairs, rows, known.left)
            known.counts = live_figures.counts(known.still.pairs, rows)
        for one, active, held in known.counts:
            one.jobs += 1
            one.active += active
            one.held += held
        return found


def _why(
    state: State,
    tenant: Tenant,
    known: _Known,
    its: Figures,
    look: Look,
    asks: list[memory_line.Asked] | None,
    waits_ns: int | None,
) -> WhyRow | None:
    """`asks`: its allocations that wait; `waits_ns`: since when it waits for a turn."""
    lines, offset = look.lines, look.offset
    if its.worst is not None:
        row = known.rows[its.worst.key]
        return known.why.of_hold(state, tenant, its.worst, row, look.sums, look.levels, lines, look.now, offset)
    if asks:
        return live_why.of_memory(state, asks, tenant, offset)
    if waits_ns is None:
        return None
    slot = next((slot for slot in known.still.devices if slot in lines and tenant.id in lines[slot].places), None)
    return None if slot is None else known.why.of_line(state, tenant, slot, lines, waits_ns + offset, offset)


def _row(
    state: State, tenant: Tenant, known: _Known, its: Figures, look: Look, why: WhyRow | None, trace: str
) -> JobRow:
    still, lines, offset = known.still, look.lines, look.offset
    limit_bytes = live_figures.limit_bytes(state, tenant, still.devices)
    by = tenant.paused
    paused = by is not None or live_figures.is_paused(still)
    share, limit, busy = live_figures.time(state, tenant, still, look.levels, look.now)
    turn = its.turn or (bool(lines) and any(_has(lines, slot, tenant.id) for slot in still.devices))
    swap = None
    if state.moves.devices:
        swap = live_figures.swap(state, still, known.rows, known.begun, look.now, offset)
    tags = live_figures.tags(state, tenant, still, lines, limit_bytes, its)
    word = live_figures.word(still.clients, its, paused)
    made_of = (its, still, by, word, limit_bytes, share, limit, busy, turn, why, swap, trace, tags, offset)
    if known.row is not None and known.made_of == made_of:
        return known.row
    before: tuple[ProcessRow, ...] = known.row.processes if known.row is not None else ()
    known.made_of = made_of
    known.row = JobRow(
        id=tenant.id,
        name=still.name,
        user=still.user,
        uid=tenant.who.uid,
        job_class=still.job_class,
        state=word,
        processes=live_figures.processes(still, known.rows, before),
        command=still.command,
        labels=still.labels,
        devices=still.devices,
        began_at_ns=tenant.began_ns + offset,
        pinned=still.pinned,
        paused_by=cut(by.by.name, NAME) if by is not None else "",
        used_bytes=its.used,
        limit_bytes=limit_bytes,
        resident_bytes=its.resident,
        host_bytes=its.host,
        spent_ns=its.spent_ns,
        launches=its.launches,
        held=its.held,
        held_ns=its.held_ns,
        share=share,
        limit=limit,
        busy=busy,
        turn=turn,
        why=why,
        swap=swap,
        trace=trace,
        tags=tags,
    )
    return known.row


def _has(lines: Lines, slot: Slot, job: JobId) -> bool:
    return slot in lines and lines[slot].holder == job


def _queued(state: State, one: Waiting, place: int, offset: int) -> JobRow:
    """It waits in line to be let in."""
    tenant, who = one.tenant, one.tenant.who
    itself = ProcessRow(pid=who.pid, command=cut(who.command, NAME), devices=(), used_bytes=0)
    return JobRow(
        id=tenant.id,
        name=cut(tenant.name, NAME),
        user=cut(who.user, LABEL),
        uid=who.uid,
        job_class=class_text(state, tenant),
        state="queued",
        processes=(itself,) if isinstance(one.event, AttachAsked) else (),
        command=cut(tenant.command, COMMAND),
        labels=labels(tenant),
        devices=(),
        began_at_ns=one.since_ns + offset,
        pinned=is_pinned(state, tenant),
        paused_by="",
        used_bytes=0,
        limit_bytes=None,
        resident_bytes=0,
        host_bytes=0,
        spent_ns=0,
        launches=0,
        held=0,
        held_ns=0,
        share=None,
        limit=None,
        busy=None,
        turn=False,
        why=live_why.of_queue(one, place, offset),
    )
