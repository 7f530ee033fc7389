"""The state that the reducer owns. Tenants above clients; devices with what their policies remember beside them."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, field

from gpud.engine.board import Applied, Board, Failsafe, Stack
from gpud.engine.classify import Placed
from gpud.engine.lock_queue import Locks
from gpud.engine.meters import Meter
from gpud.memory.moves import Moves
from gpud.model.counters import Counters
from gpud.model.events import AttachAsked, LaunchAsked, Process, Seen, Who
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.knobs import DeviceWords, PeerEntry
from gpud.model.knobs import Knobs as KnobsInForce
from gpud.model.levels import Barred, Division, Level
from gpud.model.rulings import Ruling
from gpud.model.units import SECOND
from gpud.policies.program import Knobs
from gpud.policies.tenants import TenantFacts

if TYPE_CHECKING:
    from gpud.engine.hookless_memory import Apart
    from gpud.engine.memory_line import Asked
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
    hookless: bool = False
    """It takes turns and no more: its launches are neither seen nor held, and its memory is not gpud's to move."""
    swaps: bool = False
    """One without hook lets its memory go itself when asked."""
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
    last_role: int = 0
    """What the least important of its table is looked at for (see roles.py)."""
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
    on_file: tuple[Any, Any, int, Any] | None = None
    """Devices, peers and serial as put on file last, and what that was."""
    stuck: set[Slot] = Factory(set)
    """Where it has lost its rank, since it is active and does nothing (see stuck.py)."""

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
    pinned_by: Ruling | None = None
    """By whom; None: by `gpud run`, or by nobody."""
    paused: Ruling | None = None
    """Every launch is held."""
    memory: Ruling | None = None
    """Limit of its device memory on each device, bytes, beside the policies'."""
    compute: Ruling | None = None
    """Limit of its GPU time on each device, millionths of it, likewise."""
    leaves: set[Slot] = Factory(set)
    """Devices that it shall leave now: until its memory is gone from there, it does not come in again."""
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
    gpu: str = ""
    """The devices it asked for, as CUDA_VISIBLE_DEVICES has them; "": all."""
    gpus: int = 0
    """So many it asked for, whichever: `gpu` is chosen when it comes in; 0: not by number."""
    caller: str = ""
    """TRACEPARENT of whoever started it; "": none."""
    clients: set[ClientId] = Factory(set)
    placed: dict[str, Placed] = Factory(dict)
    """Digest of a policy that applies somewhere → where it puts this job."""
    standings: "dict[Slot, Standing]" = Factory(dict)
    """See standing.py."""
    in_force: "dict[Slot, KnobsInForce]" = Factory(dict)
    """See in_force.py."""
    read: dict[Slot, int] = Factory(dict)
    """See signals.py: what policies there read of it."""
    on_file: tuple[Any, Any] = (None, b"")
    """What it is made of, and what of it was put on file last."""
    attached_ns: int | None = None
    """Since when it has had a client without a break; None: it has none."""
    risen: set[Slot] = Factory(set)
    """Where it is one rank higher than its class, by `rise_after`."""


Resource = tuple[str, str, str, Slot | None]
"""What jobs compete for: (`tenants`, `shares`, `compute` or `memory`, digest of the policy, unit or rank, device)."""


@define(kw_only=True)
class Waiting:
    """A job in line to be let in."""

    tenant: Tenant
    event: LaunchAsked | AttachAsked
    """With which it came."""
    since_ns: int
    until_ns: float
    """Then it is refused; inf: never."""
    text: str
    """What it waits for."""
    resource: Resource
    """Of what: who needs it too waits behind."""
    board_generation: int
    """Of the set that has sorted it."""
    by: str = ""
    """`quotas.gpol:12`, where it stands."""


@define
class Claim:
    """One client on one device where ranks hold, since it was idle, or was last seen to do something."""

    since_ns: int
    looked_ns: int
    spent_ns: int
    """Charged until the last look, as far as the device can have worked it off."""
    used_ns: int
    """Of that, since the claim began."""
    entered: int
    finished_ns: int
    """When something of it was last proven finished."""


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

    def copy(self) -> "Ran":
        """What it remembers and decided now, to be read later."""
        return Ran(state=self.state, snapshot=self.snapshot, tenants=self.tenants, knobs=self.knobs)


