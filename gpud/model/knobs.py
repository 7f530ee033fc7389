"""What a policy sets for a class, and the words it becomes in a control page."""

from attrs import frozen

from gpud.model.ids import ClientId, Generation, JobId
from gpud.model.units import FOREVER_NS

NO_JOB = JobId(0)
PEER_OWN = 1
"""Another process of the same tenant."""
PEER_SHARE = 2
"""Takes turns with the reader."""
UNLIMITED = 2**64 - 1
"""Of words in bytes."""
MEMORY_SWAP = 1
"""Its allocations come from the pool, so that they can leave the device."""
LOCK_WANTED = 1
"""Somebody waits for the device."""
MEMORY_WAIT = 2
"""An allocation that does not fit asks, and waits."""


@frozen(kw_only=True)
class Explained:
    """Why a knob has its value: the chain from knob to rule to line to inputs."""

    policy: str
    file: str
    line: int
    """0: built in."""
    knob: str
    """`low.max_inflight`"""
    value: str
    """As the language writes it."""
    rule: str
    """`guard serving.wait_p99 > 20ms for 1s`; "" for what a class or the arbiter is given on that line."""
    inside: tuple[str, ...] = ()
    """Rules around it, innermost first."""
    because: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    """(name, value) of the signals and lets that it depends on."""
    by: str = ""
    """Of what no policy says: the person who set it, `alice (uid 1000)`."""


@frozen(kw_only=True)
class Knobs:
    """What holds for one client on one device."""

    pause: bool = False
    """Every launch is held."""
    yields: bool = True
    """Held while a tenant of higher rank is active."""
    max_inflight: int | None = None
    """Launches submitted and unfinished; None = unlimited."""
    resume_after_ns: int = 0
    """How long all higher ranks must be idle."""
    max_pause_ns: int = FOREVER_NS
    """After this, one launch of each held thread goes through."""
    pass_ns: int = 0
    """Instead of one launch: so much GPU time; 0: one launch."""
    max_inflight_ns: int | None = None
    """GPU time submitted and unfinished; None = unlimited."""
    capped: bool = False
    """Its GPU time is limited in some way."""
    rated: bool = False
    """Its launches or blocks are."""
    copies: bool = False
    """Its copies are."""
    hard_ppm: int | None = None
    """Limit of its own GPU time, in millionths of the device; None: none."""
    soft_ppm: int | None = None
    """Likewise, that may be exceeded while nobody else wants the device."""
    pool: int | None = None
    """With whom it takes turns (see units.py); None: with nobody."""
    turn_window_ns: int | None = None
    """`max_inflight_ns` while others take turns with it."""
    charged: bool = False
    """Somebody wants to know what it uses."""
    memory_limit: int | None = None
    """Device memory of the tenant, bytes; None: unlimited."""
    memory_wait_ns: int = 0
    """How long an allocation over the limit, or over the device, may wait for room; 0: it fails at once."""
    max_hold_ns: int = FOREVER_NS
    max_overrun_ns: int = FOREVER_NS
    """Length of a turn, where there are turns."""
    residency: str = "device"
    """Where its memory is while it has no turn: `device`, `host`."""

    @property
    def measured(self) -> bool:
        """Its launches are charged with their cost, so whoever else is active matters."""
        timed = self.max_inflight_ns is not None or (self.yields and self.pass_ns > 0)
        return self.capped or self.pool is not None or self.charged or timed

    @property
    def looks(self) -> tuple[bool, bool, bool]:
        """What it looks at others for: ranks, GPU time, its own tenant's memory."""
        return self.yields, self.measured, self.memory_limit is not None


@frozen(kw_only=True)
class PeerWords:
    """One entry of a peer table."""

    client: ClientId
    rank: int
    generation: Generation
    """Of the peer's presence page."""
    present: int
    """Index in the reader's table of mapped pages."""
    tenant: JobId = NO_JOB
    flags: int = 0
    """PEER_*"""


@frozen(kw_only=True)
class DeviceWords:
    """One device of a control page, as published. Fields as in gpud_page.h; what follows from levels is not here
    (see levels.py)."""

    gate: int = 0
    rank: int = 0
    peers: tuple[PeerWords, ...] = ()
    tenant: JobId = NO_JOB
    max_inflight: int = 0
    max_inflight_ns: int = 0
    pass_launches: int = 1
    pass_ns: int = 0
    resume_after_ns: int = 0
    max_pause_ns: int = FOREVER_NS
    burst_ns: int = 0
    memory_limit: int = UNLIMITED
    """Bytes; 2^64 - 1: unlimited."""
    memory_flags: int = 0
    others_reserved: int = 0
    overhead_bytes: int = 0
    grant_epoch: int = 0
    grant_until_ns: int = 0
    lock_flags: int = 0
    lock_place: int = 0


@frozen(kw_only=True)
class PeerEntry:
    """One page of a peer that a client shall have mapped."""

    present: int
    client: ClientId
    generation: Generation
