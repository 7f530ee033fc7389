"""`gpud policy show`: what the daemon runs now."""

import sys

import click

from gpud.cli.failure import printable
from gpud.cli.helped import Verb
from gpud.cli.policy.changes import call, rejected_text, set_line
from gpud.cli.policy.output import write
from gpud.cli.screen import client, console, escape, print_json, table
from gpud.control.wire import ShowAnswer
from gpud.model.views import PolicyView


@click.command(
    "show",
    cls=Verb,
    examples=[
        ("gpud policy show", "the running set"),
        ("gpud policy show turns.gpol", "a file of it, as it was loaded"),
    ],
)
@click.argument("file", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(file: str | None, as_json: bool) -> None:
    """What the daemon runs now: the set, its files, and the policies of each device with their arguments. With FILE,
    the text of that file as it was loaded."""
    with client() as daemon:
        shown = daemon.show(file)
    if as_json:
        print_json(shown)
    elif file is not None:
        text = shown.text or ""
        write(printable(text) if sys.stdout.isatty() else text)
    else:
        _print(shown)


def _print(shown: ShowAnswer) -> None:
    out = console()
    running = shown.set
    out.print(f"[bold]policies[/bold] {escape(set_line(running))}", soft_wrap=True)
    out.print(f"[bold]from[/bold]     {escape(running.directory)}", soft_wrap=True)
    if running.applied is not None:
        out.print(f"[bold]--policy[/bold] {escape(running.applied)}", soft_wrap=True)
    if running.differs:
        out.print(f"[bold]note[/bold]     {escape(running.differs)}", soft_wrap=True)
    files = table("file", "lines", "policies", "tests", "apply lines", right=("lines", "tests", "apply lines"))
    for one in shown.files:
        files.add_row(
            escape(one.name), str(one.lines), escape(", ".join(one.policies)) or "–", str(one.tests), str(one.applies)
        )
    out.print()
    out.print(files)
    devices = table("gpu", "policy", "arbiter", "classes", "steps per tick", right=("steps per tick",))
    for row in shown.policies:
        for applied in row.policies:
            classes = escape(", ".join(applied.classes))
            text = f"{call(applied)} (out of action)" if applied.failed else call(applied)
            devices.add_row(_gpu(row), escape(text), applied.mode or "–", classes, str(applied.steps))
        if not row.policies:
            devices.add_row(_gpu(row), "none: every gate is open", "open", "", "0")
    out.print()
    out.print(devices)
    if running.rejected is not None:
        out.print()
        write(rejected_text(running.rejected))


def _gpu(row: PolicyView) -> str:
    return "*" if row.device is None else str(row.device)
