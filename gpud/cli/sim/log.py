"""`gpud sim log`: what a simulated node has done, by the log of its device process."""

import json
import sys
from pathlib import Path

import click

from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.cli.helped import Verb
from gpud.cli.sim.devicelog import BadLog, read_log
from gpud.cli.sim.summary import summarise

MS = 1_000_000
WIDTH = 120
"""Columns of output that goes to no terminal."""


@click.command(
    "log",
    cls=Verb,
    epilog="Exit codes: 0 done, 1 this is no device log or it misses lines, 2 wrong usage.",
    examples=[
        ("gpud sim log node.jsonl", "who ran how long"),
        ("gpud sim log node.jsonl --svg node.svg --from 0 --to 50", "draw the first 50 ms"),
    ],
)
@click.argument("file", metavar="FILE")
@click.option("--svg", metavar="FILE", help="Draw what ran when, for whom, there.")
@click.option("--from", "first", type=float, metavar="MS", help="Of --svg: begin at this model time, in ms.")
@click.option("--to", "last", type=float, metavar="MS", help="Of --svg: end there.")
@click.option("--json", "as_json", is_flag=True, help="The figures as one JSON object.")
def command(file: str, svg: str | None, first: float | None, last: float | None, as_json: bool) -> int:
    """Says what ran on a simulated node: devices, programs, kernels, copies, switches.

    FILE is what GPUD_SIM_LOG named when the node began. All times are the model's.
    """
    if (first is not None or last is not None) and svg is None:
        raise Failure("--from and --to are of a picture", "add --svg FILE", code=EXIT_USAGE)
    if first is not None and last is not None and not first < last:
        raise Failure(f"--from {first:g} is not before --to {last:g}", code=EXIT_USAGE)
    try:
        log = read_log(Path(file))
    except BadLog as error:
        raise Failure(str(error), "set GPUD_SIM_LOG for the first program of a simulated node", code=1) from None
    if svg is not None:
        from gpud.cli.sim.picture import draw

        bounds = [None if ms is None else round(ms * MS) for ms in (first, last)]
        try:
            Path(svg).write_text(draw(log, *bounds), encoding="utf-8")
        except OSError as error:
            raise Failure(f"cannot write {svg}: {(error.strerror or str(error)).lower()}", code=EXIT_USAGE) from None
    if as_json:
        click.echo(json.dumps(summarise(log).document()))
    elif svg is None:
        from rich.console import Console

        from gpud.cli.sim.table import show

        width = None if sys.stdout.isatty() else WIDTH
        show(Console(highlight=False, width=width), summarise(log))
    return 0
