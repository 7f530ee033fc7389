"""Why a job is held now, in a sentence with evidence. Pure."""

from collections.abc import Iterable, Mapping

from attrs import frozen

from gpud.engine import held_place, lock_report, memory_line, publish
from gpud.engine.in_words import Levels, behind, by_rule, due_ns, limiting, percent, since
from gpud.engine.standing import class_text
from gpud.engine.state import Client, State, Tenant
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import DeviceWords
from gpud.model.units import FOREVER_NS, MICROSECOND, SECOND, format_duration
from gpud.model.views import HoldView
from gpud.policies.quantities import show_value
from gpud.policies.types import Type

Sums = Mapping[tuple[ClientId, Slot], Counters]
TURN_HAS = 1
"""GPUD_TURN_HAS of gpud_page.h; a test compares them."""
_QUIET_NS = 5 * SECOND
"""Who holds others and has finished nothing for so long: worth a word."""


@frozen(kw_only=True)
class _Case:
    """The thread of a job that is held longest."""

    state: State
    client: Client
    slot: Slot
    row: Counters
    words: DeviceWords
    peer: Client | None
    """Who is waited for, as far as it is known."""
    sums: Sums
    levels: Levels
    now: int
    steady: bool = False
    """Without what is otherwise at every look."""

    def by(self, knob: str, *, value: bool = False) -> str:
        return by_rule(self.state, self.state.tenants[self.client.job], self.slot, knob, value=value)

    @property
    def peer_row(self) -> Counters | None:
        return self.sums.get((self.peer.id, self.slot)) if self.peer is not None else None


def hold(
    state: State, rows: Iterable[tuple[Client, Slot, Counters]], sums: Sums, levels: Levels, now: int
) -> HoldView | None:
    """The hold that has lasted longest, and what it waits for. None: nothing is held."""
    held = [row for row in rows if row[2].holding and row[2].hold_since_ns]
    if not held:
        return None
    client, slot, row = min(held, key=lambda found: found[2].hold_since_ns)
    since = max(now - row.hold_since_ns, 0)
    code, text, holder = sentence(state, client, slot, row, sums, levels, now)
    by = place(state, client, slot, row, levels)
    text = f"held for {format_duration(since, MICROSECOND)}{text}"
    return HoldView(code=code, text=text, held_by=holder, for_ns=since, device=slot, by=by)


def place(state: State, client: Client, slot: Slot, row: Counters, levels: Levels) -> str:
    """`p.gpol:12`, where it stands that a client is held; "": nowhere."""
    if is_out(client, slot, row):
        return ""
    level = levels.get((client.job, slot))
    cap = level.cap_ppm if level is not None else None
    return held_place.of_gate(state, state.tenants[client.job], slot, row.hold_reason, cap)


def sentence(
    state: State,
    client: Client,
    slot: Slot,
    row: Counters,
    sums: Sums,
    levels: Levels,
    now: int,
    *,
    steady: bool = False,
) -> tuple[str, str, int | None]:
    """Of a client that is held on a device: (code, `: job 2 (python, high) is active…`, the job waited for). `steady`:
    without what is otherwise at every look, such as how far a job is behind its share."""
    peer = peer_of(state, client, row)
    words = client.words.get(slot) or DeviceWords()
    case = _Case(
        state=state,
        client=client,
        slot=slot,
        row=row,
        words=words,
        peer=peer,
        sums=sums,
        levels=levels,
        now=now,
        steady=steady,
    )
    code = publish.REASONS.get(row.hold_reason, f"gate {row.hold_reason:#x}")
    return code, _SENTENCES.get(row.hold_reason, _unknown)(case), _held_by(case)


