"""What goes over control.sock: a 4-byte little-endian length, then that many bytes of msgpack, at most 1 MiB.

Every frame is a map with `version` and `id`. A request's `ask` is one of the Ask structs; the reply with its `id` holds
`answer`, or `error`. Several requests may be under way on one connection. What is long is answered in several replies,
with `more` true on all but the last; a subscription (AskFeed) until the connection ends.
"""

import struct
from typing import Any

import msgspec

from gpud.model.errors import ProtocolError, VersionError
from gpud.model.live_views import Decision, Feed
from gpud.model.policy_views import DevicePlanView, FileView, HistoryView, RejectedView, ReloadView, SetView
from gpud.model.views import JobStats, JobView, PolicyView, StatusView, UnmanagedView, WhyView

VERSION = 3
MAX_BYTES = 1 << 20
LENGTH = struct.Struct("<I")


class AskStatus(msgspec.Struct, frozen=True, kw_only=True, tag="status"):
    """→ StatusView."""


class AskPs(msgspec.Struct, frozen=True, kw_only=True, tag="ps"):
    """→ list of JobView."""


class AskUnmanaged(msgspec.Struct, frozen=True, kw_only=True, tag="unmanaged"):
    """→ list of UnmanagedView."""


class AskStats(msgspec.Struct, frozen=True, kw_only=True, tag="stats"):
    """→ list of JobStats: of one job, or of all."""

    job: int | None = None


class AskJobOf(msgspec.Struct, frozen=True, kw_only=True, tag="job_of"):
    """→ JobView of the job that a process belongs to."""

    pid: int


class AskWhy(msgspec.Struct, frozen=True, kw_only=True, tag="why"):
    """→ WhyView."""

    job: int


class AskSet(msgspec.Struct, frozen=True, kw_only=True, tag="set"):
    """Change a running job; what is unset stays as it is. All or nothing. → JobView."""

    job: int
    job_class: str | msgspec.UnsetType | None = msgspec.UNSET
    """Pin it to a class of its arbiter; None: by its labels."""
    memory_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    """Limit of its device memory, on each device, as tight as the policy's at least; None: as the policy says."""
    compute_ppm: int | msgspec.UnsetType | None = msgspec.UNSET
    """Limit of its GPU time in millionths of a device, likewise."""


class AskPause(msgspec.Struct, frozen=True, kw_only=True, tag="pause"):
    """Hold every launch of a job until it is resumed. → DoneAnswer."""

    job: int


class AskResume(msgspec.Struct, frozen=True, kw_only=True, tag="resume"):
    """→ DoneAnswer."""

    job: int


class AskEvict(msgspec.Struct, frozen=True, kw_only=True, tag="evict"):
    """Take the device from a job now: its turn ends, its memory leaves where it can. → DoneAnswer, once it is asked."""

    job: int


class AskKill(msgspec.Struct, frozen=True, kw_only=True, tag="kill"):
    """Send a signal to all processes of a job. → DoneAnswer."""

    job: int
    signal: str = "TERM"
    """Name without SIG: TERM, INT, HUP, KILL, QUIT, USR1, USR2, STOP, CONT."""
    pids: tuple[int, ...] = ()
    """Only if these are its processes, as who asks has seen them; (): whatever they are."""


class AskFeed(msgspec.Struct, frozen=True, kw_only=True, tag="feed"):
    """Subscribe: a full Feed now, then one with what changed, again and again. → FeedAnswer with `more`."""

    interval_ms: int = 500
    """Between two steps: 100 … 60,000. Decisions of kind `audit` and the like come with the next step."""


class AskPast(msgspec.Struct, frozen=True, kw_only=True, tag="past"):
    """The node as it was. → FeedAnswer: past, full, of the last second kept at or before `at_ns`; of many jobs in
    several parts."""

    at_ns: int
    """Unix time."""


class AskJournal(msgspec.Struct, frozen=True, kw_only=True, tag="journal"):
    """Decisions of a span of time, oldest first. → JournalAnswer."""

    since_at_ns: int
    until_at_ns: int
    """Unix time."""
    job: int | None = None
    device: int | None = None
    most: int = 1000
    """The newest so many of them; 1 … 5,000."""


class AskReload(msgspec.Struct, frozen=True, kw_only=True, tag="reload"):
    """Read the policies again, now. → ReloadView, once all is done."""


class AskRollback(msgspec.Struct, frozen=True, kw_only=True, tag="rollback"):
    """Run an earlier set. → ReloadView."""

    number: int | None = None
    """In the history; None: the last good one before the one that runs."""


class AskHistory(msgspec.Struct, frozen=True, kw_only=True, tag="history"):
    """→ list of HistoryView, newest first."""


class AskShow(msgspec.Struct, frozen=True, kw_only=True, tag="show"):
    """→ ShowAnswer."""

    file: str | None = None
    """Name of a file of the running set, whose text is wanted too."""


class AskDiff(msgspec.Struct, frozen=True, kw_only=True, tag="diff"):
    """What a reload would do now. → DiffAnswer."""


class AskStop(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    """Publish every failsafe at once, then end. Answered before the daemon ends."""


Ask = (
    AskStatus | AskPs | AskUnmanaged | AskStats | AskJobOf | AskWhy | AskSet | AskPause | AskResume | AskEvict | AskKill
    | AskFeed | AskPast | AskJournal | AskReload | AskRollback | AskHistory | AskShow | AskDiff | AskStop
)  # fmt: skip


class StatusAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="status"):
    status: StatusView


class PsAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="ps"):
    jobs: list[JobView]


class UnmanagedAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="unmanaged"):
    processes: list[UnmanagedView]


class StatsAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="stats"):
    stats: list[JobStats]


class JobOfAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="job_of"):
    job: JobView


class WhyAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="why"):
    why: WhyView


class SetAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="set"):
    job: JobView


class DoneAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """Of AskPause, AskResume, AskEvict, AskKill."""

    job: JobView
    """As it is after it."""
    text: str
    """What was done, one sentence."""


class FeedAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="feed"):
    """Of AskFeed and AskPast."""

    feed: Feed


class JournalAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="journal"):
    decisions: tuple[Decision, ...]
    oldest_at_ns: int
    """Unix time from which on the journal knows all; before it, only what is rarer than knobs that turn."""
    left_out: int = 0
    """Older ones in that span, over `most`."""


class ReloadAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="reload"):
    """Of AskReload and AskRollback."""

    reload: ReloadView


class HistoryAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="history"):
    sets: list[HistoryView]


class ShowAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="show"):
    set: SetView
    policies: tuple[PolicyView, ...]
    files: tuple[FileView, ...]
    text: str | None = None


class DiffAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="diff"):
    running: str
    """Digest."""
    directory: str
    """Digest of what the directory holds."""
    plan: tuple[DevicePlanView, ...] = ()
    rejected: RejectedView | None = None
    """What the directory holds would not load."""


class StopAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    opened: int
    """Clients whose gates were opened."""


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="error"):
    code: str
    """`unknown` (no such job), `refused` (not allowed), `protocol`, `version`, `busy` (the answer has no
    bounds), `internal` (an error of the daemon)."""
    text: str
    """A sentence for the user."""


Answer = (
    StatusAnswer | PsAnswer | UnmanagedAnswer | StatsAnswer | JobOfAnswer | WhyAnswer | SetAnswer | DoneAnswer
    | FeedAnswer | JournalAnswer | ReloadAnswer | HistoryAnswer | ShowAnswer | DiffAnswer | StopAnswer | ErrorAnswer
)  # fmt: skip


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What every version of a frame has."""

    version: int
    id: int


class Request(Head, frozen=True, kw_only=True):
    ask: Ask


class Reply(Head, frozen=True, kw_only=True):
    answer: Answer
    more: bool = False


_encoder = msgspec.msgpack.Encoder()
_head = msgspec.msgpack.Decoder(Head)
_request = msgspec.msgpack.Decoder(Request)
_reply = msgspec.msgpack.Decoder(Reply)


def encode(frame: Request | Reply) -> bytes:
    """Length and body. Raises ProtocolError when the body is over MAX_BYTES, or holds what no frame can."""
    try:
        return framed(packed(frame) if isinstance(frame, Reply) else _encoder.encode(frame))
    except OverflowError:
        raise ProtocolError("a number has more than 64 bits") from None
    except UnicodeEncodeError as error:
        raise ProtocolError(f"{error.object!r:.80} is not UTF-8 text") from None


def packed(answer: object) -> bytes:
    """As msgpack. Names of files need not be UTF-8: here they are only shown, and such bytes become U+FFFD. Raises
    OverflowError."""
    try:
        return _encoder.encode(answer)
    except UnicodeEncodeError:
        return _encoder.encode(_shown(msgspec.to_builtins(answer)))


def framed(body: bytes) -> bytes:
    """With its length. Raises ProtocolError when it is over MAX_BYTES."""
    if len(body) > MAX_BYTES:
        raise ProtocolError(f"a frame of {len(body)} bytes is over the limit of {MAX_BYTES}")
    return LENGTH.pack(len(body)) + body


def _shown(data: Any) -> Any:
    """The same with text that can be printed."""
    if isinstance(data, str):
        return data.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(data, dict):
        return {_shown(key): _shown(value) for key, value in data.items()}
    return [_shown(item) for item in data] if isinstance(data, list | tuple) else data


def body_size(prefix: bytes) -> int:
    """Bytes that follow the 4-byte prefix. Raises ProtocolError when they are more than MAX_BYTES."""
    (size,) = LENGTH.unpack(prefix)
    if size > MAX_BYTES:
        raise ProtocolError(f"a frame of {size} bytes is over the limit of {MAX_BYTES}")
    return int(size)


def decode_request(body: bytes) -> Request:
    """Raises VersionError for a frame of another version, ProtocolError for anything else that is wrong."""
    _check_version(body, "client", "daemon")
    try:
        return _request.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ProtocolError(f"a request cannot be read: {error}") from None


def decode_reply(body: bytes) -> Reply:
    """Raises VersionError for a frame of another version, ProtocolError for anything else that is wrong."""
    _check_version(body, "daemon", "command")
    try:
        return _reply.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ProtocolError(f"a reply cannot be read: {error}") from None


def request_id(body: bytes) -> int:
    """The id of a frame that may be wrong otherwise; 0 when there is none."""
    try:
        return _head.decode(body).id
    except (msgspec.DecodeError, msgspec.ValidationError):
        return 0


def _check_version(body: bytes, theirs: str, ours: str) -> None:
    try:
        version = _head.decode(body).version
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ProtocolError(f"a frame cannot be read: {error}") from None
    if version != VERSION:
        raise VersionError(
            f"the {theirs} speaks version {version} of the control protocol, this {ours} version {VERSION}; "
            "install the same gpud for both, and restart the daemon"
        )
