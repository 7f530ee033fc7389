"""`gpud stop`: ends the daemon."""

import click

from gpud.cli.helped import Verb
from gpud.cli.screen import client, console, print_json


@click.command(
    "stop",
    cls=Verb,
    examples=[
        ("gpud stop", "programs go on, without gpud"),
    ],
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> None:
    """End the daemon. Every gate opens first; programs go on, without gpud."""
    with client() as daemon:
        opened = daemon.stop()
    if as_json:
        print_json({"stopped": True, "opened": opened})
    else:
        console().print(f"stopped; the gates of {opened} process{'' if opened == 1 else 'es'} were opened")
