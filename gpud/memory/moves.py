"""What is on its way between a device and the host: who was asked to let memory go, who could not, who waits. Pure."""

from attrs import Factory, define, frozen

from gpud.memory.ledger import Ledger
from gpud.memory.tiers import HostTier
from gpud.model.ids import ClientId, Slot


@define(kw_only=True)
class Out:
    """A client was asked to let memory go, and has not answered."""

    request: int
    bytes: int
    resident: int
    """On the device, as seen last …"""
    moved_ns: int
    """… and since when that is so."""


@frozen(kw_only=True)
class Cannot:
    """A client was asked and could not, or not all."""

    why: str
    until_ns: int
    """It is asked again then at the earliest."""


@define(kw_only=True)
class Device:
    """One device whose memory is swapped."""

    ledger: Ledger
    told: int | None = None
    """What the driver said last that is in use beside clients' memory, their contexts among it; None: not yet."""
    looked: int | None = None
    """Likewise, as of the last look alone."""
    looks: int = 0
    """How often it has said so since somebody came or went: of two answers the smaller counts, and what is just being
    taken down is in the first."""
    free: int = 0
    """What the driver said last that nothing is in use of …"""
    free_ns: int = 0
    """… and when it was asked for that."""
    let_go_ns: int = 0
    """When somebody last said that its memory has left."""
    seen: set[ClientId] = Factory(set)
    """Clients with a context there, by that."""
    evict: str = "oldest"
    keep: int = 0
    outs: dict[ClientId, Out] = Factory(dict)
    cannot: dict[ClientId, Cannot] = Factory(dict)
    lacks: int = 0
    """What who comes in lacks, as seen last …"""
    lacks_ns: int = 0
    """… and since when it is that much."""
    found_none: bool = False
    """It has just said that it finds no memory."""
    busy_ns: int = 0
    """When somebody was last seen to let memory go."""
    levels: dict[ClientId, tuple[int, int]] = Factory(dict)
    """Who was told by which grant (its epoch) how much of its memory may be on the device."""
    short: int = 0
    """Of that, what nobody can give …"""
    short_ns: int = 0
    """… and since when anything is short."""

    @property
    def is_sure(self) -> bool:
        """What is in use beside clients' memory is known well enough to refuse somebody for it."""
        return self.looks >= 2

    def gone(self, client: ClientId) -> None:
        self.looks = 0
        self.ledger.gone(client)
        self.outs.pop(client, None)
        self.cannot.pop(client, None)
        self.levels.pop(client, None)


@define(kw_only=True)
class Moves:
    """All devices whose memory is swapped, and the host memory that it goes to."""

    devices: dict[Slot, Device] = Factory(dict)
    host: HostTier = Factory(lambda: HostTier(budget=0))
    refused: dict[ClientId, str] = Factory(dict)
    """Who got no host slots when it asked last, and why."""
    last_request: int = 0
    due_ns: int | None = None
    """Pages are to be looked at then: something moves, and nobody tells how far."""

    def number(self) -> int:
        self.last_request += 1
        return self.last_request
