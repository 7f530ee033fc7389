"""What pages say of one client on one device."""

from typing import NamedTuple

from attrs import frozen


class Counters(NamedTuple):
    """All threads of one client on one device together. Counts since it attached; times in nanoseconds. In the order of
    `struct gpud_sum`, since a tick reads one for each client."""

    entered: int = 0
    left: int = 0
    held: int = 0
    held_ns: int = 0
    launches_failed: int = 0
    passed: int = 0
    used_bytes: int = 0
    allocations: int = 0
    last_finish_ns: int = 0
    idle_since_ns: int = 0
    inflight: int = 0
    hold_since_ns: int = 0
    """0: none is held."""
    spent_ns: int = 0
    """GPU time charged, as the client itself writes it."""
    full_ns: int = 0
    """Until when its window was, or will be, more than half full, as far as it knows; 0: never."""
    blocks: int = 0
    """Thread blocks launched, while launches are charged."""
    copy_bytes: int = 0
    samples: int = 0
    """Launches whose GPU time was measured."""
    clean: int = 0
    """Of these, with no other tenant active meanwhile."""
    calls: int = 0
    """Driver calls made for windows and samples."""
    reserved_bytes: int = 0
    """Device memory that the client holds, or is about to ask the driver for."""
    resident_bytes: int = 0
    """Of memory that can leave the device: on it …"""
    host_bytes: int = 0
    """… in host slots …"""
    lazy_bytes: int = 0
    """… and not backed by anything yet."""
    pinned_bytes: int = 0
    """Counted memory that cannot leave the device."""
    swap_done_bytes: int = 0
    """Of the swap under way; 0 / 0: none is."""
    swap_total_bytes: int = 0
    lost_bytes: int = 0
    """Of memory that can leave the device: what the host's memory has not kept."""
    slots_bytes: int = 0
    """Host slots that the client has, for all of its devices …"""
    unpinned_bytes: int = 0
    """… and of these, what the driver has refused to page-lock."""
    active: int = 0
    """1 from the first launch after idle until all is finished."""
    edges: int = 0
    holding: int = 0
    """Threads held now."""
    hold_reason: int = 0
    """The gate bit that holds the thread that waits longest."""
    hold_peer: int = 0xFFFFFFFF
    """Present index of the peer it waits for."""
    waiting: int = 0
    """Threads held now, as the client's peers see it."""
    turn: int = 0
    """1: it uses the device by its turn (GATE_SHARE)."""
    factor_ppm: int = 0
    """What charges are multiplied with; 0: nothing is learned yet."""
    estimated: int = 0
    """1: what is charged comes from time shared with others."""
    lock: int = 0
    """What it makes of the device lock: GPUD_LOCK_NONE, …"""
    holds: int = 0
    """Turns that the program has taken explicitly and not released."""
    pins: int = 0
    """Why memory cannot leave the device: bits, by GPUD_PIN_*."""


@frozen(kw_only=True)
class HookCounters:
    """What a client's hook says of itself."""

    errors: int = 0
    attaches: int = 0
    histogram: tuple[int, ...] = ()
    """Of holds, all devices together; bucket i: 2^i … 2^(i+1) µs."""
