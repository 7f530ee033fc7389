"""What is to be done, in the imperative. `react` returns them; `service` carries them out, in order."""

from collections.abc import Callable

from attrs import field, frozen

from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.knobs import DeviceWords, Explained, PeerEntry
from gpud.model.levels import Division, Level


@frozen(kw_only=True)
class CreatePages:
    """Make a client's pages, or with `adopt` only its control page, and take over the ones it has."""

    session: SessionId
    client: ClientId
    generation: Generation
    adopt: bool


@frozen(kw_only=True)
class DropPages:
    """The client is gone."""

    client: ClientId


@frozen(kw_only=True)
class PublishDevice:
    """Write one device of a client's control page and wake who is held on it."""

    client: ClientId
    slot: Slot
    words: DeviceWords


@frozen(kw_only=True)
class Divide:
    """Divide the time of a device so, from now on. Comes after the words that it belongs to."""

    slot: Slot
    division: Division | None
    """None: nothing is divided there."""
    resumed: tuple[Level, ...] = ()
    """Of a daemon before: levels go on from these."""


@frozen(kw_only=True)
class TellEdges:
    """Write whether hooks shall tell of their edges on a device, also into the pages of those that come to it."""

    slot: Slot
    told: bool


@frozen(kw_only=True)
class PublishFailsafe:
    """Write what a client's gates do once the lease has run out."""

    client: ClientId
    after_ns: int | None
    """They open this long after it; None: never by themselves."""


@frozen(kw_only=True)
class RefreshLease:
    """All control pages are valid until then."""

    until_ns: int


@frozen(kw_only=True)
class SendWelcome:
    """Hand the pages over."""

    session: SessionId
    client: ClientId
    generation: Generation
    job: JobId
    adopt: bool
    known: tuple[PeerEntry, ...] = ()
    """Peers whose pages it has mapped already, by an earlier daemon's hand."""


@frozen(kw_only=True)
class SendSlots:
    """None: this device is not managed."""

    client: ClientId
    slots: tuple[Slot | None, ...]


@frozen(kw_only=True)
class SendPeers:
    """The complete set; the session knows which of them the client has mapped already."""

    client: ClientId
    serial: int
    peers: tuple[PeerEntry, ...]


@frozen(kw_only=True)
class SendAllocReply:
    """To whom an allocation of a client waits for."""

    client: ClientId
    slot: Slot
    request: int
    code: int
    """0: there is room, try again; else GPUD_MEMORY_NO_*."""


@frozen(kw_only=True)
class SwapOut:
    """So many bytes of a client shall leave a device. Its gate is shut and drained."""

    client: ClientId
    slot: Slot
    request: int
    bytes: int


@frozen(kw_only=True)
class MakeHostSlots:
    """Make host slots of so many bytes for a client and hand them over."""

    client: ClientId
    slot: Slot
    request: int
    bytes: int


@frozen(kw_only=True)
class SendNoSlots:
    """A client gets none."""

    client: ClientId
    slot: Slot
    request: int


@frozen(kw_only=True)
class SendLockGranted:
    """Devices are the client's; its page says so already."""

    client: ClientId
    slots: frozenset[Slot]
    epoch: int
    until_ns: int
    """End of the turn while others wait."""
    bytes: int
    """What may come in now."""
    only_bytes: bool = False
    """Of a grant that it has: so much may come in now. Means nothing to who is not coming in by that grant."""


@frozen(kw_only=True)
class SendLockAgain:
    """Nothing new of that grant, but its page says by now that somebody else wants the device: if it is done, it gives
    it back. Means nothing to who has given that grant back."""

    client: ClientId
    slots: frozenset[Slot]
    epoch: int


@frozen(kw_only=True)
class SendLockRevoked:
    """The client shall drain and give back."""

    client: ClientId
    slots: frozenset[Slot]
    epoch: int
    deadline_ns: int


@frozen(kw_only=True)
class SendLockRefused:
    """A request is not granted, and why."""

    client: ClientId
    request: int
    text: str


@frozen(kw_only=True)
class SendJob:
    """To a launcher."""

    session: SessionId
    job: JobId
    environment: tuple[tuple[str, str], ...]


@frozen(kw_only=True)
class SendAttached:
    """To the launcher of a job."""

    job: JobId
    pid: int


@frozen(kw_only=True)
class SendQueued:
    """To whom waits in line to be let in."""

    session: SessionId
    wait_ns: int | None
    """At most; None: for ever."""
    text: str
    """What it waits for."""


@frozen(kw_only=True)
class Refuse:
    """Say no and close."""

    session: SessionId
    code: int
    text: str


@frozen(kw_only=True)
class SaveState:
    """What comes after in the same list may be seen outside only once this is on file."""


@frozen(kw_only=True)
class Record:
    """A line for the log, and a decision for the journal. `level`: `info` or `warning`."""

    level: str
    text: str
    kind: str = "note"
    """As in live_views.Decision; "": for the log alone, since another effect says the same."""
    job: int | None = None
    slot: Slot | None = None
    by: str = ""
    """`turns.gpol:12`, or who asked."""


@frozen(kw_only=True)
class EndJob:
    """A policy ends a job, as `gpud kill` does."""

    job: JobId
    signal: str
    """`TERM`, `KILL`."""
    slot: Slot
    why: str
    """A clause."""
    by: str
    """`turns.gpol:12`"""


@frozen(kw_only=True)
class KnobChanged:
    """A policy has decided otherwise on one device. The pages are written by the effects after this one."""

    slot: Slot
    job: JobId | None = None
    """By a rule about this one tenant; None: of the class."""
    tell: Callable[[], tuple[str, Explained]] = field(eq=False, repr=False)
    """What it was, as the language writes it, and why it is otherwise now: words that are made when somebody asks."""

    @property
    def before(self) -> str:
        return self.tell()[0]

    @property
    def because(self) -> Explained:
        return self.tell()[1]


@frozen(kw_only=True)
class Reloaded:
    """Another set of policies is in force: all pages are written."""

    generation: int
    """Of the set: 1 for the daemon's first, then one more each time."""
    digest: str
    why: str
    changes: tuple[str, ...]
    """What is different, a sentence each."""


@frozen(kw_only=True)
class StruckOut:
    """A policy cannot go on: it takes too long, or fails. It does not tick any more; what it decided last holds."""

    policy: str
    text: str
    generation: int
    """Of the set that it belongs to."""


@frozen(kw_only=True)
class DevicesChanged:
    """A device came, or got a name: `apply` lines may mean others than before."""


Effect = (
    CreatePages | DropPages | PublishDevice | Divide | TellEdges | PublishFailsafe | RefreshLease | SendWelcome
    | SendSlots | SendPeers | SendJob | SendAttached | SendQueued | Refuse | SaveState | Record | KnobChanged
    | Reloaded | StruckOut | DevicesChanged | SendAllocReply | SwapOut | MakeHostSlots | SendNoSlots | SendLockGranted
    | SendLockAgain | SendLockRevoked | SendLockRefused | EndJob
)  # fmt: skip
