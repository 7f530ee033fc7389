"""The line of allocations that wait for room: `over_memory = wait`. Pure.

One line for each job and device, the first that asked first. An answer says only that there seemed to be room: the hook
reserves it as before, and where somebody was quicker it asks again under the same number and keeps its place.
"""

from attrs import define

from gpud.engine.in_force import knobs_for
from gpud.engine.memory_words import clients_of, limit_on, overhead, reserved, reserved_of
from gpud.engine.state import Client, State, Tenant
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.events import AllocAsked
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND

YES, NO_LIMIT, NO_DEVICE, NO_TIME, NO_HOST = range(5)
"""GPUD_MEMORY_NO_* of gpud_wire.h; a test compares them."""
TAKEN_NS = 100 * MILLISECOND
"""So long at most, room that was promised counts as taken although nobody has been seen to take it."""

NOBODY_NS = 3 * SECOND
"""What nobody can give for so long is not had. Who could not let go just now is asked once more before (AGAIN_NS)."""
MOST_ASKS = 256
"""Of one client at a time; a hook has fewer."""
SWAPS_NS = 30 * SECOND
"""So long at most, memory of others may take to leave for an allocation of who has the device."""


@define(kw_only=True)
class Asked:
    """One allocation that waits."""

    client: ClientId
    job: JobId
    slot: Slot
    request: int
    bytes: int
    since_ns: int
    until_ns: int | None
    """Then it fails; None: never."""
    device_held: int
    """Reserved on the whole device when it asked last."""
    asked_ns: int
    """When that was."""
    room_then: float
    """Below its limit, at that time."""
    own_reserved: int = 0
    """By its own process when it was answered."""
    answered_ns: int | None = None
    """It was told that there is room; None: it waits."""


def ask(state: State, event: AllocAsked, now: int) -> list[Effect]:
    """An allocation does not fit. With 0 bytes: it waits no more. The line moves after the event."""
    client = state.clients.get(event.client)
    earlier = next((one for one in state.asks if (one.client, one.request) == (event.client, event.request)), None)
    if client is None or event.bytes == 0 or event.slot not in client.slots():
        if earlier is not None:
            state.asks.remove(earlier)
        return [] if client is None or event.bytes == 0 else [_reply(client, event.slot, event.request, NO_DEVICE)]
    tenant = state.tenants[client.job]
    wait_ns = min(_waits_ns(state, tenant, event.slot, event.bytes), event.time_ns or FOREVER_NS)
    never = _never(state, tenant, event.slot, event.bytes)
    if never is not None or not wait_ns:
        if earlier is not None:
            state.asks.remove(earlier)
        over = NO_LIMIT if _over(state, tenant, event) else NO_DEVICE
        return [_reply(client, event.slot, event.request, over if never is None else never)]
    if earlier is None and sum(one.client == client.id for one in state.asks) >= MOST_ASKS:
        return [_reply(client, event.slot, event.request, NO_DEVICE)]
    held, room = _device_held(state, event.slot), _room(state, tenant, event.slot)
    if earlier is not None:
        device = state.moves.devices.get(event.slot)
        if device is not None and earlier.answered_ns is not None and not _over(state, tenant, event):
            device.ledger.learn_short(event.bytes)  # it has looked where there seemed to be room
        earlier.bytes, earlier.answered_ns, earlier.device_held, earlier.asked_ns = event.bytes, None, held, now
        earlier.room_then = _room(state, tenant, event.slot)
        return []
    state.asks.append(
        Asked(
            client=client.id,
            job=client.job,
            slot=event.slot,
            request=event.request,
            bytes=event.bytes,
            since_ns=now,
            until_ns=None if wait_ns >= FOREVER_NS else now + wait_ns,
            device_held=held,
            asked_ns=now,
            room_then=room,
        )
    )
    return []


def move(state: State, now: int) -> list[Effect]:
    """Answers those for whom there is room now, those who have waited for as long as they may, and those for whom there
    will never be any."""
    effects: list[Effect] = []
    blocked: set[tuple[JobId, Slot]] = set()
    for one in list(state.asks):
        client = state.clients.get(one.client)
        if client is None or one.slot not in client.slots():
            state.asks.remove(one)
            continue
        if one.answered_ns is not None:
            if reserved(state, one.client, one.slot) > one.own_reserved or now - one.answered_ns >= TAKEN_NS:
                state.asks.remove(one)
            continue
        tenant = state.tenants[client.job]
        code = _never(state, tenant, one.slot, one.bytes)
        if code is None and not _waits_ns(state, tenant, one.slot, one.bytes):  # the policy has changed
            # Below its new limit it tries once more: if the device is full, it is told so when it asks again.
            code = NO_LIMIT if _room(state, tenant, one.slot) < one.bytes else YES
        if code is None and (one.job, one.slot) not in blocked and _fits(state, tenant, one):
            code = YES
        if code is None and one.until_ns is not None and now >= one.until_ns:
            code = NO_TIME
        if code is None and _nobody_gives(state, tenant, one, now):
            code = NO_DEVICE
        if code is None:
            blocked.add((one.job, one.slot))
            continue
        effects.append(_reply(client, one.slot, one.request, code))
        if code == YES:
            one.answered_ns, one.own_reserved = now, reserved(state, one.client, one.slot)
        else:
            state.asks.remove(one)
    return effects


