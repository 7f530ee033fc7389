"""Knobs → the words of a control page. Pure. The bits are those of gpud_page.h; a test compares them."""

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
    unit = state.unit_of(client)
    if state.stopped:
        return DeviceWords(rank=unit.rank, unit=unit.id)
    knobs = state.policy.knobs(state.tenants[client.job].job_class)
    peers = tuple(
        PeerWords(
            client=entry.client,
            rank=state.rank_of(state.clients[entry.client]),
            unit=state.unit_of(state.clients[entry.client]).id,
            generation=entry.generation,
            present=entry.present,
        )
        for entry in sorted(client.peers.values(), key=lambda entry: entry.present)
        if slot in state.clients[entry.client].slots()
    )
    before = client.words.get(slot)
    beyond = bool(client.beyond.get(slot))
    gate = GATE_PAUSED if knobs.pause else 0
    # Without anybody above there is nothing to look at, and the launch path stays short.
    gate |= GATE_PREEMPT if knobs.yields and (peers or beyond) else 0
    gate |= GATE_WINDOW if knobs.max_inflight else 0
    return DeviceWords(
        gate=gate,
        rank=unit.rank,
        unit=unit.id,
        peers=peers,
        others_active=beyond and before is not None and before.others_active,
        max_inflight=knobs.max_inflight or 0,
        pass_launches=knobs.pass_launches,
        resume_after_ns=knobs.resume_after_ns,
        max_pause_ns=knobs.max_pause_ns,
    )
