"""The state that the reducer owns. Tenants above clients; devices with what their policies remember beside them."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import Factory, define

from gpud.engine.board import Board, Failsafe, Stack
from gpud.engine.classify import Placed
from gpud.engine.meters import Meter
from gpud.model.events import Who
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot, UnitId
from gpud.model.knobs import DeviceWords, PeerEntry
from gpud.model.units import SECOND
from gpud.policies.program import Knobs
from gpud.policies.tenants import TenantFacts

if TYPE_CHECKING:
    from gpud.engine.standing import Standing


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
    failsafe: Failsafe | None = None
    """As published last; None: not yet."""

    _slots: tuple[tuple[Slot | None, ...], frozenset[Slot]] = ((), frozenset())
    """Devices as they were when this set was made of them: it is asked for often."""

    def slots(self) -> frozenset[Slot]:
        if self._slots[0] is not self.devices:
            self._slots = (self.devices, frozenset(slot for slot in self.devices if slot is not None))
        return self._slots[1]


@define(kw_only=True)
class Tenant:
    """A job."""

    id: JobId
    name: str
    command: str
    exe: str
    """Of the first process of `gpud run` that attached, as the kernel has it; until one does, what `gpud run` says it
    starts. "" for a process that attached by itself (`who` has it)."""
    exe_seen: bool = False
    """It is the kernel's word."""
    labels: dict[str, str]
    pin: str | None
    """The class chosen by name. Kept while no arbiter has it."""
    who: Who
    """Of the launcher, or of the process itself."""
    facts: TenantFacts
    """Of `who` and the labels: what policies classify by."""
    launcher: bool
    """It was started by `gpud run`, whose end (with its last client's) ends the job."""
    began_ns: int
    launcher_alive: bool = False
    session: SessionId | None = None
    """Of the launcher; None for one taken over."""
    clients: set[ClientId] = Factory(set)
    placed: dict[str, Placed] = Factory(dict)
    """Digest of a policy that applies somewhere → where it puts this job."""
    standings: "dict[Slot, Standing]" = Factory(dict)
    """See standing.py."""


@define(kw_only=True)
class Device:
    """A device with a slot."""

    slot: Slot
    uuid: bytes
    total_bytes: int
    index: int
    """In the driver's (PCI) order; its slot while only a client's word has made it."""
    name: str = ""


NOTHING = Knobs((), ())
"""Before the first tick."""


@define(kw_only=True)
class Ran:
    """One policy on one device: what it remembers, and what it decided last."""

    state: Any
    snapshot: tuple[Any, ...] = ()
    """What it saw last, in the order of its signals."""
    tenants: Mapping[int, tuple[Any, ...]] = Factory(dict)
    """Likewise of each tenant that has rules about it."""
    knobs: Knobs = NOTHING
    failed: bool = False
    """It raised an exception, or took too long: it does not tick any more."""


@define(kw_only=True)
class Run:
    """The policies of one device."""

    stack: Stack
    ran: list[Ran]
    """Of each of them, in the same order."""
    idle_since: dict[tuple[str, str], int] = Factory(dict)
    """(policy, class) → when the last work of a member ended, whoever has left since."""
    ticked_ns: int = 0


@define(kw_only=True)
class State:
    """All of it. One task owns it."""

    board: Board
    lease_ns: int
    environment: tuple[tuple[str, str], ...] = ()
    """For the program of every job."""
    claims: Mapping[str, tuple[str, ...]] = Factory(dict)
    """Label key, or `class` → who may claim it by `gpud run`."""
    system: bool = False
    """It serves the whole machine: what `claims` does not list may not be claimed."""
    failsafe_after_ns: int = 30 * SECOND
    """Gates open this long after the lease where the arbiter says nothing."""
    wall_offset_ns: int = 0
    """Unix time less the monotonic clock."""
    cpu_ns: Callable[[], int] = lambda: 0
    """CPU time of this thread, for the watchdog."""
    board_generation: int = 1
    runs: dict[Slot, Run] = Factory(dict)
    """Of every device."""
    units: dict[tuple[str, str, str], UnitId] = Factory(dict)
    """(policy, class, member by its `per`) → unit."""
    tenants: dict[JobId, Tenant] = Factory(dict)
    clients: dict[ClientId, Client] = Factory(dict)
    devices: dict[Slot, Device] = Factory(dict)
    meters: dict[tuple[ClientId, Slot], Meter] = Factory(dict)
    """Of clients on devices whose policies read signals."""
    active: set[tuple[ClientId, Slot]] = Factory(set)
    """As last heard or read."""
    host_free: int | None = None
    """As read last."""
    memory: dict[bytes, tuple[int, int, int]] = Factory(dict)
    """Device → (total, used, when), as the driver told last."""
    samples: dict[tuple[str, str, str], tuple[Any, int]] = Factory(dict)
    """(plugin, signal, target) → (value, until when it is known)."""
    strikes: dict[str, list[int]] = Factory(dict)
    """Digest of a policy → when its ticks took too long, of the last ten seconds, on whatever device."""
    next_job: int = 1
    next_client: int = 1
    next_order: int = 1
    next_unit: int = 1
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
    tick_due_ns: int | None = None
    """Policies are to be looked at then; None: nothing can change what they say."""
    draining: bool = False
    stopped: bool = False

    def stack_for(self, device: Device) -> Stack:
        """As the running set says now; `runs` has what runs."""
        return self.board.stack(device.uuid, device.index)

    def stack_on(self, slot: Slot) -> Stack:
        """What runs there; after a restart, what is about to."""
        run = self.runs.get(slot)
        return run.stack if run is not None else self.stack_for(self.devices[slot])

    def unit_named(self, name: tuple[str, str, str]) -> UnitId:
        """Its number, a new one the first time."""
        unit = self.units.get(name)
        if unit is None:
            unit = self.units[name] = UnitId(self.next_unit)
            self.next_unit += 1
        return unit

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
