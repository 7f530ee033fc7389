"""`gpud set`: changes a running job."""

from collections.abc import Callable
from typing import TypeVar

import click
import msgspec

from gpud.cli.completing import changes as complete_changes
from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.cli.helped import Verb
from gpud.cli.jobs import find_job, job_argument
from gpud.cli.screen import client, console, escape, print_json, size
from gpud.control import wire
from gpud.model.errors import UsageError
from gpud.model.units import parse_bytes, parse_ratio
from gpud.model.views import JobView

FORM = "write: gpud set JOB class=NAME mem=8GiB compute=30%; auto in place of a value takes a change back"
KEYS = ("class", "mem", "compute")
_T = TypeVar("_T")


@click.command(
    "set",
    cls=Verb,
    examples=[
        ("gpud set train class=low", "it steps back"),
        ("gpud set train class=auto", "its labels decide again"),
        ("gpud set 7 mem=8GiB compute=30%", "limits of job 7"),
        ("gpud set pid:4711 mem=auto", "only the policy's limit holds again"),
    ],
)
@job_argument
@click.argument("changes", nargs=-1, required=True, metavar="CHANGE…", shell_complete=complete_changes)
@click.option("--json", "as_json", is_flag=True, help="One JSON object: the job.")
def command(job: str, changes: tuple[str, ...], as_json: bool) -> None:
    """Change a running job, all of it or, where one change is refused, nothing. What is set stays, over reloads and
    restarts too, until `auto` takes it back.

    \b
    class=NAME     its class in the policy that arbitrates
    mem=8GiB       limit of its memory on each device
    compute=30%    limit of its GPU time, as part of a device

    Of a limit that the policy has too, the tighter one holds. A job that holds more memory than a new limit keeps it,
    and gets no more until it has freed enough.
    """
    wanted = read_changes(changes)
    with client() as daemon:
        view = daemon.set(msgspec.structs.replace(wanted, job=find_job(daemon, job)))
    if as_json:
        print_json(view)
    else:
        for line in _lines(view, wanted):
            console().print(escape(line), soft_wrap=True)


def read_changes(changes: tuple[str, ...]) -> wire.AskSet:
    """What is asked for, of no job yet. Raises UsageError, Failure."""
    given: dict[str, str] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not value:
            raise UsageError(f"{change!r} is no change; {FORM}")
        if key not in KEYS:
            raise Failure(f"nothing called {key!r} can be set", FORM, code=EXIT_USAGE)
        if key in given:
            raise UsageError(f"{key} is given twice; {FORM}")
        given[key] = value
    return wire.AskSet(
        job=0,
        job_class=_read(given.get("class"), str),
        memory_bytes=_read(given.get("mem"), lambda text: int(parse_bytes(text, "mem"))),
        compute_ppm=_read(given.get("compute"), _ppm),
    )


def _read(text: str | None, value: Callable[[str], _T]) -> _T | msgspec.UnsetType | None:
    if text is None:
        return msgspec.UNSET
    return None if text == "auto" else value(text)


def _ppm(text: str) -> int:
    millionths = round(parse_ratio(text, "compute") * 1_000_000)
    if not millionths:
        raise UsageError(f"compute: {text!r} would hold every launch; gpud pause does that")
    return millionths


def _lines(view: JobView, wanted: wire.AskSet) -> list[str]:
    """What holds now of what was changed: of a limit the tightest, which may be the policy's."""
    head = f"job {view.id} ({view.name})"
    found = []
    if wanted.job_class is not msgspec.UNSET:
        how = "pinned" if view.pinned else "by its labels"
        found.append(f"{head} is {view.job_class or 'of no class'}, {how}")
    if wanted.memory_bytes is not msgspec.UNSET:
        for memory in view.memory:
            limit = "no limit of memory" if memory.limit is None else f"at most {size(memory.limit)} of memory"
            over = f"; it holds {size(memory.used)} and may only free" if memory.over else ""
            by = f" ({memory.place})" if memory.limit is not None and memory.place else ""
            found.append(f"{head} has {limit} on gpu {memory.device}{by}{over}")
    if wanted.compute_ppm is not msgspec.UNSET:
        for time in view.time:
            limit = "no limit" if time.limit is None else f"at most {time.limit * 100:.4g}%"
            found.append(f"{head} has {limit} of GPU time on gpu {time.device}")
    return found or [f"{head}: set; it has no device yet"]