def next_end(state: State) -> int | None:
    """When somebody has waited for as long as it may."""
    return min(
        (one.until_ns for one in state.asks if one.until_ns is not None and one.answered_ns is None), default=None
    )


def waiting(state: State, tenant: Tenant) -> list[Asked]:
    """Of one job, the first in line first."""
    return [one for one in state.asks if one.job == tenant.id and one.answered_ns is None]


def is_over(state: State, tenant: Tenant, one: Asked) -> bool:
    """Is it below the limit of its job that room is missing? Else on the device."""
    return _room(state, tenant, one.slot) < one.bytes


def _fits(state: State, tenant: Tenant, one: Asked) -> bool:
    """Below the limit, and on the device. Of the device the daemon knows only what the driver has told since it asked,
    and what others have given back since."""
    if _room(state, tenant, one.slot) < one.bytes:
        return False
    if any(client.session is None for client in clients_of(state, tenant, one.slot)):
        return False  # of an earlier daemon, and not back yet: what it has is not known
    device = state.moves.devices.get(one.slot)
    if device is not None:  # what others have there leaves for it (memory_swap.py)
        return device.ledger.pool - device.keep >= one.bytes
    if not _was_device(state, tenant, one):
        return True
    if _device_held(state, one.slot) + one.bytes <= one.device_held:
        return True
    seen = state.seen.get(state.devices[one.slot].uuid)
    return seen is not None and seen.when_ns > one.asked_ns and seen.total_bytes - seen.used_bytes >= one.bytes


def _nobody_gives(state: State, tenant: Tenant, one: Asked, now: int) -> bool:
    """Where memory is swapped: the device is full of what cannot leave."""
    device = state.moves.devices.get(one.slot)
    if device is None or not device.short or _room(state, tenant, one.slot) < one.bytes:
        return False
    return now - device.short_ns >= NOBODY_NS


def _over(state: State, tenant: Tenant, event: AllocAsked) -> bool:
    return _room(state, tenant, event.slot) < event.bytes


def _waits_ns(state: State, tenant: Tenant, slot: Slot, count: int) -> int:
    """How long an allocation may wait: as the policy says, and for others' memory to leave as long as that may take."""
    said = knobs_for(state, tenant, slot).memory_wait_ns
    swaps = slot in state.moves.devices and _room(state, tenant, slot) >= count
    return max(said, SWAPS_NS) if swaps or _unsure(state, tenant, slot, count) else said


def _unsure(state: State, tenant: Tenant, slot: Slot, count: int) -> bool:
    """It does not fit beside what the driver has measured; but that may be of a program that has just ended or begun.
    What the policy itself says is sure."""
    device, total = state.moves.devices.get(slot), state.devices[slot].total_bytes
    if device is None or device.is_sure or not total:
        return False
    limit, most = knobs_for(state, tenant, slot).memory_limit, total - device.keep
    return reserved_of(state, tenant, slot) + count <= (most if limit is None else min(limit, most))


def _was_device(state: State, tenant: Tenant, one: Asked) -> bool:
    """Was there room below its limit already when it asked? Then it is the device that is full."""
    limit = knobs_for(state, tenant, one.slot).memory_limit
    return limit is None or one.room_then >= one.bytes


def _room(state: State, tenant: Tenant, slot: Slot) -> float:
    """Below the limit, less what is promised to others of the job that have not taken it yet."""
    limit = limit_on(state, tenant, slot)
    if limit is None:
        return float("inf")
    promised = sum(
        one.bytes for one in state.asks if (one.job, one.slot) == (tenant.id, slot) and one.answered_ns is not None
    )
    return limit - reserved_of(state, tenant, slot) - overhead(state, tenant, slot) - promised


def _never(state: State, tenant: Tenant, slot: Slot, count: int) -> int | None:
    """Why so much can never be had, however long one waits; None: it can."""
    limit = limit_on(state, tenant, slot)
    over = limit is not None and count + overhead(state, tenant, slot) > limit
    if over and not _unsure(state, tenant, slot, count):
        return NO_LIMIT
    total = state.devices[slot].total_bytes
    return NO_DEVICE if total and count > total else None


def _device_held(state: State, slot: Slot) -> int:
    return sum(reserved(state, client.id, slot) for client in state.clients_on(slot))


def _reply(client: Client, slot: Slot, request: int, code: int) -> Effect:
    return do.SendAllocReply(client=client.id, slot=slot, request=request, code=code)
