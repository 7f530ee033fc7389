"""What a shell may put for a job, a class or a change: asked of the daemon. A daemon that is not there, or is slow,
completes nothing: a key press never waits for long and never fails."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import click
from click.shell_completion import CompletionItem

from gpud.config import load_config
from gpud.control.client import Client
from gpud.model.errors import GpudError
from gpud.model.views import JobView

PATIENCE_S = 0.4
SIGNALS = ("TERM", "INT", "HUP", "KILL", "QUIT", "USR1", "USR2", "STOP", "CONT")
"""What `gpud kill --signal` sends."""

_PLAIN = re.compile(r"[\w./%+,][\w./%+,-]*")

_T = TypeVar("_T")
_D = TypeVar("_D")


def jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Numbers, and names that only one job has. bash puts a name into the line as it is, and runs what it says there:
    none is offered that says anything to a shell."""
    nobody: list[JobView] = []
    found = _ask(Client.ps, nobody)
    names = [job.name for job in found]
    offered = [(str(job.id), f"{job.name} of {job.user}, {job.state}") for job in found]
    offered += [
        (name, f"job {job.id}") for job in found if names.count(name := job.name) == 1 and _PLAIN.fullmatch(name)
    ]
    return _items(offered, incomplete)


def classes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Of all policies that arbitrate somewhere."""
    return _items(((name, "") for name in _classes()), incomplete)


def changes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For `gpud set JOB`: `class=low`. bash makes three words of that, of which click keeps the = to itself while it is
    the last; then only what comes after it is wanted."""
    before = list(context.params.get(parameter.name or "") or ())
    if before[-1:] == ["="]:
        before.pop()
    if before[-1:] in (["class"], ["mem"], ["compute"]):
        return _items(((value, "") for value in _values(before[-1])), incomplete)
    offered = [f"{key}={value}" for key in ("class", "mem", "compute") for value in _values(key)]
    return _items(((change, "") for change in offered), incomplete)


def signals(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _items(((name, "") for name in SIGNALS), incomplete.upper())


def _values(key: str) -> list[str]:
    return [*_classes(), "auto"] if key == "class" else ["auto"]


def _classes() -> list[str]:
    status = _ask(Client.status, None)
    rows = status.policies if status is not None else ()
    return list(dict.fromkeys(name for row in rows for one in row.policies if one.mode for name in one.classes))


def _items(offered: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(value, help=text or None) for value, text in offered if value.startswith(incomplete)]


def _ask(question: Callable[[Client], _T], otherwise: _D) -> _T | _D:
    try:
        with Client(load_config(), PATIENCE_S) as daemon:
            return question(daemon)
    except (GpudError, OSError):
        return otherwise
