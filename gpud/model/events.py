"""What has happened, in the past tense. `react` turns each into effects. Times are monotonic nanoseconds."""

from attrs import frozen

from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot


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
    when_ns: int


@frozen(kw_only=True)
class WentIdle:
    """All a client has launched on a device is finished."""

    client: ClientId
    slot: Slot
    when_ns: int


@frozen(kw_only=True)
class Detached:
    """A client's session or process has ended. Ignored when the client has a newer session by now."""

    client: ClientId
    session: SessionId | None
    reason: str


@frozen(kw_only=True)
class DevicesFound:
    """The driver told of its devices: (uuid of 16 bytes, name, total bytes)."""

    devices: tuple[tuple[bytes, str, int], ...]


@frozen(kw_only=True)
class Presence:
    """One client on one device, as its presence page says."""

    active: bool
    idle_since_ns: int


@frozen(kw_only=True)
class Tick:
    """Time has passed. `presence` has what `wanted(state)` asked for."""

    presence: dict[tuple[ClientId, Slot], Presence]


@frozen(kw_only=True)
class DrainAsked:
    """The daemon is about to end and leaves the pages as they are."""


@frozen(kw_only=True)
class StopAsked:
    """The operator ends it: every gate opens now."""


Event = (
    LaunchAsked | LauncherEnded | AttachAsked | PagesFailed | Mapped | DevicesReported | PeersMapped | WentActive
    | WentIdle | Detached | SessionEnded | DevicesFound | Tick | DrainAsked | StopAsked
)  # fmt: skip
