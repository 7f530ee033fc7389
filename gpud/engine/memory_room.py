"""Where memory is swapped: what a job lacks on a device, whether it can be had, and how much a job may have at all.
Pure."""

from collections.abc import Collection

from gpud.engine.memory_words import NOTHING, clients_of
from gpud.engine.state import Client, State, Tenant
from gpud.memory.ledger import Held
from gpud.memory.moves import Device
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import UNLIMITED
from gpud.policies.quantities import show_value
from gpud.policies.types import Type


def row(state: State, client: ClientId, slot: Slot) -> Counters:
    """As read last."""
    return state.held.get((client, slot), NOTHING)


def held(counters: Counters, now: int, *, whole: bool) -> Held:
    """As the ledger wants it. `whole`: it lets go all or nothing, and so counts as used last."""
    used = now if counters.active or whole else max(counters.idle_since_ns, counters.last_finish_ns)
    return Held(
        resident=counters.resident_bytes,
        host=counters.host_bytes,
        lazy=counters.lazy_bytes,
        pinned=counters.pinned_bytes,
        used_ns=used,
    )


def lack(state: State, client: ClientId, slot: Slot) -> int:
    """What must come in before it may launch."""
    found = row(state, client, slot)
    return found.host_bytes + found.lazy_bytes


def keep(state: State, slot: Slot, job: JobId) -> int:
    """What must be free on a device when a job's gate opens there: the driver may need it at the first launch. Less
    where the job has no room for it with nobody else there: that is no reason to keep it out for ever."""
    device = state.moves.devices[slot]
    own, others = 0, 0
    for client in state.clients_on(slot):
        found = row(state, client.id, slot)
        if client.job == job:
            own += found.resident_bytes + found.pinned_bytes + found.host_bytes + found.lazy_bytes
        else:
            others += found.pinned_bytes
    return min(device.keep, max(device.ledger.total - device.ledger.residue - others - own, 0))


def levels(state: State, slot: Slot, job: JobId, clients: Collection[ClientId]) -> dict[ClientId, int]:
    """How much of the memory of each of these, processes of a job that come in, may be on the device now: so much less
    than all as is not free yet beside what is kept. So none of them opens its gate before that is free."""
    left = max(state.moves.devices[slot].ledger.pool - keep(state, slot, job), 0)
    found: dict[ClientId, int] = {}
    for client in sorted(clients):
        more = min(lack(state, client, slot), left)
        found[client] = row(state, client, slot).resident_bytes + more
        left -= more
    return found


def lack_of(state: State, tenant: Tenant, slot: Slot) -> int:
    return sum(lack(state, client.id, slot) for client in clients_of(state, tenant, slot))


def room(state: State, client: ClientId) -> int:
    """Host slots that it has and does not use. One without hook has a place of its own for all of it."""
    if client in state.clients and state.clients[client].hookless:
        return UNLIMITED
    given = state.moves.host.of(client)
    found = state.clients.get(client)
    used = sum(row(state, client, slot).host_bytes for slot in found.slots()) if found is not None else 0
    return max(given - used, 0)


def may_leave(state: State, device: Device, job: JobId, slot: Slot) -> list[ClientId]:
    """Whose memory could leave for a job: that of all others that can be asked."""
    return [
        client.id
        for client in state.clients_on(slot)
        if client.job != job and can_be_asked(state, client) and client.id not in device.cannot
    ]


def can_be_asked(state: State, client: Client) -> bool:
    return client.session is not None and client.id in state.heard


def short(state: State, tenant: Tenant, slot: Slot) -> int:
    """What nobody could give of all that the job lacks, if it were to come in now; 0: it can, or needs nothing."""
    device = state.moves.devices.get(slot)
    want = lack_of(state, tenant, slot) if device is not None else 0
    if device is None or not want:
        return 0
    victims = may_leave(state, device, tenant.id, slot)
    own = {client: room(state, client) for client in victims}
    kept = keep(state, slot, tenant.id)
    return device.ledger.lacks(want, may_leave=victims, keep=kept, room=own, shared=state.moves.host.left)


def why_short(state: State, tenant: Tenant, slot: Slot) -> str:
    """Why a job cannot come in, a clause; "": it can."""
    missing = short(state, tenant, slot)
    if not missing:
        return ""
    device = state.moves.devices[slot]
    text = f"{_bytes(missing)} of its memory find no room on the device"
    reasons = [_reason(state, slot, client.id, device) for client in state.clients_on(slot) if client.job != tenant.id]
    found = [reason for reason in reasons if reason]
    if not found:
        found, used = _stay(state, slot, tenant), device.ledger.residue
        if used:
            found.append(f"{_bytes(used)} of it are in use beside what can leave")
    return f"{text}: {'; '.join(dict.fromkeys(found))}" if found else text


def _stay(state: State, slot: Slot, tenant: Tenant) -> list[str]:
    """Others' memory that cannot leave, most first."""
    stay: dict[JobId, int] = {}
    for client in state.clients_on(slot):
        if client.job != tenant.id and (count := row(state, client.id, slot).pinned_bytes):
            stay[client.job] = stay.get(client.job, 0) + count
    most = sorted(stay.items(), key=lambda one: -one[1])[:3]
    return [f"job {job} has {_bytes(count)} there that cannot leave" for job, count in most]


def _reason(state: State, slot: Slot, client: ClientId, device: Device) -> str:
    job = state.clients[client].job
    if not can_be_asked(state, state.clients[client]):
        return f"job {job} cannot be asked for its memory"
    cannot = device.cannot.get(client)
    if cannot is not None:
        return f"job {job} {cannot.why}"
    resident = row(state, client, slot).resident_bytes
    if resident > room(state, client) + state.moves.host.left:
        return f"the host tier has no room for what job {job} has there"
    return ""


def _bytes(count: int) -> str:
    return str(show_value(count, Type.BYTES))
