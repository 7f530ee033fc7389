"""The state that the reducer owns. Units above tenants, tenants above clients; devices beside them."""

from collections.abc import Iterator

from attrs import Factory, define

from gpud.engine.preempt_mix import PreemptMix
from gpud.model.events import Who
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot, UnitId
from gpud.model.knobs import DeviceWords, PeerEntry


@define(kw_only=True)
class Client:
    """An attached process."""

    id: ClientId
    job: JobId
    who: Who
    generation: Generation
    """Of its presence and activity pages."""
    order: int
    """Of attachment; the peer table takes the oldest first."""
    session: SessionId | None
    """None: taken over from an earlier daemon, has not come back yet."""
    attached_ns: int
    announced: bool = False
    """Its launcher has heard of it."""
    live: bool = False
    """Its pages are sealed and mapped here: others may be shown its presence."""
    devices: tuple[Slot | None, ...] = ()
    """As last reported, in its order; None: not managed."""
    peers: dict[ClientId, PeerEntry] = Factory(dict)
    """The pages it shall have mapped."""
    beyond: dict[Slot, frozenset[ClientId]] = Factory(dict)
    """Higher clients that found no room in the table."""
    serial: int = 0
    """Of the last set of peers sent."""
    mapped_serial: int = 0
    slow: bool = False
    """It has missed the deadline to map peers: nobody waits for it until it answers."""
    words: dict[Slot, DeviceWords] = Factory(dict)
    """As published last."""
    awaited: dict[ClientId, int] = Factory(dict)
    """Before it hears its slots: lower clients that must have mapped its page, and the serial that proves it."""
    slots_due_ns: int | None = None
    """It hears its slots then at the latest; None: nothing is owed."""

    def slots(self) -> frozenset[Slot]:
        return frozenset(slot for slot in self.devices if slot is not None)


@define(kw_only=True)
class Tenant:
    """A job."""

    id: JobId
    unit: UnitId
    job_class: str
    claimed: str | None
    labels: dict[str, str]
    name: str
    command: str
    who: Who
    """Of the launcher, or of the process itself."""
    launcher: bool
    """It was started by `gpud run`, whose end (with its last client's) ends the job."""
    began_ns: int
    launcher_alive: bool = False
    session: SessionId | None = None
    """Of the launcher; None for one taken over."""
    clients: set[ClientId] = Factory(set)


@define(kw_only=True)
class Unit:
    """What shares together: a class."""

    id: UnitId
    name: str
    rank: int
    tenants: set[JobId] = Factory(set)


@define(kw_only=True)
class Device:
    """A device with a slot."""

    slot: Slot
    uuid: bytes
    total_bytes: int
    name: str = ""


@define(kw_only=True)
class State:
    """All of it. One task owns it."""

    policy: PreemptMix
    lease_ns: int
    environment: tuple[tuple[str, str], ...] = ()
    """For the program of every job."""
    units: dict[UnitId, Unit] = Factory(dict)
    tenants: dict[JobId, Tenant] = Factory(dict)
    clients: dict[ClientId, Client] = Factory(dict)
    devices: dict[Slot, Device] = Factory(dict)
    next_job: int = 1
    next_client: int = 1
    next_order: int = 1
    last_generation: int = 0
    """Generations given out are all ≤ this one."""
    adopted: int = 0
    """Clients taken over that have come back."""
    adopt_until_ns: int | None = None
    """Those that have not come back by then are gone."""
    lease_due_ns: int | None = None
    """The lease is to be refreshed then; None: no clients."""
    look_due_ns: int | None = None
    """Presence pages beyond the tables are to be looked at then; None: nobody is active there."""
    draining: bool = False
    stopped: bool = False

    def __attrs_post_init__(self) -> None:
        for rank, name in enumerate(self.policy.order):
            unit = UnitId(rank + 1)
            self.units.setdefault(unit, Unit(id=unit, name=name, rank=rank))

    def unit_of(self, client: Client) -> Unit:
        return self.units[self.tenants[client.job].unit]

    def rank_of(self, client: Client) -> int:
        return self.unit_of(client).rank

    def clients_on(self, slot: Slot) -> Iterator[Client]:
        """Those with this device, oldest first."""
        return (client for client in self.clients.values() if slot in client.slots())

    def tenant_of(self, who: Who) -> Tenant | None:
        """The job a process belongs to: that of the nearest `gpud run` above it, else its own."""
        launchers = {(t.who.pid, t.who.started): t for t in self.tenants.values()}
        own = launchers.get((who.pid, who.started))
        if own is not None:
            return own
        for ancestor in who.ancestors:
            tenant = launchers.get(ancestor)
            if tenant is not None and tenant.launcher:
                return tenant
        return None
