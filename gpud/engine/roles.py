"""What one client must look at another for, on one device. Pure."""

from enum import IntEnum

from gpud.engine.in_force import knobs_for
from gpud.engine.standing import rank_on
from gpud.engine.state import Client, State
from gpud.model.ids import Slot
from gpud.model.knobs import Knobs


class Role(IntEnum):
    """In the order in which they get a place in the table."""

    ABOVE = 0
    """Ranked above: holds it."""
    OWN = 1
    """Another process of its tenant: uses the same levels, and its memory counts below the same limit."""
    TURNS = 2
    """Takes turns with it."""
    OTHER = 3
    """While it is active, no cost is measured well, and soft limits hold."""


def role_of(state: State, client: Client, other: Client, slot: Slot, knobs: Knobs) -> Role | None:
    """`knobs`: of the client. None: it is of no concern. One that has yet to come back after a restart is of concern
    only to those that have its page already."""
    if other is client or slot not in other.slots() or not (other.live or other.id in client.peers):
        return None
    if other.job != client.job and state.tenants[other.job].paused is not None:
        return None  # whatever of it still runs, it wants nothing
    if knobs.yields and rank_on(state, other, slot) < rank_on(state, client, slot):
        return Role.ABOVE
    if other.job == client.job and (knobs.measured or knobs.memory_limit is not None):
        return Role.OWN
    if not knobs.measured:
        return None
    same = knobs.pool is not None and knobs_for(state, state.tenants[other.job], slot).pool == knobs.pool
    return Role.TURNS if same else Role.OTHER
