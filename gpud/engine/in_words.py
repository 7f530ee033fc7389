"""What limits a job's GPU time and how it stands, in words. Pure."""

import math
from collections.abc import Iterator, Mapping

from attrs import frozen

from gpud.engine.board import Applied
from gpud.engine.caps import compute_of
from gpud.engine.explained import of_word, place
from gpud.engine.in_force import Said, said, tightest
from gpud.engine.standing import arbitrated_at
from gpud.engine.state import State, Tenant
from gpud.model.ids import JobId, Slot
from gpud.model.levels import Level
from gpud.model.rulings import Ruling
from gpud.model.units import MICROSECOND, MILLISECOND, SECOND, format_duration

Levels = Mapping[tuple[JobId, Slot], Level]
_WHOLE = 1_000_000


@frozen(order=True)
class Most:
    """What limits a job's GPU time."""

    ppm: int
    """Of the device."""
    text: str
    """By what, with the place."""
    place: str
    """`p.gpol:2`; "": a person has said it."""


def limiting(state: State, tenant: Tenant, slot: Slot, cap_ppm: int) -> Most | None:
    """To what it is due that so much is the most that it may use now; None: nothing limits it."""
    found = sorted(limits(state, tenant, slot))
    # What is in force may be less than any of them: a part of what holds for several jobs together.
    return next((most for most in found if most.ppm >= cap_ppm), found[-1] if found else None)


def limits(state: State, tenant: Tenant, slot: Slot) -> Iterator[Most]:
    for applied in state.stack_on(slot):
        limit = compute_of(applied, tenant)
        if limit is not None and limit[0] <= 1:
            ratio, soft = limit
            yield _by_limit(applied, tenant, round(ratio * _WHOLE), " while others want it" if soft else "")
    if tenant.compute is not None:
        yield Most(tenant.compute.value, f"set by {tenant.compute.by.name}", "")
    if slot not in state.runs:
        return
    for word in said(state, tenant, slot, "max_compute"):
        if word.value <= 1:
            explained = of_word(word)
            where = place(explained)
            yield Most(round(word.value * _WHOLE), f"by {explained.knob} = {explained.value} ({where})", where)
    for word in said(state, tenant, slot, "share"):
        most = _most(state, tenant, slot, word)
        if most is not None:
            explained = of_word(word)
            # That a share is equal need not be said anywhere: then it is the arbiter's.
            where = place(explained) if explained.line else arbitrated_at(state, slot)
            yield Most(most, f"by its share {explained.value} ({where})", where)


def _by_limit(applied: Applied, tenant: Tenant, ppm: int, when: str) -> Most:
    ir, name = applied.program.ir, tenant.placed[applied.program.digest].job_class
    limit = ir.class_named(name or "").limit
    assert limit is not None
    line = ir.source.position(limit.settings["compute"].span.start)[0]
    where = f"{ir.source.name}:{line}"
    return Most(ppm, f"by `limit {{ compute }}` of {name}{when} ({where})", where)


def _most(state: State, tenant: Tenant, slot: Slot, word: Said) -> int | None:
    """Of the unit's share as the device is divided now: a weight means nothing by itself. None: it limits nothing."""
    division = state.divisions.get(slot)
    for total in division.totals if division is not None else ():
        if total.key[0] == word.applied.name and total.key[3] == "share" and tenant.id in total.members:
            return total.amount
    return None


def by_rule(state: State, tenant: Tenant, slot: Slot, knob: str, *, value: bool = False) -> str:
    """Which rule sets a knob, in words after a sentence; "": none does, or it limits nothing."""
    found = tightest(knob, said(state, tenant, slot, knob)) if slot in state.runs else None
    if found is None or found.value == math.inf:
        return ""
    explained = of_word(found)
    because = f": “{explained.because}”" if explained.because else ""
    rule = f", {explained.rule}" if explained.line and explained.rule else ""
    is_ = f"{explained.knob} = {explained.value}; " if value else ""
    return f"{because} ({is_}{place(explained)}{rule})"


def left_ns(level: Level, now: int) -> int:
    """What a cap leaves now, as far as the daemon knows; below zero: owed."""
    left = level.cap_ns + max(now - level.at_ns, 0) * (level.cap_ppm or 0) // _WHOLE
    return min(left, level.burst_ns)


def due_ns(level: Level, now: int) -> int:
    """Until something is left; 0: there is, or never will be."""
    left = left_ns(level, now)
    return -left * _WHOLE // level.cap_ppm if level.cap_ppm and left < 0 else 0


def behind(lag_ns: int) -> str:
    """How it stands to its share: `12ms behind`, `3ms ahead of`, `even with`."""
    if abs(lag_ns) < MILLISECOND // 10:
        return "even with"
    return f"{format_duration(abs(lag_ns), MICROSECOND)} {'behind' if lag_ns > 0 else 'ahead of'}"


def percent(ppm: int) -> str:
    """`25%`, `33.3%`"""
    return f"{ppm / 10_000:.3g}%"


def since(state: State, said: Ruling, now: int) -> str:
    """`alice (uid 1000) 12min ago`"""
    ago = max(now + state.wall_offset_ns - said.at_ns, 0)
    return f"{said.by.name} {format_duration(ago // SECOND * SECOND)} ago"
