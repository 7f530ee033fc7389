"""`gpud sim`: the tools around simulated nodes. Each verb's module is imported only when it is asked for."""

from importlib import import_module

import click

VERBS = {"log": "what ran on a simulated node, when and for whom, and draw it"}
"""Verb → one line for the list. Its command is `command` of the module that is called like it."""


class SimVerbs(click.Group):
    """The group, loading each verb at first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = import_module(f"gpud.cli.sim.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


command = SimVerbs("sim", help="The simulated GPU: see docs/simulator.md for what it models.", no_args_is_help=True)
