"""Where in the policies it stands that a job is held, or waits. Pure."""

import math

from gpud.engine import lock_report, memory_line, publish
from gpud.engine.explained import of_word, place
from gpud.engine.in_force import said, tightest
from gpud.engine.in_words import limiting
from gpud.engine.memory_limits import limit_for
from gpud.engine.standing import arbitrated_at
from gpud.engine.state import State, Tenant
from gpud.model.ids import Slot

_KNOBS = {
    publish.GATE_PAUSED: ("pause",),
    publish.GATE_WINDOW: ("max_inflight", "max_inflight_time"),
    publish.GATE_RATE: ("max_launch_rate", "max_block_rate"),
    publish.GATE_COPY: ("max_copy_rate",),
}
"""Who is held by such a reason is so by one of these."""
_ARBITRATED = (publish.GATE_PREEMPT, publish.GATE_SHARE, publish.GATE_WINDOW)
"""By the arbiter, where no rule says more."""


def of_gate(state: State, tenant: Tenant, slot: Slot, reason: int, cap_ppm: int | None) -> str:
    """`p.gpol:12`, where it stands that a job is held for that reason; "": nowhere, or a person has said it. `cap_ppm`:
    the most of the device that it may use now, where that is known."""
    if slot not in state.runs or (reason == publish.GATE_PAUSED and tenant.paused is not None):
        return ""
    if reason == publish.GATE_GRANT:
        return lock_report.by(state, tenant, slot)
    if reason == publish.GATE_BUDGET:
        most = limiting(state, tenant, slot, cap_ppm or 0)
        return most.place if most is not None else ""
    for knob in _KNOBS.get(reason, ()):
        word = tightest(knob, said(state, tenant, slot, knob))
        if word is None or word.value is False or word.value == math.inf:
            continue
        explained = of_word(word)
        if explained.line:
            return place(explained)
    return arbitrated_at(state, slot) if reason in _ARBITRATED else ""


def of_memory(state: State, tenant: Tenant, ask: memory_line.Asked) -> tuple[str, str]:
    """Of an allocation that waits: (a sentence, where the limit stands that it waits below, or where it is said that it
    waits)."""
    limit = limit_for(state.stack_on(ask.slot), tenant)
    if memory_line.is_over(state, tenant, ask):
        return "an allocation waits for room below its limit", limit.place
    return f"an allocation waits for room on device {ask.slot}", limit.waits_at
