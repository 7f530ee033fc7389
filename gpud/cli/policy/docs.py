"""`gpud policy docs`: the manual."""

import click

from gpud.cli.policy.output import write
from gpud.policies.manual import manual


@click.command("docs")
def command() -> None:
    """All signals, knobs, blocks, settings, functions and units of the language, as Markdown."""
    write(manual())
