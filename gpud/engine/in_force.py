"""What the policies of a device say together about one client: knobs, and the failsafe. Pure.

Values of several policies meet as the language says: `pause` any, `max_inflight` the least.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import frozen

from gpud.engine import memory_limits, signals
from gpud.engine.board import Applied, Arbiter, Failsafe, duration, launches, nanoseconds
from gpud.engine.caps import TOTALS, limits_of
from gpud.engine.shares import most_of, share_of
from gpud.engine.standing import arbiter_on
from gpud.engine.state import Client, Ran, State, Tenant
from gpud.engine.units import pool_of
from gpud.model.ids import Slot
from gpud.model.knobs import Knobs
from gpud.policies.combine import is_tighter
from gpud.policies.schema import KNOBS

IN_WORDS = ("pause", "yield", "max_inflight", "max_inflight_time")
"""Knobs whose values are in the words of each client."""
ENFORCED = (*IN_WORDS, *TOTALS, "share", "max_hold", "max_overrun", "residency")
"""Knobs that the pages of this version can say; `admit` is not for pages."""
WINDOWS_OF_A_PERIOD = 4
"""Of who takes turns: this part of the period is submitted ahead."""


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
    return knobs_for(state, state.tenants[client.job], slot)


def knobs_for(state: State, tenant: Tenant, slot: Slot) -> Knobs:
    """What holds for the clients of a tenant on a device. Remembered until a policy there decides otherwise, or the
    tenant's class changes."""
    found = tenant.in_force.get(slot)
    if found is None:
        found = tenant.in_force[slot] = _knobs(state, tenant, slot)
    return found


def _knobs(state: State, tenant: Tenant, slot: Slot) -> Knobs:
    applied = arbiter_on(state, slot)
    arbiter = applied.arbiter if applied else None
    hard, soft = limits_of(state.stack_on(slot), tenant)
    memory = memory_limits.limit_for(state.stack_on(slot), tenant)
    inflight = launches(_value(state, tenant, slot, "max_inflight"))
    inflight_ns = duration(_value(state, tenant, slot, "max_inflight_time"))
    common: dict[str, Any] = {
        "pause": _value(state, tenant, slot, "pause") or tenant.paused is not None,
        "hard_ppm": hard,
        "soft_ppm": soft,
        "rated": any(_value(state, tenant, slot, f"max_{what}_rate") < math.inf for what in ("launch", "block")),
        "copies": _value(state, tenant, slot, "max_copy_rate") < math.inf,
        "charged": signals.wants_charging(state, tenant, slot),
        "memory_limit": memory.bytes,
        "memory_wait_ns": memory.wait_ns,
        "max_hold_ns": nanoseconds(_value(state, tenant, slot, "max_hold")),
        "max_overrun_ns": nanoseconds(_value(state, tenant, slot, "max_overrun")),
        "residency": _value(state, tenant, slot, "residency"),
    }
    capped = hard is not None or soft is not None or _value(state, tenant, slot, "max_compute") < math.inf
    if applied is None or arbiter is None:
        return Knobs(yields=False, max_inflight=inflight, max_inflight_ns=inflight_ns, capped=capped, **common)
    if tenant.placed[applied.program.digest].job_class is None:
        inflight = _least(inflight, arbiter.max_inflight)
        inflight_ns = _least(inflight_ns, arbiter.max_inflight_ns)
    pool = pool_of(state, tenant, slot)
    return Knobs(
        yields=arbiter.mode == "preempt" and _value(state, tenant, slot, "yield"),
        max_inflight=inflight,
        max_inflight_ns=inflight_ns,
        resume_after_ns=arbiter.resume_after_ns,
        max_pause_ns=arbiter.max_pause_ns,
        pass_ns=arbiter.pass_ns,
        capped=capped or (pool is not None and _is_most(state, tenant, slot, applied)),
        pool=pool,
        turn_window_ns=_turn_window(state, tenant, slot, applied, arbiter) if pool is not None else None,
        **common,
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _turn_window(state: State, tenant: Tenant, slot: Slot, applied: Applied, arbiter: Arbiter) -> int:
    """GPU time submitted ahead by who takes turns: enough that the device does not wait for the next launch. Of who may
    use other tenants' time no more than they get back within `reclaim`."""
    run = state.runs[slot]
    share = share_of(applied, run.ran[run.stack.index(applied)], tenant.placed[applied.program.digest].job_class)
    ahead = max(arbiter.period_ns // WINDOWS_OF_A_PERIOD, 1)
    return min(ahead, arbiter.reclaim_ns) if share.kind == "burst" else ahead


def _is_most(state: State, tenant: Tenant, slot: Slot, applied: Applied) -> bool:
    """Its share is also the most that it may have."""
    run = state.runs[slot]
    ran = run.ran[run.stack.index(applied)]
    return most_of(share_of(applied, ran, tenant.placed[applied.program.digest].job_class), 0) is not None


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