@define(kw_only=True)
class Run:
    """The policies of one device."""

    stack: Stack
    ran: list[Ran]
    """Of each of them, in the same order."""
    idle_since: dict[tuple[str, str], int] = Factory(dict)
    """(policy, class) → when the last work of a member ended, whoever has left since."""
    ticked_ns: int = 0
    busy_ns: int = 0
    """When somebody there was last seen to be active."""
    resting: bool = False
    """Nothing can change what its policies see before somebody goes active: they are not looked at until then."""
    arbiter: Applied | None = field(init=False)
    """Of the stack, the one that arbitrates; None: the built-in `open`."""

    @arbiter.default
    def _arbiter(self) -> Applied | None:
        return next((applied for applied in self.stack if applied.arbiter is not None), None)


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
    trace_seed: str = ""
    """Ids of jobs' traces are made of it, the same in each daemon of one boot; "": there are no traces."""
    failsafe_after_ns: int = 30 * SECOND
    """Gates open this long after the lease where the arbiter says nothing."""
    wall_offset_ns: int = 0
    """Unix time less the monotonic clock."""
    cpu_ns: Callable[[], int] = lambda: 0
    """CPU time of this thread, for the watchdog."""
    board_generation: int = 1
    runs: dict[Slot, Run] = Factory(dict)
    """Of every device."""
    tenants: dict[JobId, Tenant] = Factory(dict)
    watched: dict[tuple[ClientId, Slot], Claim] = Factory(dict)
    """Clients where ranks hold."""
    judged_ns: int = 0
    """When they were looked at last."""
    waiting: list[Waiting] = Factory(list)
    """Jobs that are not in yet, the first in line first."""
    clients: dict[ClientId, Client] = Factory(dict)
    devices: dict[Slot, Device] = Factory(dict)
    meters: dict[tuple[ClientId, Slot], Meter] = Factory(dict)
    """Of clients on devices whose policies read signals."""
    active: set[tuple[ClientId, Slot]] = Factory(set)
    """As last heard or read."""
    host_free: int | None = None
    """As read last."""
    held: Mapping[tuple[ClientId, Slot], Counters] = Factory(dict)
    """What clients hold of device memory, as read last."""
    reasons: Mapping[tuple[ClientId, Slot], str] = Factory(dict)
    """What clients said last that their turns are for: read when somebody wants to see it."""
    overhead: dict[tuple[ClientId, Slot], int | None] = Factory(dict)
    """What the driver says they hold beyond that; None: it does not say."""
    apart: "dict[tuple[ClientId, Slot], Apart]" = Factory(dict)
    """Memory of clients without hook (see hookless_memory.py)."""
    overhead_looks: dict[tuple[ClientId, Slot], tuple[int, ...]] = Factory(dict)
    """Likewise, by each of the last three looks."""
    asks: "list[Asked]" = Factory(list)
    """Allocations that wait for room, the first in line first."""
    crowded: frozenset[ClientId] = frozenset()
    """Clients with a memory limit and more processes of their own tenant than their table."""
    limited: bool = False
    """Some client has a memory limit: what its contexts take beside counts below it, and only the driver knows that."""
    memory_due_ns: int | None = None
    """What clients hold is to be looked at then."""
    moves: Moves = Factory(Moves)
    """Memory on its way between devices and the host."""
    locks: Locks = Factory(Locks)
    """Devices with turns."""
    heard: set[ClientId] = Factory(set)
    """Clients that know their slots: to others nothing can be said of devices."""
    tick_cost_ns: int = 0
    """CPU time of a tick that reads the world, smoothed."""
    histograms_ns: int = 0
    """When histograms were read last."""
    seen: dict[bytes, Seen] = Factory(dict)
    """Device → what the driver told last."""
    unmanaged: dict[bytes, tuple[Process, ...]] = Factory(dict)
    """Device → processes on it that were no clients when the driver told of them."""
    strange_since: dict[tuple[int, int], int] = Factory(dict)
    """(pid, started) of these → when they were first seen."""
    told_of: set[tuple[int, int]] = Factory(set)
    """(pid, started) of these that the journal has."""
    told_mps: set[Slot] = Factory(set)
    """Devices with turns of which the journal has that they are used through MPS."""
    left: list[tuple[int, int, int]] = Factory(list)
    """(when, pid, started) of clients that are gone."""
    samples: dict[tuple[str, str, str], tuple[Any, int]] = Factory(dict)
    """(plugin, signal, target) → (value, until when it is known)."""
    strikes: dict[str, list[int]] = Factory(dict)
    """Digest of a policy → when its ticks took too long, of the last ten seconds, on whatever device."""
    next_job: int = 1
    next_client: int = 1
    next_order: int = 1
    last_generation: int = 0
    """Generations given out are all ≤ this one."""
    adopted: int = 0
    """Clients taken over that have come back."""
    adopt_until_ns: int | None = None
    owners_due_ns: int | None = None
    """Then who has a turn and has not come back is looked at: does it live?"""
    alive: Callable[[int, int], bool] = lambda _pid, _started: False
    """Is there such a process, started then? Asked of clients of an earlier daemon."""
    """Those that have not come back by then are gone."""
    lease_due_ns: int | None = None
    """The lease is to be refreshed then; None: no clients."""
    divisions: dict[Slot, Division] = Factory(dict)
    """Of devices whose time is divided, as published last."""
    dirty: set[Slot] = Factory(set)
    """Devices that may have to be divided anew."""
    amounts: set[Slot] = Factory(set)
    """Devices of which only totals are other amounts than before."""
    anew: set[Slot] = Factory(set)
    """Devices with a page that says nothing of levels yet."""
    levels: dict[Slot, list[Level]] = Factory(dict)
    """Of an earlier daemon, while the device is not divided yet."""
    levels_due_ns: int | None = None
    """The next step of the levels; None: none of them moves."""
    stepped_ns: int = 0
    """The last one."""
    barred: Mapping[tuple[JobId, Slot], Barred] = Factory(dict)
    """Who was not believed then."""
    stepping: dict[Slot, int] = Factory(dict)
    """Devices where somebody was found active lately, and when."""
    active_ns: dict[Slot, int] = Factory(dict)
    """When policies saw somebody active on a device last."""
    told: dict[Slot, bool] = Factory(dict)
    """Do hooks tell of their edges there? As published; where nothing is said, they do."""
    save_due_ns: int = 0
    """Before that, levels that move are not put on file again."""
    rise_due_ns: int | None = None
    """A tenant is one rank higher then."""
    owed: set[ClientId] = Factory(set)
    """Clients that have yet to hear their slots."""
    tick_due_ns: int | None = None
    """Policies are to be looked at then; None: nothing can change what they say."""
    draining: bool = False
    stopped: bool = False
    _on: dict[Slot, tuple[Client, ...]] = Factory(dict)
    """Who is on a device, as found last: it is asked for often."""

    def stack_for(self, device: Device) -> Stack:
        """As the running set says now; `runs` has what runs."""
        return self.board.stack(device.uuid, device.index)

    def stack_on(self, slot: Slot) -> Stack:
        """What runs there; after a restart, what is about to."""
        run = self.runs.get(slot)
        return run.stack if run is not None else self.stack_for(self.devices[slot])

    def clients_on(self, slot: Slot) -> Iterator[Client]:
        """Those with this device, oldest first."""
        found = self._on.get(slot)
        if found is None:
            found = self._on[slot] = tuple(client for client in self.clients.values() if slot in client.slots())
        return iter(found)

    def clients_of(self, tenant: Tenant) -> list[Client]:
        """Its processes, oldest first."""
        return [self.clients[client] for client in sorted(tenant.clients) if client in self.clients]

    def slots_of(self, tenant: Tenant) -> set[Slot]:
        """Devices that they are on."""
        return {slot for client in self.clients_of(tenant) for slot in client.slots()}

    def moved(self) -> None:
        """A client is gone, or on other devices than before."""
        self._on.clear()

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
