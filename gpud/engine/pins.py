"""Pinning a job to a class, whatever its labels say: `gpud set JOB class=`. Pure."""

from gpud.engine import ticking
from gpud.engine.classify import check_class, place, place_everywhere
from gpud.engine.labels import LONGEST
from gpud.engine.peers import update_client
from gpud.engine.standing import arbiters_of, forget
from gpud.engine.state import State, Tenant
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.rulings import By


def judge(state: State, tenant: Tenant, job_class: str | None, by: By) -> None:
    """May the job be pinned so? Raises Refused: no such class, upward and not an operator."""
    if job_class is not None:
        if len(job_class) > LONGEST:
            raise Refused(f"unknown class {job_class[:40]!r}…; no class has such a long name")
        check_class(arbiters_of(state, tenant), job_class)
    if not by.operator:
        _check_not_upward(state, tenant, job_class)


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
    """Nobody but an operator may rank a job higher than its labels do, or than an operator has pinned it, nor choose
    freely where nothing ranks."""
    bound = tenant.pinned_by is not None and tenant.pinned_by.by.operator
    for applied in state.board.arbiters:
        assert applied.arbiter is not None
        ranks, lowest = applied.arbiter.ranks, applied.arbiter.lowest
        least = natural = place(applied, tenant.facts, None).job_class
        current = place(applied, tenant.facts, tenant.pin).job_class if bound else natural
        wanted = place(applied, tenant.facts, target).job_class
        if wanted == natural == current:
            continue
        own = max(ranks.get(one, lowest) if one is not None else lowest for one in (natural, current))
        if not ranks or wanted is None or ranks.get(wanted, 0) < own:
            least = current if bound and current != natural else natural
            raise Refused(
                f"only an operator may move job {tenant.id} from {least or 'no class'} up to {wanted or 'no class'} "
                f"of the policy {applied.name}; ask one, or start it with labels that say so"
            )
