"""What a control page says of the memory of a job: its limit, and what counts below it beside what the hooks see.
Pure."""

from attrs import frozen

from gpud.engine import hookless_memory
from gpud.engine.in_force import knobs_for
from gpud.engine.state import Client, State, Tenant
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import MEMORY_SWAP, MEMORY_WAIT, UNLIMITED

NOTHING = Counters()


@frozen(kw_only=True)
class MemoryWords:
    """As in DeviceWords."""

    limit: int = UNLIMITED
    flags: int = 0
    others_reserved: int = 0
    overhead: int = 0


def words(state: State, client: Client, slot: Slot) -> MemoryWords:
    """Of a client on one of its devices."""
    tenant = state.tenants[client.job]
    knobs = knobs_for(state, tenant, slot)
    flags = MEMORY_WAIT if knobs.memory_wait_ns else 0
    limit = knobs.memory_limit
    if slot in state.moves.devices:
        flags |= MEMORY_SWAP | MEMORY_WAIT
        limit = limit_on(state, tenant, slot)
    if limit is None:
        return MemoryWords(flags=flags)
    return MemoryWords(
        limit=limit,
        flags=flags,
        # A hook may write nonsense into its page: the sum still fits into this one.
        others_reserved=min(sum(reserved(state, other, slot) for other in beyond(state, client, slot)), UNLIMITED),
        overhead=overhead(state, tenant, slot),
    )


def most(state: State, tenant: Tenant, slot: Slot) -> int | None:
    """What a job may have on a device where memory is swapped, all of its turn: the device, less what others have there
    that never leaves. None: not known."""
    device = state.moves.devices.get(slot)
    total = state.devices[slot].total_bytes
    if device is None or not total:
        return None
    pins = sum(
        state.held.get((client.id, slot), NOTHING).pinned_bytes
        for client in state.clients_on(slot)
        if client.job != tenant.id and not hookless_memory.just_left(state, client, slot)
    )
    beside = max((device.told or 0) - overhead(state, tenant, slot), 0)  # its own counts below its limit
    return max(total - device.keep - beside - pins, 0)


def limit_on(state: State, tenant: Tenant, slot: Slot) -> int | None:
    """What a job may have: by its limit, and where memory is swapped by the device. None: unlimited."""
    found = (knobs_for(state, tenant, slot).memory_limit, most(state, tenant, slot))
    return min((limit for limit in found if limit is not None), default=None)


def clients_of(state: State, tenant: Tenant, slot: Slot) -> list[Client]:
    """The processes of a job on a device, oldest first."""
    return [client for client in state.clients_on(slot) if client.job == tenant.id]


def beyond(state: State, client: Client, slot: Slot) -> list[ClientId]:
    """Processes of its own tenant there whose pages it does not look at itself."""
    tenant = state.tenants[client.job]
    return [
        other.id for other in clients_of(state, tenant, slot) if other is not client and other.id not in client.peers
    ]


def reserved(state: State, client: ClientId, slot: Slot) -> int:
    """As read last."""
    return state.held.get((client, slot), NOTHING).reserved_bytes


def reserved_of(state: State, tenant: Tenant, slot: Slot) -> int:
    """All its processes together."""
    return sum(reserved(state, client.id, slot) for client in clients_of(state, tenant, slot))


def on_device(counters: Counters) -> int:
    """What of a process is known to be on the device, or may be: reserved, or kept ready for its next allocation."""
    reserved = counters.reserved_bytes - counters.host_bytes - counters.lazy_bytes
    return max(reserved, counters.resident_bytes + counters.pinned_bytes)


def overhead(state: State, tenant: Tenant, slot: Slot) -> int:
    """What the driver says its processes hold beyond what they have reserved; 0 where it does not say."""
    return sum(state.overhead.get((client.id, slot)) or 0 for client in clients_of(state, tenant, slot))


def overhead_known(state: State, tenant: Tenant, slot: Slot) -> bool:
    """Has the driver told of the memory of each of its processes?"""
    return all(state.overhead.get((client.id, slot)) is not None for client in clients_of(state, tenant, slot))
