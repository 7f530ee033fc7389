"""Why a job runs or does not: from knob to rule to line to inputs. Pure."""

from gpud.engine.caps import limits_of
from gpud.engine.explained import of_word
from gpud.engine.held import Sums
from gpud.engine.in_force import ENFORCED, said, tightest
from gpud.engine.in_words import Levels, percent
from gpud.engine.memory_limits import limit_for
from gpud.engine.report import job_view
from gpud.engine.standing import arbiter_on, standing
from gpud.engine.state import State, Tenant
from gpud.engine.unmanaged import mps_notes
from gpud.model.ids import Slot, uuid_text
from gpud.model.knobs import Explained
from gpud.model.views import ExplainView, WhyDevice, WhyView
from gpud.policies.quantities import show_value
from gpud.policies.types import Type


def why(state: State, tenant: Tenant, sums: Sums, now: int, levels: Levels) -> WhyView:
    """What holds for a job now, on each of its devices; while it is on none, on each that it may come to."""
    slots = sorted(state.slots_of(tenant)) or sorted(state.runs)
    job = job_view(state, tenant, sums, now, levels)
    return WhyView(job=job, hold=job.why, devices=tuple(_device(state, tenant, slot) for slot in slots))


def _device(state: State, tenant: Tenant, slot: Slot) -> WhyDevice:
    arbiter = arbiter_on(state, slot)
    return WhyDevice(
        device=slot,
        uuid=uuid_text(state.devices[slot].uuid),
        policies=tuple(applied.name for applied in state.stack_on(slot)),
        arbiter=arbiter.arbiter.mode if arbiter is not None and arbiter.arbiter is not None else "open",
        rank=standing(state, tenant, slot).rank,
        knobs=(*_said(state, tenant, slot), *(v for knob in ENFORCED for v in _knob(state, tenant, slot, knob))),
        notes=mps_notes(state, slot, _is_under_mps(state, slot)),
    )


def _is_under_mps(state: State, slot: Slot) -> bool:
    """As the driver told last, however long ago: it is asked anew while anybody is attached."""
    seen = state.seen.get(state.devices[slot].uuid)
    return seen is not None and seen.mps


def _knob(state: State, tenant: Tenant, slot: Slot, knob: str) -> list[ExplainView]:
    words = list(said(state, tenant, slot, knob))
    holds = tightest(knob, words)
    if knob == "pause" and tenant.paused is not None and not (holds is not None and holds.value):
        holds = None  # a person's word is the tighter one
    return [
        ExplainView(because=of_word(word), in_force=holds is not None and word.value == holds.value) for word in words
    ]


def _said(state: State, tenant: Tenant, slot: Slot) -> list[ExplainView]:
    """What a person has said of the job, beside the policies. Of limits the tightest is in force."""
    hard, _ = limits_of(state.stack_on(slot), tenant)
    memory = limit_for(state.stack_on(slot), tenant).bytes
    said = [
        ("pause", tenant.paused, "true", True),
        ("memory", tenant.memory, _memory(tenant), tenant.memory is not None and tenant.memory.value == memory),
        ("compute", tenant.compute, _compute(tenant), tenant.compute is not None and tenant.compute.value == hard),
    ]
    return [
        ExplainView(
            because=Explained(policy="", file="", line=0, knob=knob, value=value, rule="", by=ruling.by.name),
            in_force=in_force,
        )
        for knob, ruling, value, in_force in said
        if ruling is not None
    ]


def _memory(tenant: Tenant) -> str:
    return str(show_value(tenant.memory.value, Type.BYTES)) if tenant.memory is not None else ""


def _compute(tenant: Tenant) -> str:
    return percent(tenant.compute.value) if tenant.compute is not None else ""
