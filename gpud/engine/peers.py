"""Who must look at whom: the peer table of each client, kept exact. Pure."""

from collections.abc import Iterable

from gpud.engine.publish import device_words
from gpud.engine.state import Client, State
from gpud.model.effects import Effect, PublishDevice, SendPeers
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import PeerEntry

MAX_PEERS = 16
"""Looked at directly. Who is beyond is summed up in one word."""


Ranked = dict[int, list[Client]]
"""All clients by rank, oldest first."""


def by_rank(state: State) -> Ranked:
    """Made once for all clients that one event concerns."""
    found: Ranked = {}
    for client in sorted(state.clients.values(), key=lambda client: client.order):
        found.setdefault(state.rank_of(client), []).append(client)
    return found


def wanted_peers(state: State, client: Client, ranked: Ranked) -> list[Client]:
    """Clients ranked above this one that share a device with it, oldest first. One that has yet to come back after a
    restart counts only for those that have its page already."""
    slots = client.slots()
    if not slots or not state.policy.knobs(state.tenants[client.job].job_class).yields:
        return []
    rank = state.rank_of(client)
    found = [
        other
        for above in ranked
        if above < rank
        for other in ranked[above]
        if (other.live or other.id in client.peers) and slots & other.slots()
    ]
    return sorted(found, key=lambda other: other.order)


def update_readers(state: State, ranked: Ranked, rank: int, slots: frozenset[Slot]) -> dict[ClientId, list[Effect]]:
    """Brings all up to date who must look at clients of this rank on these devices."""
    readers = [c for below in ranked if below > rank for c in ranked[below] if slots & c.slots()]
    return {reader.id: update_client(state, reader, ranked) for reader in readers}


def update_client(state: State, client: Client, ranked: Ranked) -> list[Effect]:
    """Brings one client's table and words up to date. The page is written before the message: an entry whose page is
    not mapped yet, or no more, does not hold, since its generation is not the mapped one's."""
    wanted = wanted_peers(state, client, ranked)
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
    beyond = _beyond(client, (other for other in wanted if other.id not in table))
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
    """The words of all its devices that differ from what its page says; all of them when the page is new."""
    if anew:
        client.words = {}
    words = {slot: device_words(state, client, slot) for slot in sorted(client.slots())}
    changed = [slot for slot, now in words.items() if client.words.get(slot) != now]
    client.words = words
    if client.session is None:
        return []
    return [PublishDevice(client=client.id, slot=slot, words=words[slot]) for slot in changed]


def _beyond(client: Client, left: Iterable[Client]) -> dict[Slot, frozenset[ClientId]]:
    found: dict[Slot, set[ClientId]] = {}
    for other in left:
        for slot in client.slots() & other.slots():
            found.setdefault(slot, set()).add(other.id)
    return {slot: frozenset(ids) for slot, ids in found.items()}
