"""What pages say of one client on one device."""

from attrs import frozen


@frozen(kw_only=True)
class Counters:
    """All threads of one client on one device together. Counts since it attached; times in nanoseconds."""

    entered: int = 0
    left: int = 0
    held: int = 0
    held_ns: int = 0
    launches_failed: int = 0
    passed: int = 0
    used_bytes: int = 0
    allocations: int = 0
    last_finish_ns: int = 0
    active: bool = False
    idle_since_ns: int = 0
    inflight: int = 0
    holding: int = 0
    """Threads held now."""
    hold_reason: int = 0
    """The gate bit that holds the thread that waits longest."""
    hold_peer: int = 0xFFFFFFFF
    """Present index of the peer it waits for."""
    hold_since_ns: int = 0
    """0: none is held."""


@frozen(kw_only=True)
class HookCounters:
    """What a client's hook says of itself."""

    errors: int = 0
    attaches: int = 0
    histogram: tuple[int, ...] = ()
    """Of holds, all devices together; bucket i: 2^i … 2^(i+1) µs."""
