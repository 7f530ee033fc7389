"""`gpud top`: the live screen."""

from pathlib import Path

import click

from gpud.cli import completing
from gpud.cli.helped import Verb
from gpud.model.units import MILLISECOND, parse_duration

SHORTEST_MS, LONGEST_MS = 100, 60_000


def _interval_ms(context: click.Context, parameter: click.Parameter, text: str) -> int:
    milliseconds = parse_duration(text, "--interval") // MILLISECOND
    if not SHORTEST_MS <= milliseconds <= LONGEST_MS:
        raise click.BadParameter(f"{text!r} is not from 100ms to 1min", context, parameter)
    return milliseconds


@click.command(
    "top",
    cls=Verb,
    examples=[
        ("gpud top", "the screen; ? shows its keys"),
        ("gpud top --filter 'class:low state:held'", "only what waits in low"),
        ("gpud top --once", "one screen as text, for a mail"),
        ("gpud top --json", "the node as one JSON document"),
        ("gpud top --record day.gpudtop", "and keep what is shown"),
        ("gpud top --replay day.gpudtop", "see it again"),
    ],
)
@click.option("--once", is_flag=True, help="Print one screen as text, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print the node as one JSON document, and end.")
@click.option("--readonly", is_flag=True, help="Change nothing, whatever key is pressed.")
@click.option("--user", metavar="USER", help="Only jobs of this user.")
@click.option(
    "--class", "job_class", metavar="CLASS", shell_complete=completing.classes, help="Only jobs of this class."
)
@click.option("--gpu", metavar="N|UUID", help="Only jobs on this device.")
@click.option("--filter", "wanted", default="", metavar="TEXT", help="What the filter line holds: 'user:alice mem>4G'.")
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False), help="Write all that comes to this file.")
@click.option(
    "--replay", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Show such a file, not a daemon."
)
@click.option(
    "--interval", "interval_ms", default="500ms", show_default=True, metavar="DURATION", callback=_interval_ms,
    help="Between two steps, 100ms to 1min.",
)  # fmt: skip
@click.option(
    "--look", type=click.Choice(["auto", "dark", "light", "none"]), default="auto", show_default=True,
    help="Colours for a dark or a light terminal, or none.",
)  # fmt: skip
def command(
    once: bool,
    as_json: bool,
    readonly: bool,
    user: str | None,
    job_class: str | None,
    gpu: str | None,
    wanted: str,
    record: Path | None,
    replay: Path | None,
    interval_ms: int,
    look: str,
) -> int:
    """A live screen of devices, jobs and why each of them runs or waits; with the past, changes of policies, and keys
    that change, pause, evict and end jobs after a question.

    It asks the daemon and nothing else, so that a driver that hangs does not stop it, and no GPU is kept awake.
    """
    if record is not None and replay is not None:
        raise click.UsageError("--record and --replay exclude each other: what is replayed is on file already")
    from gpud.tui.main import run
    from gpud.tui.options import Options

    return run(
        Options(
            once=once,
            json=as_json,
            readonly=readonly,
            user=user,
            job_class=job_class,
            gpu=gpu,
            filter=wanted,
            record=record,
            replay=replay,
            interval_ms=interval_ms,
            look=look,
        )
    )
