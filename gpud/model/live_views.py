"""What a live screen shows: rows that change seldom, so that only what changed need be sent. Built by the engine, sent
over the control socket to whoever subscribed, kept in the journal, recorded by `gpud top --record`. Text of others is
in one line, and cut with `…` where it is long.

Times called `…_at_ns` are Unix time. Counters only grow; a screen makes rates of two of them.
"""

from attrs import frozen

from gpud.model.policy_views import SetView
from gpud.model.views import PolicyView


@frozen(kw_only=True)
class WhyRow:
    """The one dominant reason why a job does not run, or runs slower than it could."""

    code: str
    """As in HoldView; `memory`: an allocation waits for room."""
    text: str
    """One sentence, without numbers that change by the moment."""
    holder: int | None = None
    """The job waited for."""
    since_at_ns: int = 0
    place: int = 0
    """In line, 1: next; 0: in no line."""
    turn_ends_at_ns: int | None = None
    """Of the holder's turn."""
    starts_at_ns: int | None = None
    """When its own turn begins, if all before it use theirs up."""
    by: str = ""
    """`turns.gpol:12`."""


@frozen(kw_only=True)
class SwapRow:
    """Memory of a job that moves now."""

    device: int
    direction: str
    """`out`, `in`."""
    done_bytes: int
    total_bytes: int
    began_at_ns: int


@frozen(kw_only=True)
class ProcessRow:
    """A process of a job."""

    pid: int
    command: str
    devices: tuple[int, ...]
    used_bytes: int


@frozen(kw_only=True)
class JobRow:
    """One job. The same while nothing happens to it: ages are made of `began_at_ns`."""

    id: int
    name: str
    user: str
    uid: int
    job_class: str
    state: str
    """`queued`, `starting`, `active`, `held`, `paused`, `swapped` (all that can leave its device has left), `idle`."""
    processes: tuple[ProcessRow, ...]
    command: str
    labels: tuple[tuple[str, str], ...]
    devices: tuple[int, ...]
    """Slots."""
    began_at_ns: int
    pinned: bool
    """Its class was chosen by name, not by labels."""
    paused_by: str
    """Who paused it: `alice (uid 1000)`; "": nobody."""
    used_bytes: int
    limit_bytes: int | None
    resident_bytes: int
    host_bytes: int
    spent_ns: int
    """GPU time charged since it attached, all devices."""
    launches: int
    held: int
    held_ns: int
    share: float | None
    """Its part of a device where jobs take turns, 0 … 1."""
    limit: float | None
    """What it may use of a device at most, 0 … 1."""
    busy: float | None
    """0 … 1, of the last moments; None: nobody measures."""
    turn: bool
    """It has a device."""
    why: WhyRow | None = None
    swap: SwapRow | None = None
    trace: str = ""
    """Id of its trace, hex; "": none."""
    tags: tuple[str, ...] = ()
    """Remarks: `pinned memory`, `overrun`, `barred: claims`, `over its limit`, `without hook` …"""


@frozen(kw_only=True)
class DeviceRow:
    """One device of the node."""

    slot: int | None
    uuid: str
    name: str
    total_bytes: int
    used_bytes: int | None
    """By the driver's account; None: it does not answer."""
    reserved_bytes: int
    """What jobs hold, or are about to, by gpud's account."""
    utilisation: float | None
    power_w: float | None
    temperature_c: float | None
    holder: int | None
    """The job that has it, where jobs take turns."""
    holder_until_at_ns: int | None
    waiters: int
    unmanaged: int
    """Processes on it that no hook is in."""
    busy_ns: int
    """GPU time charged there so far, all jobs."""
    arbiter: str
    """`preempt`, `open`, …"""
    policies: tuple[str, ...]
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class ClassRow:
    """One class of an applied policy on one device."""

    device: int
    policy: str
    job_class: str
    rank: int
    """Smaller is higher."""
    jobs: int
    active: int
    held: int
    target: float | None
    """Its part of the device, 0 … 1, as the policy gives it; None: it has none."""
    spent_ns: int
    """GPU time charged so far, all its jobs."""
    wait_p50_ns: int | None
    wait_p95_ns: int | None
    """Of holds of its launches, lately; None: there were none."""


@frozen(kw_only=True)
class NodeRow:
    """The daemon and what it runs."""

    host: str
    version: str
    pid: int
    simulated: str | None
    driver: str
    """`ok`, else one sentence."""
    generation: int
    policy_set: SetView
    policies: tuple[PolicyView, ...]
    readonly: str = ""
    """Why who asks may change nothing; "": they may. (Each change is judged by itself.)"""


@frozen(kw_only=True)
class Decision:
    """One entry of the journal: what was decided, by whom, why."""

    number: int
    """Counts up from 1 in one daemon's life. Not all come with a feed: a policy may turn its knobs all the time."""
    at_ns: int
    """Unix time."""
    kind: str
    """`attach`, `detach`, `grant`, `revoke`, `back`, `overrun`, `swap_out`, `swap_in`, `hold`, `go`, `queue` (waits to
    be let in), `admit`, `refuse`, `knob`, `reload`, `reject`, `audit`, `oom`, `note`."""
    text: str
    """One sentence."""
    device: int | None = None
    job: int | None = None
    by: str = ""
    """`turns.gpol:12`; for `audit`: `alice (uid 1000, pid 4711)`, or the line of the policy that has ended a job."""
    level: str = "info"
    """`info`, `warning`."""


@frozen(kw_only=True)
class Feed:
    """One step of a subscription, or of the past. Holds what changed since the one before, everything when `full`."""

    number: int
    """Counts up by one from anywhere; a gap means that `full` follows. What is too long for one goes in several, of
    which only the first is full."""
    at_ns: int
    """Unix time."""
    full: bool
    past: bool = False
    """Of the journal: it is as of that time."""
    node: NodeRow | None = None
    """None: unchanged."""
    devices: tuple[DeviceRow, ...] = ()
    """Those that changed; key: uuid."""
    jobs: tuple[JobRow, ...] = ()
    """Those that changed; key: id."""
    gone: tuple[int, ...] = ()
    """Jobs that ended."""
    classes: tuple[ClassRow, ...] | None = None
    """All; None: unchanged."""
    decisions: tuple[Decision, ...] = ()
    """New ones; in a full one the last few."""
