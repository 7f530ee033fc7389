"""Groups of verbs whose modules are imported only when they are asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from gpud.cli.helped import Verbs


def load(place: str) -> click.Command:
    """The command of a verb: `gpud.cli.ps` (its `command`), or `gpud.cli.act:pause`."""
    module, _, name = place.partition(":")
    command = getattr(import_module(module), name or "command")
    assert isinstance(command, click.Command)
    return command


class LazyVerbs(Verbs):
    """The verbs of one group, in the order in which they are listed."""

    def __init__(
        self, name: str, verbs: Mapping[str, str], find: Callable[[str], click.Command], **settings: Any
    ) -> None:
        """`verbs`: name → one line for the list. `find` makes the command of one of them."""
        super().__init__(name, no_args_is_help=True, **settings)
        self._verbs = verbs
        self._find = find

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._find(cmd_name) if cmd_name in self._verbs else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(self._verbs.items()))
