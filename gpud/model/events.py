"""What has happened, in the past tense. `react` turns each into effects. Times are monotonic nanoseconds."""

from collections.abc import Mapping
from typing import Any

from attrs import Factory, frozen

from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.levels import Barred, Motion
from gpud.model.rulings import By
from gpud.model.units import SECOND


@frozen(kw_only=True)
class Who:
    """A process as the kernel names it. Nothing of it comes from the process itself, but `command`, which is only
    shown."""

    pid: int
    started: int
    """Clock ticks from boot to its start: with the pid, it names the process for ever."""
    uid: int
    user: str
    command: str
    ancestors: tuple[tuple[int, int], ...] = ()
    """(pid, started) of parent, grandparent, …"""
    exe: str = ""
    """Path of the program that it runs; "" where the kernel does not say."""
    cgroup: str = ""
    group: str = ""
    """Primary group."""
    groups: tuple[str, ...] = ()
    """All of them, by name."""


@frozen(kw_only=True)
class LaunchAsked:
    """`gpud run` asks for a job."""

    session: SessionId
    who: Who
    asked: tuple[tuple[str, str], ...]


@frozen(kw_only=True)
class LauncherEnded:
    """The process of `gpud run` is gone."""

    job: JobId


@frozen(kw_only=True)
class AttachAsked:
    """A hook wants in. `client` and `generation` are what it says it had, 0 for a new one."""

    session: SessionId
    who: Who
    client: ClientId
    generation: Generation
    again: bool
    """It brings its presence and activity pages."""
    waits: bool = False
    """It waits in cuInit for the answer, so it may be refused; one that runs already is let in."""
    hookless: bool = False
    """It takes turns by gpud.acquire, without hook: nothing of its launches is seen, and none is held."""


@frozen(kw_only=True)
class SessionEnded:
    """A connection ended: of a hook that has not heard yet which client it is, or of a launcher, with its process."""

    session: SessionId
    reason: str


@frozen(kw_only=True)
class PagesFailed:
    """The pages for a client could not be made, sealed or taken over."""

    client: ClientId
    text: str
    code: int
    """As in a refusal."""


@frozen(kw_only=True)
class Mapped:
    """The client has mapped its pages; they are sealed now."""

    client: ClientId


@frozen(kw_only=True)
class DevicesReported:
    """The client's devices in its order: (uuid of 16 bytes, total bytes)."""

    client: ClientId
    devices: tuple[tuple[bytes, int], ...]


@frozen(kw_only=True)
class PeersMapped:
    """The client looks at the peers of set number `serial` now."""

    client: ClientId
    serial: int
    mapped: int


@frozen(kw_only=True)
class WentActive:
    """A client's first launch on a device after idle."""

    client: ClientId
    slot: Slot


@frozen(kw_only=True)
class WentIdle:
    """All a client has launched on a device is finished."""

    client: ClientId
    slot: Slot


@frozen(kw_only=True)
class AllocAsked:
    """An allocation does not fit below the limit of its job, or on the device. `bytes` 0: it waits no more."""

    client: ClientId
    slot: Slot
    request: int
    """The client's own number; the same again: it was answered, and somebody else was quicker."""
    bytes: int
    time_ns: int
    """It waits at most so long; 0: as long as the policy lets it."""
    held: Mapping[tuple[ClientId, Slot], Counters] | None = None
    """What everybody holds now. The engine's shell adds it."""


@frozen(kw_only=True)
class SlotsAsked:
    """A client needs host slots for so many bytes more."""

    client: ClientId
    slot: Slot
    request: int
    bytes: int
    held: Mapping[tuple[ClientId, Slot], Counters] | None = None
    """As in AllocAsked, where memory is swapped."""


@frozen(kw_only=True)
class SlotsFailed:
    """Host slots could not be made."""

    client: ClientId
    slot: Slot
    request: int
    bytes: int
    text: str


