"""`gpud pause`, `resume`, `evict`, `kill`: what is done to a running job at once. The daemon judges who may."""

import signal as signals
from collections.abc import Callable

import click

from gpud.cli import completing
from gpud.cli.helped import Verb
from gpud.cli.jobs import find_job, job_argument
from gpud.cli.screen import client, console, escape, print_json
from gpud.control import wire
from gpud.control.client import Client
from gpud.model.errors import UsageError

_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object: the job, and what was done.")


def _act(job: str, as_json: bool, what: Callable[[Client, int], wire.DoneAnswer]) -> None:
    with client() as daemon:
        done = what(daemon, find_job(daemon, job))
    if as_json:
        print_json(done)
    else:
        console().print(escape(done.text), soft_wrap=True)


@click.command(
    "pause",
    cls=Verb,
    examples=[("gpud pause train", "the job called train launches nothing"), ("gpud pause 7", "job 7")],
)
@job_argument
@_json_option
def pause(job: str, as_json: bool) -> None:
    """Hold every launch of a job until gpud resume. What runs on the GPU ends as usual; its memory stays where it
    is."""
    _act(job, as_json, lambda daemon, number: daemon.pause(number))


@click.command("resume", cls=Verb, examples=[("gpud resume train", "it goes on")])
@job_argument
@_json_option
def resume(job: str, as_json: bool) -> None:
    """Let a paused job go on, as its policy lets it."""
    _act(job, as_json, lambda daemon, number: daemon.resume(number))


@click.command(
    "evict",
    cls=Verb,
    examples=[
        ("gpud evict train", "its turn ends, the next one comes in"),
        ("gpud evict pid:4711", "the job of that process"),
    ],
)
@job_argument
@_json_option
def evict(job: str, as_json: bool) -> None:
    """Take the device from a job now: its turn ends, and its memory leaves where it can. It asks again for a turn with
    its next launch."""
    _act(job, as_json, lambda daemon, number: daemon.evict(number))


@click.command(
    "kill",
    cls=Verb,
    examples=[("gpud kill train", "asks it to end (TERM)"), ("gpud kill --signal KILL 7", "ends job 7 at once")],
)
@click.option(
    "--signal",
    "name",
    default="TERM",
    show_default=True,
    metavar="SIGNAL",
    shell_complete=completing.signals,
    help=f"{', '.join(completing.SIGNALS)}; or the number of one of them.",
)
@job_argument
@_json_option
def kill(job: str, name: str, as_json: bool) -> None:
    """Send a signal to all processes of a job: TERM, which asks them to end, or another one."""
    wanted = _signal(name)
    _act(job, as_json, lambda daemon, number: daemon.kill(number, wanted))


def _signal(text: str) -> str:
    """`term`, `SIGTERM`, `15` → `TERM`."""
    name = text.upper().removeprefix("SIG")
    if name.isascii() and name.isdigit():
        name = next((one for one in completing.SIGNALS if getattr(signals, f"SIG{one}") == int(name)), name)
    if name not in completing.SIGNALS:
        raise UsageError(f"--signal: {text!r} is none of {', '.join(completing.SIGNALS)}")
    return name
