"""`gpud policy history`: the sets of policies that ran."""

import click

from gpud.cli.helped import Verb
from gpud.cli.policy.changes import at, short
from gpud.cli.screen import client, console, escape, print_json, table
from gpud.model.policy_views import HistoryView


@click.command(
    "history",
    cls=Verb,
    examples=[
        ("gpud policy history", "which sets ran, and what became of them"),
    ],
)
@click.option("--json", "as_json", is_flag=True, help="One JSON list, newest first.")
def command(as_json: bool) -> None:
    """The sets of policies that ran, newest first, and what became of them."""
    with client() as daemon:
        sets = daemon.history()
    if as_json:
        print_json(sets)
        return
    shown = table("number", "set", "since", "by", "files", "what became of it", right=("number",))
    for one in sets:
        files = ", ".join(one.files) + (f"; --policy {one.applied}" if one.applied else "")
        shown.add_row(
            str(one.number), short(one.digest), at(one.began_ns), one.how, escape(files), escape(_became(one))
        )
    console().print(shown if sets else "no set of policies has run")


def _became(one: HistoryView) -> str:
    parts = ["runs"] if one.running else []
    parts += [f"given up: {one.failed}"] if one.failed else ["good" if one.proved else "not proved"]
    return ", ".join(parts)
