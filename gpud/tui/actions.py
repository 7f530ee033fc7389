"""What a key asks the daemon to do to jobs: which requests, and the words in which they are confirmed."""

from collections.abc import Callable, Sequence

from attrs import frozen

from gpud.control import wire
from gpud.model.errors import UsageError
from gpud.model.live_views import JobRow
from gpud.model.units import parse_bytes, parse_ratio
from gpud.tui.ask import Change
from gpud.tui.text import amount, clean, percent

SIGNALS = ("TERM", "INT", "HUP", "KILL", "QUIT", "USR1", "USR2", "STOP", "CONT")
_PIDS = 8
"""More of them are counted, not named."""


@frozen(kw_only=True)
class Plan:
    """Something to be confirmed."""

    title: str
    """`Pause 2 jobs?`"""
    lines: tuple[str, ...]
    """Each job: number, name, user, pids."""
    asks: tuple[Change, ...]
    grave: bool = False
    """It cannot be taken back."""


Planner = Callable[[Sequence[JobRow]], Plan]


def pause(jobs: Sequence[JobRow]) -> Plan:
    """Pauses them; if all are paused, resumes them."""
    if all(job.paused_by for job in jobs):
        return _plan("Resume", jobs, tuple(wire.AskResume(job=job.id) for job in jobs))
    return _plan("Pause", jobs, tuple(wire.AskPause(job=job.id) for job in jobs if not job.paused_by))


def evict(jobs: Sequence[JobRow]) -> Plan:
    return _plan("Take the device from", jobs, tuple(wire.AskEvict(job=job.id) for job in jobs))


def kill(jobs: Sequence[JobRow], signal: str) -> Plan:
    """Only the processes that are shown get the signal."""
    asks = tuple(
        wire.AskKill(job=job.id, signal=signal, pids=tuple(process.pid for process in job.processes)) for job in jobs
    )
    return _plan(f"Send {signal} to", jobs, asks, grave=signal in ("TERM", "KILL", "QUIT", "INT", "HUP"))


def change(jobs: Sequence[JobRow], text: str) -> Plan:
    """`class=low mem=8GiB compute=30%`; `auto` leaves it to the policy. Raises UsageError."""
    said: dict[str, str] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if key not in ("class", "mem", "compute") or not equals or not value:
            raise UsageError(f"{word!r}: write class=NAME, mem=8GiB or compute=30%; `auto` leaves it to the policy")
        if key in said:
            raise UsageError(f"{key} stands there twice")
        said[key] = value
    if not said:
        raise UsageError("write class=NAME, mem=8GiB or compute=30%")
    set_it = {key: None if value == "auto" else value for key, value in said.items()}
    memory, compute = set_it.get("mem"), set_it.get("compute")
    ask = wire.AskSet(job=0)
    fields: dict[str, object] = {}
    if "class" in set_it:
        fields["job_class"] = set_it["class"]
    if "mem" in set_it:
        fields["memory_bytes"] = None if memory is None else parse_bytes(memory, "mem")
    if "compute" in set_it:
        fields["compute_ppm"] = None if compute is None else round(parse_ratio(compute, "compute") * 1e6)
    asks = tuple(_replaced(ask, job=job.id, **fields) for job in jobs)
    words = ", ".join(f"{key} = {'as the policy says' if value is None else value}" for key, value in set_it.items())
    plan = _plan("Change", jobs, asks)
    return Plan(title=plan.title, lines=(words, "", *plan.lines), asks=asks)


def as_it_is(job: JobRow) -> str:
    """`now: class=low  mem=8G  compute=50%`, whoever set it."""
    parts = [f"class={clean(job.job_class)}{' (pinned)' if job.pinned else ''}"] if job.job_class else []
    parts.append(f"mem={'no limit' if job.limit_bytes is None else amount(job.limit_bytes)}")
    parts.append(f"compute={'no limit' if job.limit is None else percent(job.limit)}")
    return "now: " + "  ".join(parts)


def named(job: JobRow) -> str:
    """`#3 train  of alice  pid 4711, 4712`."""
    pids = [str(process.pid) for process in job.processes]
    shown = ", ".join(pids[:_PIDS]) + (f" and {len(pids) - _PIDS} more" if len(pids) > _PIDS else "")
    return f"#{job.id} {clean(job.name)}  of {clean(job.user)}  " + (f"pid {shown}" if pids else "no process")


def _replaced(ask: wire.AskSet, **fields: object) -> wire.AskSet:
    made = {name: getattr(ask, name) for name in ask.__struct_fields__} | fields
    return wire.AskSet(**made)


def _plan(verb: str, jobs: Sequence[JobRow], asks: tuple[Change, ...], *, grave: bool = False) -> Plan:
    whom = f"job #{jobs[0].id}" if len(jobs) == 1 else f"{len(jobs)} jobs"
    return Plan(title=f"{verb} {whom}?", lines=tuple(named(job) for job in jobs), asks=asks, grave=grave)
