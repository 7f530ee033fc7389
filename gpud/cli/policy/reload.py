"""`gpud policy reload`: reads the policies again, now."""

import click

from gpud.cli.helped import Verb
from gpud.cli.policy.changes import reload_text
from gpud.cli.policy.output import write
from gpud.cli.screen import print_json
from gpud.config import load_config
from gpud.control.client import RELOAD_S, Client


@click.command(
    "reload",
    cls=Verb,
    examples=[
        ("gpud policy reload", "take the directory now; 1 when it is rejected"),
    ],
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> int:
    """Read the policies again, now. Ends with 1 when they do not load; the ones that run then go on."""
    with Client(load_config(), RELOAD_S) as daemon:
        reload = daemon.reload()
    if as_json:
        print_json(reload)
    else:
        write(reload_text(reload))
    return 1 if reload.rejected is not None else 0
