"""Pinning a job to a class, whatever its labels say: `gpud set JOB class=`. Pure."""

from gpud.engine import ticking
from gpud.engine.classify import check_class, place, place_everywhere
from gpud.engine.peers import update_client
from gpud.engine.standing import arbiters_of, class_text, forget
from gpud.engine.state import State, Tenant
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.events import PinAsked


def judge(state: State, job: int, job_class: str | None, by_operator: bool) -> Tenant:
    """The job to be pinned. Raises Refused: no such job, no such class, upward and not an operator."""
    tenant = next((tenant for tenant in state.tenants.values() if tenant.id == job), None)
    if tenant is None:
        raise Refused(f"there is no job {job}")
    if job_class is None:
        target = None
    else:
        check_class(arbiters_of(state, tenant), job_class)
        target = job_class
    if not by_operator:
        _check_not_upward(state, tenant, target)
    return tenant


def pin(state: State, event: PinAsked, now: int) -> list[Effect]:
    """Its class, rank and limits change at once; it keeps what it has."""
    try:
        tenant = judge(state, event.job, event.job_class, event.by_operator)
    except Refused as refused:
        return [do.Record(level="warning", text=f"job {event.job} is not pinned: {refused}")]
    before = class_text(state, tenant)
    tenant.pin = event.job_class
    effects = sort_anew(state, tenant, now)
    how = f"pinned to {event.job_class}" if event.job_class else "sorted by its labels again"
    text = f"job {tenant.id} is {how}: {before} → {class_text(state, tenant)}"
    return [*effects, do.SaveState(), do.Record(level="info", text=text)]


def sort_anew(state: State, tenant: Tenant, now: int) -> list[Effect]:
    """Its pin or what is known of it has changed: its place in every policy, and what all pages say of it."""
    tenant.placed = place_everywhere(state.board, tenant.facts, tenant.pin)
    forget(tenant)
    slots = state.slots_of(tenant)
    concerned = [client for client in state.clients.values() if client.slots() & slots]
    effects = [effect for client in concerned for effect in update_client(state, client)]
    for slot in sorted(slots):
        ticking.hurry(state, slot, now)
    return effects


def _check_not_upward(state: State, tenant: Tenant, target: str | None) -> None:
    """Nobody but an operator may rank a job higher than its labels do, nor choose freely where nothing ranks."""
    for applied in state.board.arbiters:
        assert applied.arbiter is not None
        ranks = applied.arbiter.ranks
        natural = place(applied, tenant.facts, None).job_class
        wanted = place(applied, tenant.facts, target).job_class
        if wanted == natural:
            continue
        own = ranks.get(natural, applied.arbiter.lowest) if natural is not None else applied.arbiter.lowest
        if not ranks or wanted is None or ranks.get(wanted, 0) < own:
            raise Refused(
                f"only an operator may move job {tenant.id} from {natural or 'no class'} up to {wanted or 'no class'} "
                f"of the policy {applied.name}; ask one, or start it with labels that say so"
            )
