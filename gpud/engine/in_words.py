"""What limits a job's GPU time and how it stands, in words. Pure."""

import math
from collections.abc import Iterator, Mapping

from gpud.engine import labels
from gpud.engine.explained import of_word, place
from gpud.engine.in_force import said, tightest
from gpud.engine.state import State, Tenant
from gpud.model.errors import Refused
from gpud.model.ids import JobId, Slot
from gpud.model.levels import Level
from gpud.model.units import MILLISECOND, format_duration
from gpud.policies.values import Choice

Levels = Mapping[tuple[JobId, Slot], Level]
NO_LEVELS: Levels = {}
_WHOLE = 1_000_000


def limits(state: State, tenant: Tenant, slot: Slot) -> Iterator[tuple[int, str]]:
    """(millionths of the device, by what) of all that limits its GPU time there."""
    for applied in state.stack_on(slot):
        name = tenant.placed[applied.program.digest].job_class
        job_class = applied.program.ir.class_named(name) if name is not None else None
        if job_class is None or job_class.limit is None or "compute" not in job_class.limit.settings:
            continue
        try:
            value = labels.limits(job_class, tenant.labels)["compute"]
        except Refused:  # of one that came in under another set of policies
            continue
        ratio = value.argument if isinstance(value, Choice) else value
        if isinstance(ratio, int | float) and ratio <= 1:
            soft = " while others want it" if isinstance(value, Choice) else ""
            source = applied.program.ir.source
            line = source.position(job_class.limit.settings["compute"].span.start)[0]
            yield round(ratio * _WHOLE), f"by `limit {{ compute }}` of {name}{soft} ({source.name}:{line})"
    if slot not in state.runs:
        return
    for word in said(state, tenant, slot, "max_compute"):
        if word.value <= 1:
            explained = of_word(word)
            yield round(word.value * _WHOLE), f"by {explained.knob} = {explained.value} ({place(explained)})"
    for word in said(state, tenant, slot, "share"):
        if word.value.kind != "equal" and (word.value.kind != "burst" or word.value.max_percent < 100):
            explained = of_word(word)
            most = word.value.percent if word.value.kind == "fixed" else word.value.max_percent
            yield most * _WHOLE // 100, f"by its share {explained.value} ({place(explained)})"


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
    return f"{duration(abs(lag_ns))} {'behind' if lag_ns > 0 else 'ahead of'}"


def percent(ppm: int) -> str:
    """`25%`, `33.3%`"""
    return f"{ppm / 10_000:.3g}%"


def duration(nanoseconds: int) -> str:
    """Without what is less than a microsecond."""
    return format_duration(nanoseconds // 1000 * 1000)
