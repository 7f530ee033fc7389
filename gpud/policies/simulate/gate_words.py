"""What the gate's model looks at: the words of pages, and what a launch brings. Times are nanoseconds of one clock,
from 0 to `NEVER`, which stays what it is when something is added.
"""

from typing import NamedTuple

NEVER = 2**64 - 1
UNLIMITED = 2**64 - 1
"""Of a rate."""
NONE_LAG = -(2**63)
"""Of `others_lag_ns`: nobody beyond the table wants the device."""
PAUSED, PREEMPT, WINDOW, BUDGET, GRANT, RATE, CHARGE, SHARE, COPY = (1 << bit for bit in range(9))
"""Bits of the gate word."""
NO_PEER = -1
BEYOND = 16
"""Those beyond the table, where entries of it are numbered."""
TURN_NONE, TURN_HAS, TURN_ASKS = range(3)
_PPM = 1_000_000
_MOST_LAG = 2**63 - 1


def later(time_ns: int, by_ns: int) -> int:
    return min(time_ns + by_ns, NEVER)


class Level(NamedTuple):
    """GPU time that grows by a rate: base + rate × (now − t0), less what is spent. Nothing is gained before t0."""

    base_ns: int = 0
    rate_ppm: int = 0
    t0_ns: int = 0

    def at(self, spent_ns: int, now: int) -> int:
        return self.base_ns + max(now - self.t0_ns, 0) * self.rate_ppm // _PPM - spent_ns

    def positive_at(self, spent_ns: int) -> int:
        """The first moment at which it is above zero."""
        missing = spent_ns - self.base_ns + 1
        if missing <= 0:
            return 0
        if not self.rate_ppm:
            return NEVER
        return min(self.t0_ns - (-missing * _PPM // self.rate_ppm), NEVER)

    def lag(self, spent_ns: int, now: int) -> int:
        """The same as time, rounded down. There is a rate."""
        lag = self.at(spent_ns, now) * _PPM // self.rate_ppm
        return max(min(lag, _MOST_LAG), -_MOST_LAG - 1)


class Bucket(NamedTuple):
    """A rate with a memory of what it has not used."""

    rate: int = UNLIMITED
    """Units per 1000 s."""
    burst_ns: int = 10_000_000
    """What comes in this time is kept, and one unit in any case."""
    left: int | None = None
    """Units that it holds now; below zero: owed. None: it is full."""

    def due(self, units: int, now: int) -> int:
        """When so many may be taken; of more than it holds: when it is full."""
        if self.rate == UNLIMITED:
            return now
        if not self.rate:
            return NEVER
        unit = 10**12  # in one nanosecond `rate` 10^12ths come
        most = max(self.rate * self.burst_ns, unit)
        left = most if self.left is None else min(self.left * unit, most)
        missing = min(units * unit, most) - left
        return now if missing <= 0 else later(now, -(-missing // self.rate))


class Peer(NamedTuple):
    """Another process as its presence page, and the entry for it in the own table, show it."""

    rank: int
    """Smaller is higher."""
    active: bool = False
    idle_since_ns: int = 0
    """0: was never active."""
    known: bool = True
    """Its page is mapped and of the generation that is meant; an unknown peer holds nobody."""
    tenant: int = 0
    own: bool = False
    """Of the own tenant."""
    share: Level | None = None
    """Of its tenant; None: it takes no turns."""
    spent_ns: int = 0
    waiting: int = 0
    turn: int = TURN_NONE
    full_ns: int = 0
    """Until when its window was, or will be, more than half full, as far as it knows; 0: never."""


class Words(NamedTuple):
    """What a client's control page says of one device."""

    gate: int = 0
    rank: int = 0
    tenant: int = 0
    resume_after_ns: int = 0
    max_pause_ns: int = NEVER
    max_inflight: int = 0
    """0: unlimited; likewise the next."""
    max_inflight_ns: int = 0
    others_active: bool = False
    """One of the peers that no longer fit in the table is active."""
    others_lag_ns: int = NONE_LAG
    """The largest lag of those that want the device."""
    cap: Level = Level()
    cap_burst_ns: int = NEVER
    """The cap's level is cut to this."""
    soft: bool = False
    share: Level = Level()
    turn_ns: int = 10_000_000
    detach: bool = False
    lease_until_ns: int = NEVER
    failsafe_opens: bool = True
    """`hold` never opens by itself."""
    failsafe_after_ns: int = 30_000_000_000
    grant_epoch: int = 0
    """Of the own grant of the device lock; 0: none."""


class Own(NamedTuple):
    """What the asking thread brings."""

    held_since_ns: int = 0
    """0: not held yet."""
    passes: int = 0
    """Launches that an earlier max_pause still lets through."""
    pass_ns: int = 0
    """Likewise, GPU time."""
    elsewhere: bool = False
    """The launch is on another device of a tenant that is held as a whole."""
    inflight: int = 0
    inflight_ns: int = 0
    full: bool = False
    """The window has no room, whatever the two say."""
    cost_ns: int = 1000
    blocks: int = 1
    bytes: int = 0
    """Not 0: a copy asks."""
    memory: bool = False
    """A copy or memset asks."""
    epoch: int = 0
    """Of the device lock, as taken in; 0: none."""
    spent_ns: int = 0
    turn: int = TURN_NONE
    forfeit_ns: int = 0
    """Of the cap: what came while it was full."""
    gathers: bool = False
    """Its cap held it last, and has not let it go on since."""
    ignored: frozenset[int] = frozenset()
    """Entries of the table (or BEYOND) that it has waited for long enough."""
    launches: Bucket = Bucket()
    block_bucket: Bucket = Bucket()
    copied: Bucket = Bucket()


class Decision(NamedTuple):
    """May a launch, or a copy, pass?"""

    hold: bool
    why: str
    """`open`, `detached`, `paused`, `peer`, `others`, `window`, `max_pause`, `failsafe`, `budget`, `rate`, `share`,
    `lock`."""
    until_ns: int = NEVER
    """When time alone changes the answer."""
    peer: int = NO_PEER
    """Index of the peer waited for."""
    turn: int = TURN_NONE
    """What its presence page says from now on."""
