"""Who must look at whom: the peer table of each client, kept exact. Pure."""

from collections.abc import Container, Iterable

from gpud.engine.in_force import failsafe_of, knobs_of
from gpud.engine.publish import GATE_SHARE, device_words, takes_turns
from gpud.engine.roles import Role, role_of
from gpud.engine.state import Client, State
from gpud.model.effects import Effect, PublishDevice, PublishFailsafe, SendPeers
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import PeerEntry

MAX_PEERS = 16
"""Looked at directly. Who is beyond is summed up in a few words."""

Wanted = dict[Slot, dict[ClientId, Role]]
"""Of each device, whom a client must look at there, and what for."""


def wanted_peers(state: State, client: Client) -> Wanted:
    """Without devices where there is nobody."""
    found: Wanted = {}
    for slot in sorted(client.slots()):
        knobs = knobs_of(state, client, slot)
        if not any(knobs.looks):
            continue
        roles = {other.id: role_of(state, client, other, slot, knobs) for other in state.clients_on(slot)}
        there = {other: role for other, role in roles.items() if role is not None}
        if there:
            found[slot] = there
    return found


def is_above(state: State, client: Client, other: Client) -> bool:
    """Does `other` hold the client on some device?"""
    return any(
        role_of(state, client, other, slot, knobs_of(state, client, slot)) is Role.ABOVE for slot in client.slots()
    )


def update_readers(state: State, client: Client, slots: Iterable[Slot]) -> dict[ClientId, list[Effect]]:
    """Brings all up to date who look at a client, or must now. `slots`: where it is, or was."""
    readers = {reader.id: reader for slot in slots for reader in state.clients_on(slot) if reader is not client}
    return {
        reader.id: update_client(state, reader)
        for reader in sorted(readers.values(), key=lambda reader: reader.order)
        if _concerns(state, reader, client)
    }


def _concerns(state: State, reader: Client, client: Client) -> bool:
    """Whoever has it in the table, has room for it, must prefer it to others there, or takes no turns yet. To the rest
    it is one more of those beyond."""
    if client.id in reader.peers or any(client.id in ids for ids in reader.beyond.values()):
        return True
    if client.id not in state.clients:  # it may have been the last to take turns with
        turning = [slot for slot, words in reader.words.items() if words.gate & GATE_SHARE]
        return any(not takes_turns(state, state.tenants[reader.job], slot) for slot in turning)
    roles = [role_of(state, reader, client, slot, knobs_of(state, reader, slot)) for slot in reader.slots()]
    found = [role for role in roles if role is not None]
    if not found:
        return False
    turns = any(words.gate & GATE_SHARE for words in reader.words.values())
    first = min(found)
    return (
        len(reader.peers) < MAX_PEERS
        or first is Role.ABOVE
        or first < reader.last_role
        or (Role.TURNS in found and not turns)
    )


def update_client(state: State, client: Client) -> list[Effect]:
    """Brings one client's table and words up to date. The page is written before the message: an entry whose page is
    not mapped yet, or no more, does not hold, since its generation is not the mapped one's."""
    on_slots = wanted_peers(state, client)
    roles: dict[ClientId, Role] = {}
    for there in on_slots.values():
        for other, role in there.items():
            roles[other] = min(role, roles.get(other, role))
    # Of those wanted for the same, who is in the table stays in it, and the oldest come first.
    order = {other: (role, other not in client.peers, state.clients[other].order) for other, role in roles.items()}
    chosen = sorted(roles, key=lambda other: order[other])[:MAX_PEERS]
    indices = {client.peers[other].present for other in chosen if other in client.peers}
    free = (index for index in range(MAX_PEERS) if index not in indices)
    table: dict[ClientId, PeerEntry] = {}
    for other in sorted(chosen, key=lambda other: (other not in client.peers, state.clients[other].order)):
        entry = client.peers.get(other)
        generation = state.clients[other].generation
        table[other] = entry or PeerEntry(present=next(free), client=other, generation=generation)
    client.last_role = max((roles[other] for other in chosen), default=Role.ABOVE)
    changed = table != client.peers
    if changed:  # else it stays the same object: who compares need not look inside
        client.peers = table
    client.beyond = _beyond(on_slots, client.peers)
    effects = publish_client(state, client)
    if changed and client.session is not None:
        client.serial += 1
        peers = tuple(sorted(client.peers.values(), key=lambda entry: entry.present))
        effects.append(SendPeers(client=client.id, serial=client.serial, peers=peers))
    return effects


def publish_client(state: State, client: Client, anew: bool = False) -> list[Effect]:
    """Its failsafe, and the words of all its devices that differ from what its page says; all of it when the page is
    new."""
    if anew:
        client.words, client.failsafe = {}, None
        state.anew |= client.slots()
    state.dirty |= client.slots()
    words = {slot: device_words(state, client, slot) for slot in sorted(client.slots())}
    changed = [slot for slot, now in words.items() if client.words.get(slot) != now]
    client.words = words
    failsafe, before = failsafe_of(state, client), client.failsafe
    client.failsafe = failsafe
    if client.session is None:
        return []
    effects: list[Effect] = []
    if failsafe != before:
        effects.append(PublishFailsafe(client=client.id, after_ns=failsafe.after_ns))
    return effects + [PublishDevice(client=client.id, slot=slot, words=words[slot]) for slot in changed]


def _beyond(on_slots: Wanted, table: Container[ClientId]) -> dict[Slot, frozenset[ClientId]]:
    """Those that hold it and are not in the table."""
    found = {
        slot: frozenset(other for other, role in there.items() if role is Role.ABOVE and other not in table)
        for slot, there in on_slots.items()
    }
    return {slot: ids for slot, ids in found.items() if ids}