@frozen(kw_only=True)
class Swapped:
    """A client has moved memory out of a device as it was asked."""

    client: ClientId
    slot: Slot
    request: int
    code: int
    """0: goes on, 1: done, 2: failed."""
    bytes: int
    """Gone so far."""
    held: Mapping[tuple[ClientId, Slot], Counters] | None = None
    """As in AllocAsked, where memory is swapped."""


@frozen(kw_only=True)
class LockAsked:
    """A client waits for devices with turns, for all of them or none."""

    client: ClientId
    request: int
    """The client's own number."""
    slots: frozenset[Slot]
    explicit: bool
    """By gpud.acquire."""
    wait_ns: int | None
    """It waits at most so long; None: for ever."""
    swaps: bool = False
    """It has no hook, and lets its memory go itself when asked."""
    out: bool = False
    """… and has, and it has not come in since."""
    held: Mapping[tuple[ClientId, Slot], Counters] | None = None
    """As in AllocAsked, where memory is swapped."""


@frozen(kw_only=True)
class LockWithdrawn:
    """Nobody in the client waits any more."""

    client: ClientId
    request: int


@frozen(kw_only=True)
class LockIsIn:
    """Memory is in, launches pass; or not all came in (`short`)."""

    client: ClientId
    slots: frozenset[Slot]
    epoch: int
    bytes: int
    short: bool
    took_ns: int
    swaps: bool = False
    """It has no hook, and lets its memory go itself when asked."""
    out: bool = False
    """… and has, and it has not come in since."""
    held: Mapping[tuple[ClientId, Slot], Counters] | None = None
    """As in AllocAsked, where memory is swapped."""


@frozen(kw_only=True)
class LockBack:
    """A client has given devices back, or could not."""

    client: ClientId
    slots: frozenset[Slot]
    epoch: int
    overrun: bool
    """Not drained by the deadline: it will say so again, without this, once it is."""
    never: bool
    """It has work that cannot end by waiting, and goes on."""
    asks: LockAsked | None = None
    """It wants them again, behind whoever waits by now."""
    swaps: bool = False
    """It has no hook, and lets its memory go itself when asked."""
    out: bool = False
    """… and has, and it has not come in since."""
    held: Mapping[tuple[ClientId, Slot], Counters] | None = None
    """As in AllocAsked, where memory is swapped."""


@frozen(kw_only=True)
class Detached:
    """A client's session or process has ended. Ignored when the client has a newer session by now."""

    client: ClientId
    session: SessionId | None
    reason: str
    held: Mapping[tuple[ClientId, Slot], Counters] | None = None
    """What its pages, and those of all others, said last. The engine's shell adds it where somebody observes."""


@frozen(kw_only=True)
class DevicesFound:
    """The driver told of its devices: (uuid of 16 bytes, name, total bytes)."""

    devices: tuple[tuple[bytes, str, int], ...]


@frozen(kw_only=True)
class Reading:
    """What was read of the world at one moment, for policies. Has what `ticking.needs` asked for."""

    wall_ns: int
    """Unix time."""
    counters: Mapping[tuple[ClientId, Slot], Counters]
    histograms: Mapping[tuple[ClientId, Slot], tuple[int, ...]]
    """Of holds; bucket i: 2^i … 2^(i+1) µs."""
    host_free: int | None = None
    """Bytes of host memory that are free; None: not asked for, or not known."""
    delays: Mapping[tuple[ClientId, Slot], tuple[int, ...]] = Factory(dict)
    """From launch to start, of sampled launches; buckets likewise."""


@frozen(kw_only=True)
class Tick:
    """Time has passed."""

    motion: Mapping[Slot, Motion] | None = None
    """What a step of the levels has found on each divided device; None: there was none."""
    barred: Mapping[tuple[JobId, Slot], Barred] = Factory(dict)
    """After it: who is not believed."""
    reading: Reading | None = None
    """None: the policies are not to be looked at now."""


