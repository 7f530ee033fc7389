"""Verbs whose help ends in examples. Each example is a line as typed, and what it is for; tests parse every one."""

from collections.abc import Sequence
from typing import Any

import click

Examples = Sequence[tuple[str, str]]
_WIDEST = 42
"""Columns of an example beside which its meaning still stands; that of a longer one stands below it."""


class _Examples(click.Command):
    examples: Examples = ()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl(self.examples, col_max=_WIDEST)


class Verb(_Examples):
    """`@click.command("ps", cls=Verb, examples=[("gpud ps --json", "for programs")])`"""

    def __init__(self, *arguments: Any, examples: Examples = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = examples


class Verbs(click.Group, _Examples):
    """Likewise a group of verbs."""

    def __init__(self, *arguments: Any, examples: Examples = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = examples
