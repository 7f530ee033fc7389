"""`gpud evict JOB`: a job leaves its devices now. Its turns end, what of its memory can leave goes to the host. Pure.

It comes in again by itself, as soon as its memory is gone and its turn is next: who shall stay away is paused.
"""

from attrs import frozen

from gpud.engine import lock, rulings
from gpud.engine.memory_room import can_be_asked, room, row
from gpud.engine.memory_words import clients_of
from gpud.engine.standing import arbiter_on
from gpud.engine.state import State, Tenant
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.events import EvictAsked
from gpud.model.ids import Slot
from gpud.policies.quantities import show_value
from gpud.policies.types import Type


@frozen(kw_only=True)
class Found:
    """What of a job can leave its devices."""

    tenant: Tenant
    turns: tuple[Slot, ...]
    """Where its turn ends."""
    leaves: tuple[Slot, ...]
    """Where memory leaves."""
    text: str
    """A sentence of both, and of what stays."""


@frozen
class _Here:
    """Of one device."""

    turn: bool
    leaves: bool
    text: str
    """A clause."""


def judge(state: State, event: EvictAsked) -> Found:
    """Raises Refused with the reasons, and what would help, when nothing can leave."""
    tenant = rulings.find(state, event.job)
    slots = sorted(state.slots_of(tenant))
    if not slots:
        raise Refused(f"job {tenant.id} is on no device: there is nothing that it could leave")
    here = {slot: _look(state, tenant, slot) for slot in slots}
    text = "; ".join(f"device {slot}: {one.text}" for slot, one in here.items())
    if not any(one.turn or one.leaves for one in here.values()):
        number = tenant.id
        raise Refused(
            f"job {number} keeps what it has. {text}. To keep it from working: gpud pause {number}; to bound it: "
            f"gpud set {number} compute=…; to end it: gpud kill {number}"
        )
    return Found(
        tenant=tenant,
        turns=tuple(slot for slot, one in here.items() if one.turn),
        leaves=tuple(slot for slot, one in here.items() if one.leaves),
        text=text,
    )


def evict(state: State, event: EvictAsked, now: int) -> list[Effect]:
    """Asks for its turns back. Its memory follows once nothing of it works there (memory_swap.py)."""
    try:
        found = judge(state, event)
    except Refused as refused:
        return [do.Record(level="warning", text=f"job {event.job} is not evicted: {refused}", job=None)]
    tenant = found.tenant
    effects: list[Effect] = []
    for slot in found.turns:
        effects += lock.end_turn(state, slot, now)
    tenant.leaves |= set(found.leaves)
    text = f"job {tenant.id} ({tenant.name}) is evicted by {event.by.name}; {found.text}"
    record = do.Record(level="info", text=text, kind="revoke", job=tenant.id, by=event.by.name)
    return [do.SaveState(), *effects, record]


def _look(state: State, tenant: Tenant, slot: Slot) -> _Here:
    line = state.locks.lines.get(slot)
    turn = line.turn if line is not None else None
    has = turn is not None and turn.job == tenant.id
    device = state.moves.devices.get(slot)
    if device is None:
        said = [f"its turn ends ({_by(state, slot)})"] if has else []
        return _Here(has, False, ", ".join([*said, _why_not(state, slot)]))
    clients = [client for client in clients_of(state, tenant, slot) if row(state, client.id, slot).resident_bytes]
    resident = sum(row(state, client.id, slot).resident_bytes for client in clients)
    stays = sum(row(state, client.id, slot).pinned_bytes for client in clients_of(state, tenant, slot))
    can = sum(min(row(state, c.id, slot).resident_bytes, room(state, c.id)) for c in clients if can_be_asked(state, c))
    can = min(resident, int(min(can + max(state.moves.host.left, 0), 2**63)))
    texts = ["its turn ends"] if has else []
    silent = [client for client in clients if not can_be_asked(state, client)]
    if resident and len(silent) == len(clients):
        texts.append("its processes cannot be asked for their memory now")
    elif resident and not can:
        texts.append(
            f"the host tier has no room for its {_bytes(resident)}: raise `host(max = …)` of {_by(state, slot)}"
        )
    elif resident:
        texts.append(f"{_bytes(can)} of its {_bytes(resident)} leave")
    elif not has:
        texts.append("it has no turn and no memory that could leave")
    texts += [f"{_bytes(stays)} stay: they cannot leave a device"] if stays else []
    return _Here(has, bool(resident and can and len(silent) < len(clients)), ", ".join(texts))


def _why_not(state: State, slot: Slot) -> str:
    applied = arbiter_on(state, slot)
    mode = applied.arbiter.mode if applied is not None and applied.arbiter is not None else "open"
    if mode == "exclusive":
        return f"memory stays: {_by(state, slot)} has no `swap` block"
    where = "a device only beside `arbitrate exclusive` with a `swap` block"
    return f"memory stays: it leaves {where}, and there is `arbitrate {mode}` ({_by(state, slot)})"


def _by(state: State, slot: Slot) -> str:
    applied = arbiter_on(state, slot)
    return f"the policy {applied.name}" if applied is not None else "no policy"


def _bytes(count: int) -> str:
    return str(show_value(count, Type.BYTES))
