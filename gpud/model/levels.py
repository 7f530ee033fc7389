"""How the time of a device is divided: what the engine decides at events (`Division`), and what goes on from step to
step (`Level`). Steps are made in C (gpud/hooks/levels_*.c)."""

from enum import IntEnum

from attrs import field, frozen

from gpud.model.ids import ClientId, JobId, Slot


class TotalKind(IntEnum):
    """What a total is of. As in levels_native.h; a test compares them."""

    COMPUTE = 0
    """Millionths of the device."""
    LAUNCHES = 1
    """In 1000 s."""
    BLOCKS = 2
    COPIES = 3
    """Bytes per second."""


class Motion(IntEnum):
    """What a step found."""

    SETTLED = 0
    """Nothing will change until somebody is active."""
    MOVING = 1
    """Nobody is active; levels are on their way."""
    BUSY = 2


class Barred(IntEnum):
    """Why a tenant is not believed: for some seconds it takes no part in the turns of others. As in levels_native.h."""

    WORDS = 1
    CLAIMS = 2

    @property
    def word(self) -> str:
        """For programs, and in views."""
        return self.name.lower()


BARRED_TEXTS = {
    Barred.WORDS.word: "its pages say what cannot be",
    Barred.CLAIMS.word: "it keeps others waiting and uses next to nothing",
}
"""For people, after `it takes no part in the turns of others`."""


@frozen(kw_only=True)
class DividedClient:
    """A process on the device."""

    client: ClientId
    rank: int
    looks: bool = False
    """Ranks above that are not in its table hold it: it must know whether one of them is active."""
    measured: bool = False
    """Its launches are charged: it must know whether anybody else is active."""
    counted: bool = False
    """Some rate of its tenant is limited."""
    awaited: bool = False
    """Of an earlier daemon, has not come back yet."""
    resume_after_ns: int = 0
    peers: tuple[ClientId, ...] = ()
    """Its table of this device, in order."""


@frozen(kw_only=True)
class DividedTenant:
    """A job on the device."""

    tenant: JobId
    clients: tuple[DividedClient, ...]
    hard_ppm: int | None = None
    """Its own limit; None: none."""
    soft_ppm: int | None = None
    """May be exceeded while nobody else wants the device."""


@frozen(kw_only=True)
class Total:
    """What holds for several tenants together."""

    key: tuple[str, ...]
    """What it is, so that its level goes on while its members and its amount change."""
    kind: TotalKind
    amount: int
    window_ns: int
    """What is not used is kept this long."""
    members: tuple[JobId, ...]


@frozen(kw_only=True)
class ShareUnit:
    """Tenants that hold one share together."""

    pool: int
    fixed_ppm: int | None
    """Whoever is active; None: by weight among the active ones."""
    weight: int
    members: tuple[JobId, ...]


@frozen(kw_only=True)
class Pool:
    """Units that take turns with each other."""

    period_ns: int
    open_ppm: int
    """What is divided by weight."""


@frozen(kw_only=True)
class Division:
    """Of one device."""

    tenants: tuple[DividedTenant, ...] = ()
    totals: tuple[Total, ...] = ()
    units: tuple[ShareUnit, ...] = ()
    pools: tuple[Pool, ...] = ()
    moves: bool = field(init=False)
    """Something in it changes by itself, so that there must be steps."""

    def has_shape_of(self, other: "Division") -> bool:
        """Do they differ in the amounts of totals at most? Quick where what is the same is the same object."""
        return (
            self.tenants is other.tenants
            and self.units is other.units
            and self.pools is other.pools
            and len(self.totals) == len(other.totals)
            and all(
                (one.key, one.kind, one.window_ns, one.members) == (two.key, two.kind, two.window_ns, two.members)
                for one, two in zip(self.totals, other.totals, strict=True)
            )
        )

    @moves.default
    def _moves(self) -> bool:
        clients = [client for tenant in self.tenants for client in tenant.clients]
        members = [unit.pool for unit in self.units for _ in unit.members]
        return bool(
            self.totals
            or len(set(members)) < len(members)
            or any(tenant.hard_ppm is not None or tenant.soft_ppm is not None for tenant in self.tenants)
            or any(c.looks or (c.measured and len(c.peers) < len(clients) - 1) for c in clients)
        )


@frozen(kw_only=True)
class Level:
    """Of one tenant on one device: what it may still use, how far it is behind its share."""

    tenant: JobId
    slot: Slot
    cap_ns: int
    cap_ppm: int | None
    """In force since `at_ns`; None: no cap."""
    lag_ns: int
    share_ppm: int
    """0: takes no turns."""
    at_ns: int
    """When that was so, monotonic."""
    spent: tuple[tuple[ClientId, int], ...]
    """What its clients had charged then, as they wrote it."""
    busy_ppm: int = 0
    """What it used about then."""
    faults: int = 0
    """Words of its clients that could not be, so far."""
    barred: Barred | None = None
    """None: it is believed."""
    burst_ns: int = 2**62
    """What a cap leaves is never more than this."""
