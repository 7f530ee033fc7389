"""How the time of each device is divided, as far as only events change it: put together from limits, totals and shares.
What follows from who is active, and from time, is a matter of steps in C. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve

from gpud.engine import caps, shares
from gpud.engine.in_force import knobs_for
from gpud.engine.standing import arbiter_on, rank_on
from gpud.engine.state import Client, State, Tenant
from gpud.engine.units import pools_on, units_on
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.events import Tick
from gpud.model.ids import JobId, Slot
from gpud.model.levels import (
    BARRED_TEXTS,
    Barred,
    DividedClient,
    DividedTenant,
    Division,
    Motion,
    Pool,
    ShareUnit,
    Total,
)
from gpud.model.units import MILLISECOND, SECOND, sooner

STEP_NS = 5 * MILLISECOND
"""Between two steps while somebody is active …"""
IDLE_STEP_NS = 50 * MILLISECOND
"""… and while only levels move."""
LINGER_NS = 100 * MILLISECOND
"""Who was active so lately will be again soon: looking costs less than being told."""
EARLIEST_NS = 2_500_000
"""After the step before (likewise the tick before, see ticking.py), however many edges arrive."""
SAVE_NS = 1 * SECOND
"""Between two times that levels are put on file while they move."""


def settle(state: State, now: int) -> list[Effect]:
    """Divides the devices anew of which something has changed. Called once after each event, when words and tables are
    as they shall be."""
    if not state.dirty and not state.amounts:
        return []
    effects: list[Effect] = []
    for slot in sorted(state.amounts - state.dirty):
        before = state.divisions.get(slot)
        if before is not None and not state.stopped:
            state.divisions[slot] = changed = _with_amounts(state, slot, before)
            effects.append(do.Divide(slot=slot, division=changed))
            if changed.moves:
                _due(state, now + STEP_NS)
    state.amounts.clear()
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
    effects = _told_of(state, event.barred)
    if state.levels_due_ns is None or now < state.save_due_ns:
        return effects
    state.save_due_ns = now + SAVE_NS
    return [*effects, do.SaveState()]


def _told_of(state: State, barred: Mapping[tuple[JobId, Slot], Barred]) -> list[Effect]:
    """A line for each tenant that is not believed any more, or is again."""
    if barred == state.barred:
        return []
    effects: list[Effect] = []
    for job, slot in sorted(barred.keys() | state.barred.keys()):
        why, tenant = barred.get((job, slot)), state.tenants.get(job)
        if tenant is None or not tenant.clients or why == state.barred.get((job, slot)):
            continue
        who = f"job {job} ({tenant.name})"
        if why is None:
            text = f"{who} is believed again on device {slot}"
            effects.append(do.Record(level="info", text=text, job=job, slot=slot))
        else:
            text = f"{who} takes no part in the turns of others on device {slot} for a while"
            text = f"{text}: {why.word}: {BARRED_TEXTS[why.word]}"
            effects.append(do.Record(level="warning", text=text, job=job, slot=slot))
    state.barred = barred
    return effects


def hurry(state: State, slot: Slot, now: int) -> None:
    """Somebody went active there: its levels should be seen soon. While others are active, that is soon enough."""
    division = state.divisions.get(slot)
    soon = state.levels_due_ns is not None and state.levels_due_ns <= now + STEP_NS
    if division is not None and division.moves and not soon:
        _due(state, max(now, state.stepped_ns + EARLIEST_NS))


def _due(state: State, at: int) -> None:
    state.levels_due_ns = sooner(state.levels_due_ns, at)


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


def _with_amounts(state: State, slot: Slot, before: Division) -> Division:
    """The same members and limits, by what the policies say now of their totals."""
    run = state.runs[slot]
    amounts = {
        (applied.name, job_class, knob): caps.amount(knob, ran.knobs.values[index])
        for applied, ran in zip(run.stack, run.ran, strict=True)
        for (job_class, knob), index in applied.knobs.items()
        if knob in caps.TOTALS and ran.knobs.values
    }
    totals = (
        evolve(total, amount=amounts[policy, job_class, knob]) if (policy, job_class, knob) in amounts else total
        for total in before.totals
        for policy, job_class, _, knob in [total.key]
    )
    return evolve(before, totals=tuple(totals))


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
