"""What is due by the clock, and when to look next. Pure. Without clients nothing ever is."""

from attrs import evolve

from gpud.engine.state import Client, State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.events import Tick
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import DeviceWords
from gpud.model.units import MILLISECOND, SECOND

LEASE_REFRESH_NS = 1 * SECOND
LOOK_NS = 5 * MILLISECOND
"""How often presence beyond the peer tables is looked at while somebody there is active."""


def next_wakeup(state: State) -> int | None:
    """When the next Tick is due, monotonic nanoseconds; None: only an event can change anything."""
    due = [state.lease_due_ns, state.look_due_ns, state.adopt_until_ns]
    due += [client.slots_due_ns for client in state.clients.values()]
    return min((at for at in due if at is not None), default=None)


def wanted(state: State) -> set[tuple[ClientId, Slot]]:
    """The presence that the next Tick must bring."""
    if state.look_due_ns is None:
        return set()
    return {(p, slot) for client in state.clients.values() for slot, peers in client.beyond.items() for p in peers}


def expired(state: State, now: int) -> list[Client]:
    """Clients of an earlier daemon that have not come back in time."""
    if state.adopt_until_ns is None or now < state.adopt_until_ns:
        return []
    state.adopt_until_ns = None
    return [client for client in state.clients.values() if client.session is None]


def look_now(state: State, active: Client, slot: Slot, now: int) -> None:
    """Somebody went active, or came back and may be: if anybody has it beyond the table, look at once."""
    if any(active.id in client.beyond.get(slot, ()) for client in state.clients.values()):
        state.look_due_ns = now


def tick(state: State, event: Tick, now: int) -> list[Effect]:
    """Lease, overdue answers, and the word for peers beyond the tables."""
    effects: list[Effect] = []
    if state.lease_due_ns is not None and now >= state.lease_due_ns:
        state.lease_due_ns = now + LEASE_REFRESH_NS
        effects.append(do.RefreshLease(until_ns=now + state.lease_ns))
    for client in state.clients.values():
        if client.slots_due_ns is not None and now >= client.slots_due_ns:
            effects += _overdue(state, client)
    if state.look_due_ns is not None and now >= state.look_due_ns:
        effects += _look(state, event, now)
    return effects


def _overdue(state: State, client: Client) -> list[Effect]:
    late = [state.clients[reader] for reader in client.awaited if reader in state.clients]
    for reader in late:
        reader.slow = True
    client.awaited, client.slots_due_ns = {}, None
    names = ", ".join(f"{reader.id} (pid {reader.who.pid})" for reader in late)
    return [
        do.SendSlots(client=client.id, slots=client.devices),
        do.Record(level="warning", text=f"client {client.id} goes on though these have not mapped its page: {names}"),
    ]


def _look(state: State, event: Tick, now: int) -> list[Effect]:
    effects: list[Effect] = []
    again = False
    for client in state.clients.values():
        for slot, words in list(client.words.items()):
            beyond = client.beyond.get(slot, frozenset())
            active = any(_is_active(event, peer, slot, now, words.resume_after_ns) for peer in beyond)
            again = again or active
            if active != words.others_active:
                client.words[slot] = _with_others(words, active)
                if client.session is not None:
                    effects.append(do.PublishOthers(client=client.id, slot=slot, active=active))
    state.look_due_ns = now + LOOK_NS if again else None
    return effects


def _is_active(event: Tick, peer: ClientId, slot: Slot, now: int, resume_after_ns: int) -> bool:
    presence = event.presence.get((peer, slot))
    return presence is not None and (presence.active or now - presence.idle_since_ns < resume_after_ns)


def _with_others(words: DeviceWords, active: bool) -> DeviceWords:
    return evolve(words, others_active=active)
