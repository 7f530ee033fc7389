"""What happened to jobs, their turns and their memory: one record for each thing that is over. Times are monotonic.

What comes with each turn is a tuple: it is made in a microsecond."""

from typing import NamedTuple

from attrs import frozen

from gpud.engine.state import Tenant
from gpud.model.ids import JobId, Slot


@frozen(kw_only=True)
class Job:
    """Who it is: what does not change."""

    id: int
    name: str
    user: str
    uid: int
    pid: int
    """Of `gpud run`, or of the process itself."""
    command: str
    exe: str
    labels: tuple[tuple[str, str], ...]
    caller: str
    """TRACEPARENT, valid; "": none."""
    asked_ns: int


def job_of(tenant: Tenant) -> Job:
    return Job(
        id=tenant.id,
        name=tenant.name,
        user=tenant.who.user,
        uid=tenant.who.uid,
        pid=tenant.who.pid,
        command=tenant.command,
        exe=tenant.exe or tenant.who.exe,
        labels=tuple(sorted(tenant.labels.items())),
        caller=tenant.caller,
        asked_ns=tenant.began_ns,
    )


@frozen(kw_only=True)
class Came:
    """A job was let in."""

    job: Job
    at_ns: int


@frozen(kw_only=True)
class Refused:
    """A job was not let in, or left the line."""

    job: Job
    at_ns: int
    text: str


@frozen(kw_only=True)
class Gone:
    """A job has ended."""

    job: JobId
    at_ns: int


class Phase(NamedTuple):
    """`wait`, `swap_in`, `hold` or `swap_out` of a turn."""

    name: str
    began_ns: int
    ended_ns: int


class TurnRef(NamedTuple):
    """One turn of one job."""

    job: JobId
    epoch: int


class TurnMoment(NamedTuple):
    """A turn on one device, from the moment when it was asked for until its memory was gone, or a part of one that goes
    on. Its phases follow each other without a gap."""

    job: JobId
    slot: Slot
    epoch: int
    """Of the grant; 0: it was never had."""
    began_ns: int
    ended_ns: int
    phases: tuple[Phase, ...]
    end: str
    """`back`: given back; `asked back`; `gone`: with its process; `timed out`, `withdrawn`: never had; `goes on`."""
    taken_in: int = 0
    """Bytes, as the job said once they were in."""
    let_go: int = 0
    """Bytes that left right after it, for the next one."""
    overran: bool = False
    failed: str = ""
    """What went wrong with its memory."""
    asked_back_ns: int | None = None
    back_ns: int | None = None
    after: TurnRef | None = None
    """The turn that it waited for."""
    next_job: JobId | None = None
    """Who has the device next, or is first in line."""
    part: int = 0
    """0: the whole, or its beginning."""


@frozen(kw_only=True)
class SwapMoment:
    """Memory of a job left a device at some other time than right after its turn."""

    job: JobId
    slot: Slot
    began_ns: int
    ended_ns: int
    bytes: int
    next_job: JobId | None
    """Who has the device."""
    failed: str = ""


@frozen(kw_only=True)
class Evicted:
    """A person has taken the devices from a job."""

    job: JobId
    began_ns: int
    ended_ns: int
    by: str


@frozen(kw_only=True)
class NoMemory:
    """An allocation failed."""

    job: JobId
    slot: Slot
    began_ns: int
    ended_ns: int
    bytes: int
    why: str


Record = Came | Refused | Gone | TurnMoment | SwapMoment | Evicted | NoMemory
