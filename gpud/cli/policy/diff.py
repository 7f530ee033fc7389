"""`gpud policy diff`: what a reload would change."""

import click

from gpud.cli.helped import Verb
from gpud.cli.policy.changes import plan_lines, rejected_text, short
from gpud.cli.policy.output import write
from gpud.cli.screen import print_json
from gpud.config import load_config
from gpud.control.client import RELOAD_S, Client


@click.command(
    "diff",
    cls=Verb,
    examples=[
        ("gpud policy diff", "what a reload would change now"),
    ],
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(as_json: bool) -> int:
    """What a reload would change on each device: policies, arguments, knobs, rules, and what would start anew.

    Ends with 0 when nothing would change, with 1 when something would, or when the policies do not load.
    """
    with Client(load_config(), RELOAD_S) as daemon:
        diff = daemon.diff()
    if as_json:
        print_json(diff)
    elif diff.rejected is not None:
        write(rejected_text(diff.rejected))
    elif diff.plan:
        lines = [f"set {short(diff.running)} runs, the directory holds set {short(diff.directory)}"]
        write("\n".join([*lines, *plan_lines(diff.plan)]) + "\n")
    elif diff.running != diff.directory:
        write("the files differ, but no device would notice\n")
    return 1 if diff.rejected is not None or diff.plan else 0
