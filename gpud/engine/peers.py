"""Who must look at whom: the peer table of each client, kept exact. Pure."""

from collections.abc import Container

from gpud.engine.in_force import failsafe_of, knobs_of
from gpud.engine.publish import device_words
from gpud.engine.standing import rank_on
from gpud.engine.state import Client, State
from gpud.model.effects import Effect, PublishDevice, PublishFailsafe, SendPeers
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import PeerEntry

MAX_PEERS = 16
"""Looked at directly. Who is beyond is summed up in one word."""


Ranked = dict[Slot, dict[int, list[Client]]]
"""Of each device, all its clients by rank, oldest first."""


def by_rank(state: State) -> Ranked:
    """Made once for all clients that one event concerns."""
    found: Ranked = {}
    for client in sorted(state.clients.values(), key=lambda client: client.order):
        for slot in sorted(client.slots()):
            found.setdefault(slot, {}).setdefault(rank_on(state, client, slot), []).append(client)
    return found


def wanted_peers(state: State, client: Client, ranked: Ranked) -> dict[Slot, list[Client]]:
    """Of each device, the clients ranked above this one there, oldest first. One that has yet to come back after a
    restart counts only for those that have its page already."""
    found: dict[Slot, list[Client]] = {}
    for slot in sorted(client.slots()):
        if not knobs_of(state, client, slot).yields:
            continue
        rank = rank_on(state, client, slot)
        above = [
            other
            for theirs, others in ranked.get(slot, {}).items()
            if theirs < rank
            for other in others
            if other.live or other.id in client.peers
        ]
        if above:
            found[slot] = sorted(above, key=lambda other: other.order)
    return found


def ranks_of(state: State, client: Client) -> dict[Slot, int]:
    """Of a client, by device."""
    return {slot: rank_on(state, client, slot) for slot in client.slots()}


def update_readers(state: State, ranked: Ranked, ranks: dict[Slot, int]) -> dict[ClientId, list[Effect]]:
    """Brings all up to date who must look at a client of these ranks (on each device, the highest that it has or
    had)."""
    readers = {
        reader.id: reader
        for slot, rank in ranks.items()
        for below, clients in ranked.get(slot, {}).items()
        if below > rank
        for reader in clients
    }
    oldest_first = sorted(readers.values(), key=lambda reader: reader.order)
    return {reader.id: update_client(state, reader, ranked) for reader in oldest_first}


def update_client(state: State, client: Client, ranked: Ranked) -> list[Effect]:
    """Brings one client's table and words up to date. The page is written before the message: an entry whose page is
    not mapped yet, or no more, does not hold, since its generation is not the mapped one's."""
    on_slots = wanted_peers(state, client, ranked)
    wanted = sorted({c.id: c for above in on_slots.values() for c in above}.values(), key=lambda other: other.order)
    kept = [other for other in wanted if other.id in client.peers]
    fresh = [other for other in wanted if other.id not in client.peers]
    chosen = (kept + fresh)[:MAX_PEERS]
    indices = {client.peers[other.id].present for other in kept}
    free = (index for index in range(MAX_PEERS) if index not in indices)
    table: dict[ClientId, PeerEntry] = {}
    for other in chosen:
        entry = client.peers.get(other.id)
        table[other.id] = entry or PeerEntry(present=next(free), client=other.id, generation=other.generation)
    changed = table != client.peers
    client.peers = table
    beyond = _beyond(on_slots, table)
    if beyond and beyond != client.beyond:
        state.look_due_ns = 0  # one of them may be active already, and tells of its next edge only: look at once
    client.beyond = beyond
    effects = publish_client(state, client)
    if changed and client.session is not None:
        client.serial += 1
        peers = tuple(sorted(table.values(), key=lambda entry: entry.present))
        effects.append(SendPeers(client=client.id, serial=client.serial, peers=peers))
    return effects


def publish_client(state: State, client: Client, anew: bool = False) -> list[Effect]:
    """Its failsafe, and the words of all its devices that differ from what its page says; all of it when the page is
    new."""
    if anew:
        client.words, client.failsafe = {}, None
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


def _beyond(on_slots: dict[Slot, list[Client]], table: Container[ClientId]) -> dict[Slot, frozenset[ClientId]]:
    found = {slot: frozenset(c.id for c in above if c.id not in table) for slot, above in on_slots.items()}
    return {slot: ids for slot, ids in found.items() if ids}
