"""What screens and commands show. Built by the engine, carried by the control socket, printed by the command line."""

from attrs import frozen

from gpud.model.knobs import Explained
from gpud.model.policy_views import SetView


@frozen(kw_only=True)
class UnmanagedView:
    """A process on a device that no hook is in."""

    pid: int
    user: str
    command: str
    device: int | None
    """Slot; None: one that is not managed."""
    uuid: str
    """Of the device."""
    used_bytes: int | None
    """Device memory; None: the driver does not say."""


@frozen(kw_only=True)
class DeviceView:
    """One device of the node."""

    slot: int | None
    """Number in the pages; None when there is no room for it (not managed)."""
    uuid: str
    """`GPU-…`, as the driver's tools print it."""
    name: str
    """Empty while the driver has not told."""
    total_bytes: int
    used_bytes: int | None
    """By the driver's account, all processes; None when the driver does not answer."""
    utilisation: float | None
    """0 … 1, the driver's figure; shown, never used for control."""
    jobs: tuple[int, ...]
    """Jobs with a process on it."""
    unmanaged: tuple[UnmanagedView, ...]
    """Processes on it that no hook is in."""
    power_w: float | None = None
    """None: the driver does not say; likewise below."""
    temperature_c: float | None = None
    holder: int | None = None
    """The job that has the device, or has yet to leave it, where jobs take turns."""
    waiters: int = 0
    """Jobs that wait for their turn."""
    notes: tuple[str, ...] = ()
    """What cannot be promised of it, a sentence each."""


@frozen(kw_only=True)
class HoldView:
    """Why a job does not run now."""

    code: str
    """`paused`, `preempt`, `window`, …: the gate's reason; `lock`: it waits for its turn; `memory`: an allocation waits
    for room; `admission`: it waits in line to be let in."""
    text: str
    """One sentence with evidence."""
    held_by: int | None
    """The job waited for."""
    for_ns: int
    """How long the launch that waits longest has been held, or it has waited."""
    device: int | None
    """Slot; None: it waits for a place on any."""
    by: str = ""
    """`turns.gpol:12`, where it stands; "": no policy has said it."""


@frozen(kw_only=True)
class ClassView:
    """Where one policy puts a job."""

    policy: str
    job_class: str
    """"" where no class of the policy takes it."""
    how: str
    """`match`, `pinned`, `none`."""


@frozen(kw_only=True)
class TimeView:
    """GPU time of one job on one device, as far as it is charged."""

    device: int
    """Slot."""
    spent_ns: int
    """Since its processes attached."""
    busy: float | None
    """0 … 1, of the last moments; None: nobody divides the device."""
    estimated: bool
    """It was only measured beside other jobs lately."""
    share: float | None
    """Its part of the device; None: it takes no turns."""
    lag_ns: int
    """How long it is behind its share; below zero: ahead."""
    turn: bool
    """It has the turn."""
    limit: float | None
    """What it may use at most; None: all of it."""
    left_ns: int
    """Of that, what it may use now; below zero: it owes so much."""
    stuck: bool
    """It has lost its rank: it was active for long and did nothing."""
    barred: str = ""
    """It takes no part in the turns of others: `words` (its pages say what cannot be), `claims` (it keeps others
    waiting and charges next to nothing)."""
    faults: int = 0
    """Words of its pages that could not be, so far."""


@frozen(kw_only=True)
class MemoryView:
    """Device memory of one job on one device, bytes."""

    device: int
    """Slot."""
    used: int
    """By what passed through the hook."""
    reserved: int
    """What counts below its limit: held, or about to be."""
    limit: int | None
    """None: unlimited."""
    overhead: int | None
    """What the driver says it holds beyond that (contexts, modules), which counts too; None: the driver does not say,
    and nothing counts."""
    resident: int = 0
    """Of what can leave the device: on it …"""
    host: int = 0
    """… in host memory …"""
    lazy: int = 0
    """… and not backed by anything yet."""
    pinned: int = 0
    """What cannot leave it, where memory leaves at all."""
    pinned_why: tuple[str, ...] = ()
    """What that is, a few words each."""
    unpinned: int = 0
    """Of the host memory that it was given: what the driver has refused to page-lock, so that copies are slower."""
    lost: int = 0
    """What the host's memory has not kept: the program gets an error where it uses it."""
    over: bool = False
    """It holds more than its limit, which was lowered: it may only free."""
    place: str = ""
    """`quotas.gpol:15`, where the limit stands."""
    waiting: int = 0
    """Allocations that wait for room …"""
    waiting_bytes: int = 0
    """… and what they ask for."""
    moving: str = ""
    """What becomes of it where memory is swapped, a clause; "": it stays where it is."""


@frozen(kw_only=True)
class LockView:
    """What one job makes of one device with turns."""

    device: int
    """Slot."""
    state: str
    """`has`, `comes in` (granted, not in yet), `leaves` (asked back), `overruns` (not back in time), `waits` or
    `none`."""
    left_ns: int | None = None
    """Of its turn, while others wait; of `leaves`, until it overruns. None: there is no end."""
    place: int = 0
    """In line, 1: next."""
    waiting_ns: int = 0
    starts_ns: int | None = None
    """How long until its turn, if all before it use theirs up; None: nobody can say."""
    explicit: bool = False
    """By gpud.acquire."""
    holder: int | None = None
    """Who has the device …"""
    reason: str = ""
    """… and what for, if it says so."""
    text: str = ""
    """One sentence."""
    by: str = ""
    """`turns.gpol:12`, where the length of its turn comes from."""