def paused(state: State, tenant: Tenant, now: int) -> HoldView | None:
    """Of a job that has tried nothing yet since a person has paused it. None: nobody has."""
    said = tenant.paused
    if said is None:
        return None
    text = f"paused by {since(state, said, now)}; `gpud resume {tenant.id}` lets it go on"
    for_ns = max(now + state.wall_offset_ns - said.at_ns, 0)
    return HoldView(code=publish.REASONS[publish.GATE_PAUSED], text=text, held_by=None, for_ns=for_ns, device=None)


def waits(state: State, tenant: Tenant, now: int) -> HoldView | None:
    """Of a job that is held at no gate: an allocation of its waits, or it waits for its turn. None: neither."""
    for ask in memory_line.waiting(state, tenant)[:1]:
        text, by = held_place.of_memory(state, tenant, ask)
        return _waits("memory", text, None, now - ask.since_ns, ask.slot, by)
    for request in state.locks.requests:
        for slot in sorted(request.slots) if request.job == tenant.id else ():
            line = state.locks.lines.get(slot)
            if line is not None and tenant.id in line.places:
                view = lock_report.view(state, tenant, slot, now)
                if view.state != "waits":  # another process of it has the device, and gives it back just now
                    continue
                return _waits("lock", view.text, view.holder, now - request.since_ns, slot, view.by)
    return None


def _waits(code: str, text: str, holder: int | None, for_ns: int, slot: Slot, by: str) -> HoldView:
    text = f"waiting for {format_duration(max(for_ns, 0), MICROSECOND)}: {text}"
    return HoldView(code=code, text=text, held_by=holder, for_ns=max(for_ns, 0), device=slot, by=by)


def peer_of(state: State, client: Client, row: Counters) -> Client | None:
    """Whom the thread that is held longest waits for, as far as it is known."""
    entry = next((e for e in client.peers.values() if e.present == row.hold_peer), None)
    return state.clients.get(entry.client) if entry else None


def _held_by(case: _Case) -> int | None:
    if case.row.hold_reason == publish.GATE_GRANT:
        return lock_report.holder(case.state, case.slot)
    return case.peer.job if case.peer is not None and case.peer.job in case.state.tenants else None


def _lock(case: _Case) -> str:
    tenant = case.state.tenants[case.client.job]
    if case.steady:
        return f": {lock_report.steady(case.state, tenant, case.slot)}"
    return f": {lock_report.view(case.state, tenant, case.slot, case.now).text}"


def _paused(case: _Case) -> str:
    said = case.state.tenants[case.client.job].paused
    if said is None and is_out(case.client, case.slot, case.row):
        return f": {_out(case)}"
    if said is None:
        return f": it is paused{case.by('pause')}"
    by = said.by.name if case.steady else since(case.state, said, case.now)
    return f": it is paused by {by}; `gpud resume {case.client.job}` lets it go on"


def is_out(client: Client, slot: Slot, row: Counters) -> bool:
    """It is held until its memory is on the device: its page does not say that it is paused."""
    words = client.words.get(slot) or DeviceWords()
    paused = row.hold_reason == publish.GATE_PAUSED and not words.gate & publish.GATE_PAUSED
    return paused and row.host_bytes + row.lazy_bytes > 0


def _out(case: _Case) -> str:
    """Memory that is not on the device comes in by itself, and its gate stays shut until then, whatever the page
    says."""
    where = "in host memory" if case.row.host_bytes else "not on the device yet"
    used: dict[JobId, int] = {}
    for other in case.state.clients_on(case.slot):
        row = case.sums.get((other.id, case.slot))
        if row is not None and other.job != case.client.job:
            used[other.job] = used.get(other.job, 0) + max(row.used_bytes - row.host_bytes - row.lazy_bytes, 0)
    most = max(used, key=lambda job: (used[job], -job), default=None)
    text = f"its memory is {where} and finds no room on the device"
    if most is None or not used[most]:
        return text
    what = "what it lacks" if case.steady else str(show_value(used[most], Type.BYTES))
    return f"{text}; job {most} ({case.state.tenants[most].name}) holds {what} there"


