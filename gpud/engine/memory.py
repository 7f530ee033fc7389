"""Device memory of jobs: what is read of it, what it costs beside their allocations, who waits for room. Pure.

The hooks of a job keep its limit among themselves; the daemon tells them what they cannot see, and keeps the line of
allocations that wait (`over_memory = wait`).
"""

from collections.abc import Iterable, Mapping

from gpud.engine import hookless_memory, memory_line, memory_swap
from gpud.engine.in_force import knobs_of
from gpud.engine.memory_words import beyond, on_device
from gpud.engine.peers import publish_client
from gpud.engine.state import Client, State
from gpud.model.counters import Counters
from gpud.model.effects import Effect, SaveState
from gpud.model.events import (
    AllocAsked,
    DriverTold,
    Event,
    LockAsked,
    LockBack,
    LockIsIn,
    PeersMapped,
    PluginSample,
    SlotsAsked,
    SlotsFailed,
    Swapped,
    Tick,
    WentActive,
    WentIdle,
)
from gpud.model.ids import ClientId, Slot
from gpud.model.units import MILLISECOND

WAITING_NS = 10 * MILLISECOND
"""Between two looks while an allocation waits: nobody tells when another one frees."""
BEYOND_NS = 50 * MILLISECOND
"""Between two looks while a limited job has more processes than its peer tables."""

_SAME_TABLES = (
    *(Tick, WentActive, WentIdle, DriverTold, PluginSample, PeersMapped, AllocAsked, SlotsAsked, SlotsFailed),
    *(Swapped, LockAsked, LockIsIn, LockBack),
)
"""Who looks at whom does not change by these."""

_BRING = (AllocAsked, SlotsAsked, Swapped, LockAsked, LockIsIn, LockBack)
Held = Mapping[tuple[ClientId, Slot], Counters]


def take(state: State, counters: Held, now: int) -> list[Effect]:
    """Notes what was read; tells those whose own tenant holds another amount beyond their table."""
    before = state.held
    rows = hookless_memory.amended(state, counters)
    state.held = {key: found for key, found in rows.items() if _is_on(state, *key)}
    memory_swap.learn(state, now)
    if not state.crowded:
        return []
    changed = {key[0] for key, found in state.held.items() if _reserved(before, key) != found.reserved_bytes}
    jobs = {state.clients[client].job for client in changed}
    readers = [client for client in state.clients.values() if client.job in jobs and client.id in state.crowded]
    return [effect for client in readers for effect in publish_client(state, client)]


def hear(state: State, event: DriverTold, now: int) -> list[Effect]:
    """What the driver told of processes, against what they have reserved. Of three looks the middle one counts, of two
    the smaller: what was allocated or freed between the driver's look and ours is no overhead, nor makes it less."""
    slots = {device.uuid: slot for slot, device in state.devices.items()}
    changed: dict[ClientId, Client] = {}
    for uuid, seen in event.devices.items():
        slot = slots.get(uuid)
        if slot is None:
            continue
        told = {(one.pid, one.started): one.used_bytes for one in seen.processes or ()}
        heard = hookless_memory.hear(state, event, slot, seen.processes)
        if heard and event.after is not None:
            state.held = {
                key: found for key, found in hookless_memory.amended(state, event.after).items() if _is_on(state, *key)
            }
            memory_swap.learn(state, now)
        for client in state.clients_on(slot):
            key = (client.id, slot)
            if client.hookless:
                state.overhead[key] = 0  # nothing is beside what is measured
                continue
            # What it has reserved is not known: of an earlier daemon, and not back yet; or the answer is older.
            if client.session is None or event.asked_ns < event.held_ns:
                continue
            known = seen.processes is not None
            # Who is not in its list has no context there yet.
            used = told.get((client.who.pid, client.who.started), 0) if known else None
            found, before = None, state.overhead.get(key)
            if used is not None:
                after = state.held if event.after is None else event.after
                held = max(on_device(event.held.get(key, Counters())), on_device(after.get(key, Counters())))
                looks = (*state.overhead_looks.get(key, ())[-2:], max(used - held, 0))
                state.overhead_looks[key] = looks
                found = sorted(looks)[(len(looks) - 1) // 2]
            state.overhead[key] = found
            if found != before and slot in state.moves.devices:
                changed |= {c.id: c for c in state.clients_on(slot)}
            elif found != before and knobs_of(state, client, slot).memory_limit is not None:
                changed |= {c.id: c for c in state.clients_on(slot) if c.job == client.job}
    before_told = {slot: device.told for slot, device in state.moves.devices.items()}
    memory_swap.hear(state, event)
    for slot, device in state.moves.devices.items():
        if device.told != before_told[slot]:
            changed |= {client.id: client for client in state.clients_on(slot)}
    effects: list[Effect] = [effect for client in changed.values() for effect in publish_client(state, client)]
    return [SaveState(), *effects] if changed else effects


_Told = AllocAsked | SlotsAsked | SlotsFailed | Swapped


def asked(state: State, event: _Told, now: int) -> list[Effect]:
    """A client asks for memory, or tells of a swap."""
    match event:
        case AllocAsked():
            return memory_line.ask(state, event, now)
        case SlotsAsked():
            return memory_swap.slots_asked(state, event)
        case SlotsFailed():
            return memory_swap.slots_failed(state, event)
        case Swapped():
            return memory_swap.swapped(state, event, now)


def fresh(state: State, event: Event, now: int) -> list[Effect]:
    """Before anything else of an event that brings what everybody holds."""
    memory_swap.sync(state, now)
    counters = getattr(event, "held", None) if isinstance(event, _BRING) else None
    return take(state, counters, now) if counters is not None else []


def forget(state: State, client: Client, slot: Slot) -> None:
    """It is not there any more: what it held is free."""
    key = (client.id, slot)
    state.held = {other: counters for other, counters in state.held.items() if other != key}
    state.overhead.pop(key, None)
    state.overhead_looks.pop(key, None)
    hookless_memory.forget(state, *key)


def settle(state: State, event: Event, now: int) -> list[Effect]:
    """After each event: answers whom it has made room for, and plans the next look."""
    effects = memory_line.move(state, now) if state.asks else []
    if not isinstance(event, _SAME_TABLES):
        state.crowded = _crowded(state, state.clients.values())
        state.limited = any(
            knobs_of(state, client, slot).memory_limit is not None
            for client in state.clients.values()
            for slot in client.slots()
        )
    step = WAITING_NS if state.asks else BEYOND_NS if state.crowded else None
    due = [state.memory_due_ns] if state.memory_due_ns is not None and state.memory_due_ns > now else []
    due += [now + step] if step is not None else []
    ends = memory_line.next_end(state)
    state.memory_due_ns = min([*due, *([max(ends, now)] if ends is not None else [])]) if step is not None else None
    return effects


def _crowded(state: State, clients: Iterable[Client]) -> frozenset[ClientId]:
    return frozenset(
        client.id
        for client in clients
        for slot in client.slots()
        if knobs_of(state, client, slot).memory_limit is not None and beyond(state, client, slot)
    )


def _is_on(state: State, client: ClientId, slot: Slot) -> bool:
    found = state.clients.get(client)
    return found is not None and slot in found.slots()


def _reserved(held: Held, key: tuple[ClientId, Slot]) -> int:
    return held[key].reserved_bytes if key in held else 0
