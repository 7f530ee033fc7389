"""The one reason of a row: why a job does not run, or waits. The sentence stays while the reason does; what moves are
times of their own. Pure."""

from typing import Any

from gpud.engine import held, held_place, lock_report, memory_line, publish
from gpud.engine.in_words import Levels
from gpud.engine.live_lines import Lines
from gpud.engine.live_still import Pair, cut, short
from gpud.engine.state import State, Tenant, Waiting
from gpud.engine.waiting import sentence
from gpud.model.counters import Counters
from gpud.model.ids import Slot
from gpud.model.live_views import WhyRow

LONGEST = 300
"""Characters of a sentence."""
_BY_RULE = publish.GATE_PREEMPT | publish.GATE_WINDOW | publish.GATE_BUDGET | publish.GATE_RATE | publish.GATE_COPY
_BY_RULE |= publish.GATE_PAUSED
"""Their sentences name a rule, which costs something to find, and are the same while it is."""


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
        since = min(row.hold_since_ns, now) + offset
        if row.hold_reason == publish.GATE_GRANT:
            return self.of_line(state, tenant, pair.slot, lines, since, offset)
        code, text, holder, by = self._sentence(state, tenant, pair, row, sums, levels, now)
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
        by = cut(short(held.place(state, client, slot, row, levels)), LONGEST)
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


def of_memory(state: State, asks: list[memory_line.Asked], tenant: Tenant, offset: int) -> WhyRow:
    """An allocation of its waits for room."""
    first = asks[0]
    text, by = held_place.of_memory(state, tenant, first)
    return WhyRow(code="memory", text=text, since_at_ns=first.since_ns + offset, by=cut(short(by), LONGEST))


def of_queue(one: Waiting, place: int, offset: int) -> WhyRow:
    """It waits to be let in."""
    text = cut(short(sentence(one)), LONGEST)
    by = cut(short(one.by), LONGEST)
    return WhyRow(code="admission", text=text, since_at_ns=one.since_ns + offset, place=place, by=by)
