"""How the time of each device is divided, as far as only events change it: put together from limits, totals and shares.
What follows from who is active, and from time, is a matter of steps in C. Pure."""

from collections.abc import Iterable, Sequence

from gpud.engine import caps, shares
from gpud.engine.in_force import knobs_for
from gpud.engine.standing import arbiter_on, rank_on
from gpud.engine.state import Client, State, Tenant
from gpud.engine.units import pools_on, units_on
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.events import Tick
from gpud.model.ids import JobId, Slot
from gpud.model.levels import DividedClient, DividedTenant, Division, Motion, Pool, ShareUnit, Total
from gpud.model.units import MILLISECOND, SECOND

STEP_NS = 5 * MILLISECOND
"""Between two steps while somebody is active …"""
IDLE_STEP_NS = 50 * MILLISECOND
"""… and while only levels move."""
LINGER_NS = 100 * MILLISECOND
"""Who was active so lately will be again soon: looking costs less than being told."""
EARLIEST_NS = 2_500_000
"""After the step before, however many edges arrive."""
SAVE_NS = 1 * SECOND
"""Between two times that levels are put on file while they move."""


def settle(state: State, now: int) -> list[Effect]:
    """Divides the devices anew of which something has changed. Called once after each event, when words and tables are
    as they shall be."""
    if not state.dirty:
        return []
    effects: list[Effect] = []
    for slot in sorted(state.dirty):
        division = divide(state, slot) if slot in state.runs and not state.stopped else None
        if division == state.divisions.get(slot) and (division is None or slot not in state.anew):
            continue
        resumed = tuple(state.levels.pop(slot, ())) if division is not None else ()
        effects.append(do.Divide(slot=slot, division=division, resumed=resumed))
        if division is None:
            state.divisions.pop(slot, None)
        else:
            state.divisions[slot] = division
            if division.moves:
                _due(state, now + STEP_NS)
    state.dirty.clear()
    state.anew.clear()
    if not any(division.moves for division in state.divisions.values()):
        state.levels_due_ns = None
    return effects


def stepped(state: State, event: Tick, now: int) -> list[Effect]:
    """After a step: when is the next one due, and are levels to be put on file?"""
    if event.motion is None:
        return []
    state.stepped_ns = now
    state.levels_due_ns = None
    stepping = {slot: now for slot, motion in event.motion.items() if motion is Motion.BUSY}
    recent = {slot: at for slot, at in state.stepping.items() if slot in event.motion and now - at < LINGER_NS}
    state.stepping = recent | stepping
    for slot, motion in event.motion.items():
        if slot in state.stepping:
            _due(state, now + STEP_NS)
        elif motion is Motion.MOVING:
            _due(state, now + IDLE_STEP_NS)
    if state.levels_due_ns is None or now < state.save_due_ns:
        return []
    state.save_due_ns = now + SAVE_NS
    return [do.SaveState()]


def hurry(state: State, slot: Slot, now: int) -> None:
    """Somebody went active there: its levels should be seen soon. While others are active, that is soon enough."""
    division = state.divisions.get(slot)
    soon = state.levels_due_ns is not None and state.levels_due_ns <= now + STEP_NS
    if division is not None and division.moves and not soon:
        _due(state, max(now, state.stepped_ns + EARLIEST_NS))


def _due(state: State, at: int) -> None:
    state.levels_due_ns = at if state.levels_due_ns is None else min(state.levels_due_ns, at)


def divide(state: State, slot: Slot) -> Division | None:
    """None: nobody there is limited, measured, or has to know of who is not in its table."""
    clients: dict[JobId, list[Client]] = {}
    for client in state.clients_on(slot):
        clients.setdefault(client.job, []).append(client)
    tenants = [state.tenants[job] for job in clients]
    if not any(_concerns(state, tenant, clients[tenant.id], slot) for tenant in tenants):
        return None
    run = state.runs[slot]
    totals: list[Total] = []
    for applied, ran in zip(run.stack, run.ran, strict=True):
        totals += caps.totals_of(applied, ran, tenants)
    units, pools, own = _shares(state, slot, tenants)
    return Division(
        tenants=tuple(_tenant(state, tenant, clients[tenant.id], slot) for tenant in tenants),
        totals=(*totals, *own),
        units=units,
        pools=pools,
    )


def _concerns(state: State, tenant: Tenant, clients: Iterable[Client], slot: Slot) -> bool:
    knobs = knobs_for(state, tenant, slot)
    return knobs.measured or knobs.rated or knobs.copies or any(client.beyond.get(slot) for client in clients)


def _shares(
    state: State, slot: Slot, tenants: Sequence[Tenant]
) -> tuple[tuple[ShareUnit, ...], tuple[Pool, ...], tuple[Total, ...]]:
    pools = pools_on(state, slot, tenants)
    applied = arbiter_on(state, slot)
    if not pools or applied is None:
        return (), (), ()
    run = state.runs[slot]
    ran = run.ran[run.stack.index(applied)]
    return shares.divided(applied, ran, [(which, units_on(applied, members)) for which, members in pools.items()])


def _tenant(state: State, tenant: Tenant, clients: Sequence[Client], slot: Slot) -> DividedTenant:
    knobs = knobs_for(state, tenant, slot)
    return DividedTenant(
        tenant=tenant.id,
        hard_ppm=knobs.hard_ppm,
        soft_ppm=knobs.soft_ppm,
        clients=tuple(
            DividedClient(
                client=client.id,
                rank=rank_on(state, client, slot),
                looks=bool(client.beyond.get(slot)) and knobs.yields,
                measured=knobs.measured,
                counted=knobs.rated or knobs.copies,
                awaited=not client.live,
                resume_after_ns=knobs.resume_after_ns,
                peers=tuple(peer.client for peer in client.words[slot].peers) if slot in client.words else (),
            )
            for client in clients
        ),
    )
