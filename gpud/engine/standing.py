"""What a tenant is on a device: class and rank, by the policy that arbitrates there. Pure."""

from attrs import frozen

from gpud.engine.board import Applied
from gpud.engine.classify import UNCLASSIFIED
from gpud.engine.state import Client, State, Tenant
from gpud.model.ids import Slot


@frozen
class Standing:
    """Of one tenant on one device."""

    job_class: str | None
    """Of the arbiter; None: none takes it, or nobody arbitrates."""
    rank: int


def arbiter_on(state: State, slot: Slot) -> Applied | None:
    """The policy that arbitrates there; None: the built-in `open`."""
    run = state.runs.get(slot)
    if run is not None:
        return run.arbiter
    return next((applied for applied in state.stack_on(slot) if applied.arbiter is not None), None)


def arbitrated_at(state: State, slot: Slot, setting: str = "") -> str:
    """`turns.gpol:12`, the line of a setting of the arbiter, or of its block where it says nothing of it; "": no policy
    arbitrates there."""
    applied = arbiter_on(state, slot)
    block = applied.program.ir.arbiter if applied is not None else None
    if applied is None or block is None:
        return ""
    source = applied.program.ir.source
    span = block.settings[setting].span if setting in block.settings else block.span
    return f"{source.name}:{source.position(span.start)[0]}"


def standing(state: State, tenant: Tenant, slot: Slot) -> Standing:
    """Remembered until the running set or the tenant's class changes."""
    found = tenant.standings.get(slot)
    if found is None:
        found = tenant.standings[slot] = _standing(state, tenant, slot)
    return found


def forget(tenant: Tenant, slot: Slot | None = None) -> None:
    """What was remembered of it on a device is not so any more; None: on all."""
    slots = [slot] if slot is not None else [*tenant.standings, *tenant.in_force, *tenant.risen]
    tenant.read.clear()
    for one in slots:
        tenant.standings.pop(one, None)
        tenant.in_force.pop(one, None)
        tenant.risen.discard(one)


def rises_at(state: State, tenant: Tenant, slot: Slot) -> int | None:
    """When its rank on a device becomes one higher, by `rise_after`; None: never, or it is already."""
    applied = arbiter_on(state, slot)
    if applied is None or applied.arbiter is None or tenant.attached_ns is None or slot in tenant.risen:
        return None
    job_class = tenant.placed[applied.program.digest].job_class
    after = applied.arbiter.rise_after_ns.get(job_class) if job_class is not None else None
    if after is None or applied.arbiter.ranks[job_class or ""] == 0:
        return None
    return tenant.attached_ns + after


def rises(state: State) -> list[tuple[int, Tenant, Slot]]:
    """(when, who, where) of all that are still to come."""
    if not any(applied.arbiter.rise_after_ns for applied in state.board.arbiters if applied.arbiter is not None):
        return []
    found: list[tuple[int, Tenant, Slot]] = []
    for tenant in state.tenants.values():
        for slot in sorted(state.slots_of(tenant)):
            at = rises_at(state, tenant, slot)
            if at is not None:
                found.append((at, tenant, slot))
    return found


def rank_on(state: State, client: Client, slot: Slot) -> int:
    """Smaller is higher. One that is stuck there is below all."""
    if slot in client.stuck:
        applied = arbiter_on(state, slot)
        if applied is not None and applied.arbiter is not None:
            return applied.arbiter.lowest
    return standing(state, state.tenants[client.job], slot).rank


def arbiters_of(state: State, tenant: Tenant) -> tuple[Applied, ...]:
    """Of the devices it is on; while it is on none, of all that it may come to."""
    slots = sorted(state.slots_of(tenant))
    if not slots and not state.runs:
        return state.board.arbiters
    found = [arbiter_on(state, slot) for slot in slots or sorted(state.runs)]
    return tuple(dict.fromkeys(applied for applied in found if applied is not None))


def class_text(state: State, tenant: Tenant) -> str:
    """Its class as screens show it. `unclassified` where no class of the arbiter takes it; "" where nobody
    arbitrates."""
    shown = [tenant.placed[applied.program.digest].job_class or UNCLASSIFIED for applied in arbiters_of(state, tenant)]
    return "/".join(dict.fromkeys(shown))


def is_pinned(state: State, tenant: Tenant) -> bool:
    """Does its pin say what it is, there?"""
    return any(tenant.placed[applied.program.digest].how == "pinned" for applied in arbiters_of(state, tenant))


def _standing(state: State, tenant: Tenant, slot: Slot) -> Standing:
    applied = arbiter_on(state, slot)
    if applied is None or applied.arbiter is None:
        return Standing(None, 0)
    job_class = tenant.placed[applied.program.digest].job_class
    if job_class is None:
        return Standing(None, applied.arbiter.lowest)
    rank = applied.arbiter.ranks.get(job_class, 0)
    return Standing(job_class, max(rank - (slot in tenant.risen), 0))


def member_of(tenant: Tenant, per: str) -> str:
    """What tells this tenant's unit from others of its class, by the class's `per`."""
    who = tenant.who
    match per:
        case "tenant":
            return str(tenant.id)
        case "user":
            return str(who.uid)
        case "group":
            return who.group
        case "namespace":
            return tenant.facts.namespace
    return tenant.labels.get(per.removeprefix("label:"), "") if per.startswith("label:") else ""
