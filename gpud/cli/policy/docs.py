"""`gpud policy docs`: the manual."""

import click

from gpud.cli.helped import Verb
from gpud.cli.policy.output import write
from gpud.policies.manual import manual


@click.command(
    "docs",
    cls=Verb,
    examples=[
        ("gpud policy docs", "the manual of the language's words"),
    ],
)
def command() -> None:
    """All signals, knobs, blocks, settings, functions and units of the language, as Markdown."""
    write(manual())