@frozen(kw_only=True)
class Process:
    """A process with a context on a device, as driver and kernel name it."""

    pid: int
    started: int
    """As in Who."""
    user: str
    command: str
    used_bytes: int | None
    """Device memory; None: the driver does not say."""
    ancestors: tuple[tuple[int, int], ...] = ()
    """As in Who."""


@frozen(kw_only=True)
class Seen:
    """One device as the driver tells of it."""

    total_bytes: int
    used_bytes: int
    power_w: float | None = None
    """None: it does not tell; likewise below."""
    temperature_c: float | None = None
    utilisation: float | None = None
    """0 … 1; shown, never used for control."""
    processes: tuple[Process, ...] | None = None
    mps: bool = False
    """Somebody uses it through MPS."""
    mps_clients: bool = False
    """… by the driver's own list."""
    when_ns: int = 0
    """When the engine heard."""


@frozen(kw_only=True)
class DriverTold:
    """The driver told of its devices, by UUID. Devices that it is silent about are not there."""

    devices: Mapping[bytes, Seen]
    asked_ns: int = 0
    """When it was asked: who has left since may still be in its answer."""
    held: Mapping[tuple[ClientId, Slot], Counters] = Factory(dict)
    """What clients held before it was asked …"""
    held_ns: int = 0
    """… and when that was: an answer to an earlier question says nothing of it."""
    after: Mapping[tuple[ClientId, Slot], Counters] | None = None
    """What they held after it had answered; None: as read last."""


@frozen(kw_only=True)
class PluginSample:
    """A plugin measured something."""

    plugin: str
    signal: str
    target: str
    """Name of a class, or UUID of a device as the driver's tools print it."""
    value: Any
    """As gpud.policies.types says; None: not known."""
    mono_ns: int
    """When."""
    stale_after_ns: int = 2 * SECOND
    """Older than this it is unknown."""


@frozen(kw_only=True)
class PluginsGone:
    """A plugin does not run any more: its samples are unknown."""

    plugin: str


@frozen(kw_only=True)
class SetAsked:
    """Something of a job shall be otherwise, all of it or nothing."""

    job: int
    by: By
    changes: tuple[tuple[str, str | int | None], ...]
    """(`class`, its name), (`memory`, bytes), (`compute`, millionths of a device). None: as labels and policies say."""


@frozen(kw_only=True)
class PauseAsked:
    """Every launch of a job shall be held until it is resumed."""

    job: int
    by: By


@frozen(kw_only=True)
class ResumeAsked:
    """It shall go on."""

    job: int
    by: By


@frozen(kw_only=True)
class EvictAsked:
    """A job shall leave its devices now: its turn ends, its memory goes to the host."""

    job: int
    by: By


@frozen(kw_only=True)
class BoardChanged:
    """Another set of policies runs from now on."""

    board: Any
    """gpud.engine.board.Board (the words import nothing else of gpud)."""
    why: str = "reload"
    """A word for the journal: `reload`, `rollback`, `start`, `devices`, `struck out`."""
    reading: Reading | None = None
    """Of now. The engine's shell adds it."""


@frozen(kw_only=True)
class DrainAsked:
    """The daemon is about to end and leaves the pages as they are."""


@frozen(kw_only=True)
class StopAsked:
    """The operator ends it: every gate opens now."""


Event = (
    LaunchAsked | LauncherEnded | AttachAsked | PagesFailed | Mapped | DevicesReported | PeersMapped | WentActive
    | WentIdle | Detached | SessionEnded | DevicesFound | Tick | DriverTold | PluginSample | PluginsGone | SetAsked
    | PauseAsked | ResumeAsked | EvictAsked
    | BoardChanged | DrainAsked | StopAsked | AllocAsked | SlotsAsked | SlotsFailed | Swapped | LockAsked
    | LockWithdrawn | LockIsIn | LockBack
)  # fmt: skip