@frozen(kw_only=True)
class JobView:
    """One job, as `gpud ps` shows it."""

    id: int
    name: str
    """As given by --name, else the program's file name."""
    user: str
    job_class: str
    """By the policy that arbitrates; `a/b` where devices differ; `unclassified`; "" where no policy arbitrates."""
    state: str
    """`queued` (waits in line to be let in), `starting` (no process attached yet), `active`, `held`, `paused` (by a
    person), `idle`."""
    pids: tuple[int, ...]
    """Attached processes."""
    launcher_pid: int | None
    """Of `gpud run`; None for a process that attached by itself."""
    command: str
    labels: dict[str, str]
    devices: tuple[int, ...]
    """Slots."""
    age_ns: int
    used_bytes: int
    """Device memory, by what passed through the hook, all devices."""
    why: HoldView | None
    pinned: bool = False
    """Its class was chosen by name, not by labels."""
    paused_by: str = ""
    """Who paused it: `alice (uid 1000)`; "": nobody."""
    classes: tuple[ClassView, ...] = ()
    """By every policy that applies somewhere."""
    time: tuple[TimeView, ...] = ()
    """On each device where its launches are charged."""
    memory: tuple[MemoryView, ...] = ()
    """On each of its devices."""
    lock: tuple[LockView, ...] = ()
    """On each of its devices with turns."""
    notes: tuple[str, ...] = ()
    """What is not done for it, a clause each."""


@frozen(kw_only=True)
class ExplainView:
    """One knob of one job on one device, and what set it."""

    because: Explained
    in_force: bool
    """False: another policy's value for the same knob is tighter."""


@frozen(kw_only=True)
class WhyDevice:
    """What holds for a job on one device."""

    device: int
    """Slot."""
    uuid: str
    policies: tuple[str, ...]
    arbiter: str
    """`preempt`, `open`, …"""
    rank: int
    """Smaller is higher; the same for all where nothing ranks."""
    knobs: tuple[ExplainView, ...]
    notes: tuple[str, ...] = ()
    """What cannot be promised there, a sentence each."""


@frozen(kw_only=True)
class WhyView:
    """Why a job runs or does not, as `gpud why` shows it."""

    job: JobView
    hold: HoldView | None
    devices: tuple[WhyDevice, ...]


@frozen(kw_only=True)
class AppliedView:
    """A policy on a device."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    """As the language writes them."""
    mode: str
    """Of its arbiter; "" for a policy that only tightens."""
    classes: tuple[str, ...]
    """In the order in which they are tried."""
    digest: str
    steps: int
    """Static cost of a tick."""
    failed: bool = False
    """It was put out of action: it took too long, or raised an error. What it decided last holds."""
    unknown: tuple[str, ...] = ()
    """Signals that it reads and that are not known now, such as those of a plugin that died. (Where no job is, nobody
    looks.)"""
    ranks: tuple[tuple[str, ...], ...] = ()
    """Classes of each rank, the highest first; empty where the arbiter ranks nobody."""


@frozen(kw_only=True)
class PolicyView:
    """What applies to one device, or to all that are not named."""

    device: int | None
    """Slot; None: every device without a row of its own."""
    uuid: str
    policies: tuple[AppliedView, ...]


@frozen(kw_only=True)
class JobStats:
    """What a job has done since it attached, all its processes and devices together."""

    job: JobView
    launches: int
    """Launches that entered the gate."""
    launches_failed: int
    """The driver answered an error."""
    unfinished: int
    """Launches past the gate that the driver call has not returned for."""
    held: int
    """Times a launch was held."""
    held_ns: int
    """For how long in sum, finished holds only."""
    passed: int
    """Launches let through by max_pause."""
    allocations: int
    """Live ones."""
    held_histogram: tuple[int, ...]
    """Bucket i counts holds of 2^i … 2^(i+1) µs; the first all below 2 µs."""
    hook_errors: int
    """Faults inside the hook that were degraded and counted."""
    attaches: int
    """Re-attachments (a daemon was restarted)."""
    spent_ns: int = 0
    """GPU time charged, as far as launches are charged; likewise below."""
    samples: int = 0
    """Launches whose GPU time was measured."""
    clean: int = 0
    """Of these, with no other tenant active meanwhile."""
    calls: int = 0
    """Driver calls made for windows and samples."""
    estimated: bool = False
    """What is charged somewhere comes from time shared with others."""
    inflight: int = 0
    """Launches submitted and not proven finished yet, where there are windows."""
    waiting: int = 0
    """Threads held now, as other jobs see it."""
    edges: int = 0
    """Times that a process went active or idle on a device."""
    full_ago_ns: int | None = None
    """How long ago a window was last more than half full; 0: it is, or will be for a moment; None: never."""
    factors: tuple[float, ...] = ()
    """What its processes multiply charges with on their devices, where something is learned."""


@frozen(kw_only=True)
class StatusView:
    """What the daemon runs, as `gpud status` shows it."""

    version: str
    pid: int
    uptime_ns: int
    runtime_dir: str
    simulated: str | None
    """The profile's name; None on real devices."""
    driver: str
    """`ok`, else one sentence about what is wrong with the driver."""
    devices: tuple[DeviceView, ...]
    jobs: int
    clients: int
    adopted: int
    """Clients taken over from the daemon before this one."""
    attach_ns: int | None
    """The last attach, from connect to mapped; None before the first."""
    policies: tuple[PolicyView, ...]
    """What applies where; the last row is for devices that come later."""
    policy_set: SetView
    """What they are, and the last attempt to change them that failed."""
    generation: int
    """Of that set: 1 for the daemon's first, then one more each time."""
