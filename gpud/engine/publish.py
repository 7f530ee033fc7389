"""Knobs → the words of a control page. Pure. The bits are those of gpud_page.h; a test compares them."""

from gpud.engine.in_force import knobs_of
from gpud.engine.standing import standing
from gpud.engine.state import Client, State
from gpud.model.ids import Slot
from gpud.model.knobs import DeviceWords, PeerWords

GATE_PAUSED = 1
GATE_PREEMPT = 2
GATE_WINDOW = 4
GATE_BUDGET = 8
GATE_GRANT = 16
GATE_RATE = 32
GATE_SAMPLE = 64

REASONS = {
    GATE_PAUSED: "paused",
    GATE_PREEMPT: "preempt",
    GATE_WINDOW: "window",
    GATE_BUDGET: "budget",
    GATE_GRANT: "grant",
    GATE_RATE: "rate",
    GATE_SAMPLE: "sample",
}
"""Gate bit → the word that screens show."""


def device_words(state: State, client: Client, slot: Slot) -> DeviceWords:
    """What the client's control page must say of one of its devices now."""
    own = standing(state, state.tenants[client.job], slot)
    if state.stopped:
        return DeviceWords(rank=own.rank, unit=own.unit)
    knobs = knobs_of(state, client, slot)
    peers = _peers(state, client, slot, own.rank) if knobs.yields else ()
    before = client.words.get(slot)
    beyond = bool(client.beyond.get(slot))
    gate = GATE_PAUSED if knobs.pause else 0
    # Without anybody above there is nothing to look at, and the launch path stays short.
    gate |= GATE_PREEMPT if knobs.yields and (peers or beyond) else 0
    gate |= GATE_WINDOW if knobs.max_inflight else 0
    return DeviceWords(
        gate=gate,
        rank=own.rank,
        unit=own.unit,
        peers=peers,
        others_active=beyond and before is not None and before.others_active,
        max_inflight=knobs.max_inflight or 0,
        pass_launches=knobs.pass_launches,
        resume_after_ns=knobs.resume_after_ns,
        max_pause_ns=knobs.max_pause_ns,
    )


def _peers(state: State, client: Client, slot: Slot, rank: int) -> tuple[PeerWords, ...]:
    """Of its table, those ranked above it on this device."""
    rows = []
    for entry in sorted(client.peers.values(), key=lambda entry: entry.present):
        peer = state.clients[entry.client]
        if slot not in peer.slots():
            continue
        its = standing(state, state.tenants[peer.job], slot)
        if its.rank < rank:
            rows.append(
                PeerWords(
                    client=entry.client,
                    rank=its.rank,
                    unit=its.unit,
                    generation=entry.generation,
                    present=entry.present,
                )
            )
    return tuple(rows)
