"""What a policy sets for a class, and the words it becomes in a control page."""

from attrs import frozen

from gpud.model.ids import ClientId, Generation, UnitId
from gpud.model.units import FOREVER_NS

NO_UNIT = UnitId(0)


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
    """After this, `pass_launches` of each held thread go through."""
    pass_launches: int = 1


@frozen(kw_only=True)
class PeerWords:
    """One entry of a peer table."""

    client: ClientId
    rank: int
    unit: UnitId
    generation: Generation
    """Of the peer's presence page."""
    present: int
    """Index in the reader's table of mapped pages."""


@frozen(kw_only=True)
class DeviceWords:
    """One device of a control page, as published. Fields as in gpud_page.h."""

    gate: int = 0
    rank: int = 0
    unit: UnitId = NO_UNIT
    peers: tuple[PeerWords, ...] = ()
    others_active: bool = False
    max_inflight: int = 0
    pass_launches: int = 1
    resume_after_ns: int = 0
    max_pause_ns: int = FOREVER_NS


@frozen(kw_only=True)
class PeerEntry:
    """One page of a peer that a client shall have mapped."""

    present: int
    client: ClientId
    generation: Generation
