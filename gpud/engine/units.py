"""Units of a device: tenants that one policy counts together, by the `per` of their class. And pools: units that take
turns with each other. Pure."""

from collections.abc import Sequence

from attrs import frozen

from gpud.engine.board import Applied
from gpud.engine.standing import arbiter_on, member_of, standing
from gpud.engine.state import State, Tenant
from gpud.model.ids import JobId, Slot, UnitName


@frozen
class Unit:
    """What a knob that holds per unit, or a share, is of."""

    policy: str
    job_class: str | None
    """None: those that no class takes."""
    member: str
    """What tells it from other units of its class."""
    tenants: tuple[JobId, ...]
    """On the device now, oldest first; without any, the class's place is kept."""


def units_on(applied: Applied, tenants: Sequence[Tenant]) -> list[Unit]:
    """As one policy counts these tenants, in the order of its classes; those that no class takes are one, the last."""
    found: dict[tuple[str | None, str], list[JobId]] = {}
    pers = {job_class.name: job_class.per for job_class in applied.program.ir.classes}
    for tenant in tenants:
        job_class = tenant.placed[applied.program.digest].job_class
        member = member_of(tenant, pers[job_class]) if job_class is not None else ""
        found.setdefault((job_class, member), []).append(tenant.id)
    order = {name: number for number, name in enumerate(pers)}
    units = [Unit(applied.name, name, member, tuple(jobs)) for (name, member), jobs in found.items()]
    return sorted(units, key=lambda unit: order.get(unit.job_class or "", len(order)))


def unit_name(state: State, tenant: Tenant, slot: Slot) -> UnitName:
    """Of the one that it is in, as whoever arbitrates there counts."""
    applied = arbiter_on(state, slot)
    if applied is None:
        return "", "", ""
    name = standing(state, tenant, slot).job_class
    if name is None:
        return applied.name, "", ""
    return applied.name, name, member_of(tenant, applied.program.ir.class_named(name).per)


def pool_of(state: State, tenant: Tenant, slot: Slot) -> int | None:
    """Who takes turns with whom: everybody under `share`; under `preempt`, those of one rank where the policy has
    something to say of their shares. None: it takes none, the device divides its time as it does."""
    applied = arbiter_on(state, slot)
    if applied is None or applied.arbiter is None:
        return None
    if applied.arbiter.mode == "share":
        return 0
    rank = standing(state, tenant, slot).rank
    return rank if rank in applied.arbiter.shared else None


def pools_on(state: State, slot: Slot, tenants: Sequence[Tenant]) -> dict[int, list[Tenant]]:
    """Of these tenants."""
    found: dict[int, list[Tenant]] = {}
    for tenant in tenants:
        pool = pool_of(state, tenant, slot)
        if pool is not None:
            found.setdefault(pool, []).append(tenant)
    return found
