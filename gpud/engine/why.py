"""Why a job runs or does not: from knob to rule to line to inputs. Pure."""

from gpud.engine.explained import of_word
from gpud.engine.held import Sums
from gpud.engine.in_force import ENFORCED, said, tightest
from gpud.engine.in_words import NO_LEVELS, Levels
from gpud.engine.report import job_view
from gpud.engine.standing import arbiter_on, standing
from gpud.engine.state import State, Tenant
from gpud.model.ids import Slot, uuid_text
from gpud.model.views import ExplainView, WhyDevice, WhyView


def why(state: State, tenant: Tenant, sums: Sums, now: int, levels: Levels = NO_LEVELS) -> WhyView:
    """What holds for a job now, on each of its devices; while it is on none, on each that it may come to."""
    clients = [state.clients[client] for client in sorted(tenant.clients) if client in state.clients]
    slots = sorted({slot for client in clients for slot in client.slots()}) or sorted(state.runs)
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
        knobs=tuple(view for knob in ENFORCED for view in _knob(state, tenant, slot, knob)),
    )


def _knob(state: State, tenant: Tenant, slot: Slot, knob: str) -> list[ExplainView]:
    words = list(said(state, tenant, slot, knob))
    holds = tightest(knob, words)
    return [
        ExplainView(because=of_word(word), in_force=holds is not None and word.value == holds.value) for word in words
    ]