def _preempt(case: _Case) -> str:
    quiet, row = "", case.peer_row
    if not case.steady and row is not None and row.last_finish_ns and case.now - row.last_finish_ns >= _QUIET_NS:
        quiet = f" and has finished nothing for {format_duration(case.now - row.last_finish_ns, SECOND)}"
    resume = format_duration(case.words.resume_after_ns)
    text = f": {_job(case, 'a job of higher rank')} is active{quiet}; goes on {resume} after it is idle"
    pause = case.words.max_pause_ns
    if pause >= FOREVER_NS:
        return text
    passes = f"{format_duration(case.words.pass_ns)} of GPU time" if case.words.pass_ns else "one launch"
    return f"{text}, {passes} after {format_duration(pause)} at most"


def _window(case: _Case) -> str:
    words = case.words
    of = [f"{words.max_inflight} unfinished launches"] if words.max_inflight else []
    of += [f"{format_duration(words.max_inflight_ns)} of unfinished GPU time"] if words.max_inflight_ns else []
    by = case.by("max_inflight") or case.by("max_inflight_time")
    if not by and words.gate & publish.GATE_SHARE:
        by = ", so that others have their time back soon"
    return f": its window of {' or '.join(of) or 'unfinished launches'} is full{by}"


def _budget(case: _Case) -> str:
    level = case.levels.get((case.client.job, case.slot))
    if level is None or level.cap_ppm is None:
        return ": it has used up its GPU time"
    most = limiting(case.state, case.state.tenants[case.client.job], case.slot, level.cap_ppm)
    by = most.text if most is not None else ""
    due = due_ns(level, case.now)
    goes_on = f"; goes on in {format_duration(due, MICROSECOND)}" if due and not case.steady else ""
    now = "" if case.steady else f", {percent(level.cap_ppm)} of the device now"
    return f": it has used up its GPU time{now}{', ' if by else ''}{by}{goes_on}"


def _rate(case: _Case) -> str:
    launches, blocks = case.by("max_launch_rate", value=True), case.by("max_block_rate", value=True)
    what = "launches" if launches and not blocks else "blocks" if blocks and not launches else "launches or blocks"
    return f": its {what} come faster than they may{launches or blocks}"


def _copy(case: _Case) -> str:
    return f": its copies come faster than they may{case.by('max_copy_rate', value=True)}"


def _share(case: _Case) -> str:
    own = case.levels.get((case.client.job, case.slot))
    theirs = case.levels.get((case.peer.job, case.slot)) if case.peer is not None else None
    has = case.peer_row is None or case.peer_row.turn == TURN_HAS
    text = f": {_job(case, 'another job')} {'has the turn' if has else 'is next'}"
    if own is None or not own.share_ppm or case.steady:
        return text
    text += f"; this job is {behind(own.lag_ns)} its share of {percent(own.share_ppm)}"
    return f"{text}, that one {behind(theirs.lag_ns)} its own" if theirs is not None and theirs.share_ppm else text


def _unknown(case: _Case) -> str:
    stack = case.state.stack_on(case.slot) if case.slot in case.state.runs else ()
    return f" by the policy {', '.join(applied.name for applied in stack) or 'of no file'}"


_SENTENCES = {
    publish.GATE_PAUSED: _paused,
    publish.GATE_PREEMPT: _preempt,
    publish.GATE_WINDOW: _window,
    publish.GATE_BUDGET: _budget,
    publish.GATE_RATE: _rate,
    publish.GATE_COPY: _copy,
    publish.GATE_SHARE: _share,
    publish.GATE_GRANT: _lock,
}


def _job(case: _Case, unknown: str) -> str:
    holder = case.state.tenants.get(case.peer.job) if case.peer is not None else None
    if holder is None:
        return unknown
    return f"job {holder.id} ({', '.join(filter(None, (holder.name, class_text(case.state, holder))))})"
