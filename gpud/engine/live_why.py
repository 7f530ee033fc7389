"""The one reason of a row: why a job does not run, or waits. The sentence stays while the reason does; what moves are
times of their own. Pure."""

import math
from typing import Any

from gpud.engine import held, lock_report, memory_line, publish
from gpud.engine.board import Applied
from gpud.engine.caps import compute_of
from gpud.engine.explained import of_word, place
from gpud.engine.in_force import said, tightest
from gpud.engine.in_words import Levels
from gpud.engine.live_lines import Lines
from gpud.engine.live_still import Pair, cut, short
from gpud.engine.memory_limits import limit_of
from gpud.engine.standing import arbiter_on
from gpud.engine.state import State, Tenant, Waiting
from gpud.engine.waiting import sentence
from gpud.model.counters import Counters
from gpud.model.ids import Slot
from gpud.model.live_views import WhyRow
from gpud.policies.source import Span

LONGEST = 300
"""Characters of a sentence."""
_BY_RULE = publish.GATE_PREEMPT | publish.GATE_WINDOW | publish.GATE_BUDGET | publish.GATE_RATE | publish.GATE_COPY
_BY_RULE |= publish.GATE_PAUSED
"""Their sentences name a rule, which costs something to find, and are the same while it is."""
_KNOBS = {
    publish.GATE_PAUSED: ("pause",),
    publish.GATE_WINDOW: ("max_inflight", "max_inflight_time"),
    publish.GATE_RATE: ("max_launch_rate", "max_block_rate"),
    publish.GATE_COPY: ("max_copy_rate",),
    publish.GATE_BUDGET: ("max_compute",),
}
"""Who is held by such a reason is so by one of these."""


class Why:
    """Of one job. Remembers its sentence."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._said: tuple[str, str, int | None, str] = ("", "", None, "")
        self._turn: tuple[Any, Slot | None, str] = (None, None, "")
        """(knobs in force, device, where the length of its turn stands)."""
        self._knobs: Any = None
        """In force when it was made: another object is another decision."""

    def of_hold(
        self, state: State, tenant: Tenant, pair: Pair, row: Counters, sums: held.Sums, levels: Levels,
        lines: Lines, now: int, offset: int,
    ) -> WhyRow:  # fmt: skip
        """`pair`, `row`: of the process whose thread is held longest."""
        code, text, holder, by = self._sentence(state, tenant, pair, row, sums, levels, now)
        since = min(row.hold_since_ns, now) + offset
        if row.hold_reason == publish.GATE_GRANT:
            return self.of_line(state, tenant, pair.slot, lines, since, offset)
        return WhyRow(code=code, text=text, holder=holder, since_at_ns=since, by=by)

    def _sentence(
        self, state: State, tenant: Tenant, pair: Pair, row: Counters, sums: held.Sums, levels: Levels, now: int
    ) -> tuple[str, str, int | None, str]:
        """(code, text, the job waited for, where that stands)."""
        client, slot = pair.client, pair.slot
        level = levels.get((tenant.id, slot))
        key = (
            client.id, slot, row.hold_reason, row.hold_peer, client.words.get(slot), client.peers, tenant.paused,
            state.board_generation, level.cap_ppm if level is not None else None,
        )  # fmt: skip
        knobs = tenant.in_force.get(slot)
        out = held.is_out(client, slot, row)
        if row.hold_reason & _BY_RULE and not out and knobs is self._knobs and key == self._key:
            return self._said
        code, text, holder = held.sentence(state, client, slot, row, sums, levels, now, steady=True)
        by = "" if out else cut(short(_place(state, tenant, slot, row.hold_reason)), LONGEST)
        self._key, self._knobs = key, knobs
        self._said = code, cut(short(text.removeprefix(": ")), LONGEST), holder, by
        return self._said

    def of_line(self, state: State, tenant: Tenant, slot: Slot, lines: Lines, since_at_ns: int, offset: int) -> WhyRow:
        """It waits for its turn on a device."""
        text = cut(short(lock_report.steady(state, tenant, slot)), LONGEST)
        line = lines.get(slot)
        if line is None:
            return WhyRow(code="lock", text=text, since_at_ns=since_at_ns)
        at = line.places.get(tenant.id)
        starts = at.starts_ns if at is not None else None
        return WhyRow(
            code="lock",
            text=text,
            holder=line.holder if line.holder is not None else line.reserved,
            since_at_ns=since_at_ns,
            place=at.number if at is not None else 0,
            turn_ends_at_ns=None if line.ends_ns is None else line.ends_ns + offset,
            starts_at_ns=None if starts is None else starts + offset,
            by=self._turn_by(state, tenant, slot),
        )

    def _turn_by(self, state: State, tenant: Tenant, slot: Slot) -> str:
        knobs, where, by = self._turn
        if knobs is None or tenant.in_force.get(slot) is not knobs or where != slot:
            by = cut(short(lock_report.by(state, tenant, slot)), LONGEST)
            self._turn = tenant.in_force.get(slot), slot, by
        return by


def _place(state: State, tenant: Tenant, slot: Slot, reason: int) -> str:
    """`p.gpol:12`, where it stands that a job is held for that reason; "": nowhere, or a person has said it."""
    if slot not in state.runs or (reason == publish.GATE_PAUSED and tenant.paused is not None):
        return ""
    for knob in _KNOBS.get(reason, ()):
        word = tightest(knob, said(state, tenant, slot, knob))
        if word is not None and word.value not in (math.inf, False):
            return place(of_word(word))
    if reason == publish.GATE_BUDGET:
        return next((_line(one, _limit(one, tenant)) for one in state.stack_on(slot) if compute_of(one, tenant)), "")
    applied = arbiter_on(state, slot) if reason in (publish.GATE_PREEMPT, publish.GATE_SHARE) else None
    block = applied.program.ir.arbiter if applied is not None else None
    return _line(applied, block.span) if applied is not None and block is not None else ""


def _limit(applied: Applied, tenant: Tenant) -> Span:
    """Of `limit { compute }` of its class."""
    limit = applied.program.ir.class_named(tenant.placed[applied.program.digest].job_class or "").limit
    assert limit is not None
    return limit.settings["compute"].span


def _line(applied: Applied, span: Span) -> str:
    source = applied.program.ir.source
    return f"{source.name}:{source.position(span.start)[0]}"


def of_memory(state: State, asks: list[memory_line.Asked], tenant: Tenant, offset: int) -> WhyRow:
    """An allocation of its waits for room."""
    first = asks[0]
    limit = limit_of(state.stack_on(first.slot), tenant)
    over = memory_line.is_over(state, tenant, first)
    where = "below its limit" if over else f"on device {first.slot}"
    return WhyRow(
        code="memory",
        text=f"an allocation waits for room {where}",
        since_at_ns=first.since_ns + offset,
        by=cut(short(limit.place), LONGEST) if over else "",
    )


def of_queue(one: Waiting, place: int, offset: int) -> WhyRow:
    """It waits to be let in."""
    text = cut(short(sentence(one)), LONGEST)
    return WhyRow(code="admission", text=text, since_at_ns=one.since_ns + offset, place=place)
