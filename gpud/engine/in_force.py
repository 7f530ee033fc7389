"""What the policies of a device say together about one client: knobs, and the failsafe. Pure.

Values of several policies meet as the language says: `pause` any, `max_inflight` the least.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import frozen

from gpud.engine.board import Applied, Failsafe, launches
from gpud.engine.standing import arbiter_on
from gpud.engine.state import Client, Ran, State, Tenant
from gpud.model.ids import Slot
from gpud.model.knobs import Knobs
from gpud.policies.combine import is_tighter
from gpud.policies.schema import KNOBS

ENFORCED = ("pause", "yield", "max_inflight")
"""Knobs that the pages of this version can say."""


@frozen
class Said:
    """What one policy says of one knob of a tenant."""

    applied: Applied
    ran: Ran
    job_class: str
    index: int
    """Into the values of the policy's tick; with `own`, into those about this tenant."""
    tenant: int
    own: bool
    """By an `each`."""
    value: Any


def said(state: State, tenant: Tenant, slot: Slot, knob: str) -> Iterator[Said]:
    """Of every policy of the device that has a word about it, in their order."""
    run = state.runs[slot]
    for applied, ran in zip(run.stack, run.ran, strict=True):
        job_class = tenant.placed[applied.program.digest].job_class
        index = applied.knobs.get((job_class, knob)) if job_class is not None else None
        if job_class is None or index is None or not ran.knobs.values:
            continue
        if knob == "yield" and applied.arbiter is None and not applied.program.sites[ran.knobs.sites[index]].line:
            continue  # `true` is what is built in, not a word of this policy
        yield own_word(applied, ran, tenant, job_class, knob) or Said(
            applied, ran, job_class, index, tenant.id, False, ran.knobs.values[index]
        )


def own_word(applied: Applied, ran: Ran, tenant: Tenant, job_class: str, knob: str) -> Said | None:
    """What an `each` says of this very tenant; None where the class's value holds."""
    index = applied.tenant_knobs.get((job_class, knob))
    if index is None:
        return None
    for number, values, _ in ran.knobs.tenants:
        if number == tenant.id and values[index] is not None:
            return Said(applied, ran, job_class, index, tenant.id, True, values[index])
    return None


def tightest(knob: str, words: Iterable[Said]) -> Said | None:
    """The first of those whose value holds."""
    found: Said | None = None
    for word in words:
        if found is None or is_tighter(KNOBS[knob].combine, word.value, found.value):
            found = word
    return found


def knobs_of(state: State, client: Client, slot: Slot) -> Knobs:
    """What holds for a client on one of its devices."""
    tenant = state.tenants[client.job]
    applied = arbiter_on(state, slot)
    arbiter = applied.arbiter if applied else None
    if applied is None or arbiter is None:
        return Knobs(
            pause=_value(state, tenant, slot, "pause"),
            yields=False,
            max_inflight=launches(_value(state, tenant, slot, "max_inflight")),
        )
    inflight = launches(_value(state, tenant, slot, "max_inflight"))
    if tenant.placed[applied.program.digest].job_class is None and arbiter.max_inflight is not None:
        inflight = min(arbiter.max_inflight, inflight or arbiter.max_inflight)
    return Knobs(
        pause=_value(state, tenant, slot, "pause"),
        yields=arbiter.mode == "preempt" and _value(state, tenant, slot, "yield"),
        max_inflight=inflight,
        resume_after_ns=arbiter.resume_after_ns,
        max_pause_ns=arbiter.max_pause_ns,
    )


def _value(state: State, tenant: Tenant, slot: Slot, knob: str) -> Any:
    word = tightest(knob, said(state, tenant, slot, knob))
    return word.value if word is not None else KNOBS[knob].default


def failsafe_of(state: State, client: Client) -> Failsafe:
    """The strictest of its devices: a client has one page. Without a device yet, of all that may come."""
    stacks = [state.stack_on(slot) for slot in sorted(client.slots())] or [state.board.applied]
    default = Failsafe(state.failsafe_after_ns)
    found = [
        (applied.arbiter.failsafe or default) for stack in stacks for applied in stack if applied.arbiter is not None
    ] or [default]
    return max(found, key=lambda failsafe: math.inf if failsafe.after_ns is None else failsafe.after_ns)
