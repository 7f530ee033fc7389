"""Knobs → the words of a control page. Pure. The bits are those of gpud_page.h; a test compares them."""

from gpud.engine import lock_words, memory_words
from gpud.engine.caps import RATE_WINDOW_NS
from gpud.engine.in_force import knobs_for
from gpud.engine.roles import Role, role_of
from gpud.engine.standing import rank_on
from gpud.engine.state import Client, State, Tenant
from gpud.model.ids import Slot
from gpud.model.knobs import PEER_OWN, PEER_SHARE, DeviceWords, Knobs, PeerWords

GATE_PAUSED = 1
GATE_PREEMPT = 2
GATE_WINDOW = 4
GATE_BUDGET = 8
GATE_GRANT = 16
GATE_RATE = 32
GATE_CHARGE = 64
GATE_SHARE = 128
GATE_COPY = 256

CHARGES = GATE_CHARGE | GATE_BUDGET | GATE_SHARE
"""With any of these, a hook charges launches with the GPU time that they take."""

REASONS = {
    GATE_PAUSED: "paused",
    GATE_PREEMPT: "preempt",
    GATE_WINDOW: "window",
    GATE_BUDGET: "budget",
    GATE_GRANT: "lock",
    GATE_RATE: "rate",
    GATE_SHARE: "share",
    GATE_COPY: "copy",
}
"""Gate bit → the word that screens show."""


def device_words(state: State, client: Client, slot: Slot) -> DeviceWords:
    """What the client's control page must say of one of its devices now."""
    tenant = state.tenants[client.job]
    rank = rank_on(state, client, slot)
    if state.stopped:
        return DeviceWords(rank=rank, tenant=tenant.id)
    memory = memory_words.words(state, client, slot)
    lock = lock_words.words(state, client, slot)
    knobs = knobs_for(state, tenant, slot)
    peers = _peers(state, client, slot, knobs)
    turns = takes_turns(state, tenant, slot)
    window_ns = min((ns for ns in (knobs.max_inflight_ns, knobs.turn_window_ns if turns else None) if ns), default=0)
    # Without anybody above there is nothing to look at, and the launch path stays short.
    above = knobs.yields and (any(peer.rank < rank for peer in peers) or bool(client.beyond.get(slot)))
    bits = {
        GATE_PAUSED: knobs.pause,
        GATE_PREEMPT: above,
        GATE_WINDOW: knobs.max_inflight is not None or window_ns > 0,
        GATE_BUDGET: knobs.capped,
        GATE_GRANT: lock.gated,
        GATE_RATE: knobs.rated,
        GATE_CHARGE: knobs.charged or (above and knobs.pass_ns > 0),
        GATE_SHARE: turns,
        GATE_COPY: knobs.copies,
    }
    return DeviceWords(
        gate=sum(bit for bit, is_set in bits.items() if is_set),
        rank=rank,
        peers=peers,
        tenant=tenant.id,
        max_inflight=knobs.max_inflight or 0,
        max_inflight_ns=window_ns,
        pass_ns=knobs.pass_ns,
        resume_after_ns=knobs.resume_after_ns,
        max_pause_ns=knobs.max_pause_ns,
        burst_ns=RATE_WINDOW_NS if knobs.rated or knobs.copies else 0,
        memory_limit=memory.limit,
        memory_flags=memory.flags,
        others_reserved=memory.others_reserved,
        overhead_bytes=memory.overhead,
        grant_epoch=lock.epoch,
        grant_until_ns=lock.until_ns,
        lock_flags=lock.flags,
        lock_place=lock.place,
    )


def takes_turns(state: State, tenant: Tenant, slot: Slot) -> bool:
    """Is there another tenant on the device to take turns with?"""
    pool = knobs_for(state, tenant, slot).pool
    return pool is not None and any(
        other.job != tenant.id and knobs_for(state, state.tenants[other.job], slot).pool == pool
        for other in state.clients_on(slot)
    )


def _peers(state: State, client: Client, slot: Slot, knobs: Knobs) -> tuple[PeerWords, ...]:
    """Those of its table that it must look at on this device, tenant by tenant."""
    rows = []
    for entry in client.peers.values():
        peer = state.clients[entry.client]
        role = role_of(state, client, peer, slot, knobs)
        if role is None:
            continue
        rows.append(
            PeerWords(
                client=entry.client,
                rank=rank_on(state, peer, slot),
                generation=entry.generation,
                present=entry.present,
                tenant=peer.job,
                flags=PEER_OWN if peer.job == client.job else PEER_SHARE if role is Role.TURNS else 0,
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.tenant, row.present)))
