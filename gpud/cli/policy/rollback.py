"""`gpud policy rollback`: goes back to policies that ran before."""

import click

from gpud.cli.helped import Verb
from gpud.cli.policy.changes import reload_text
from gpud.cli.policy.output import write
from gpud.cli.screen import print_json
from gpud.config import load_config
from gpud.control.client import RELOAD_S, Client


@click.command(
    "rollback",
    cls=Verb,
    examples=[
        ("gpud policy rollback", "the last good set before this one"),
        ("gpud policy rollback 12", "number 12 of gpud policy history"),
    ],
)
@click.argument("number", type=click.IntRange(1), required=False, metavar="[N]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(number: int | None, as_json: bool) -> int:
    """Run an earlier set of policies: number N of gpud policy history, or the last good one before the one that runs.

    The files stay as they are; the daemon takes them again when they change, or by gpud policy reload.
    """
    with Client(load_config(), RELOAD_S) as daemon:
        reload = daemon.rollback(number)
    if as_json:
        print_json(reload)
    else:
        write(reload_text(reload))
    return 1 if reload.rejected is not None else 0
