"""`gpud completion`: what makes a shell complete verbs, options, jobs and classes."""

import click
from click.shell_completion import ShellComplete, get_completion_class

from gpud.cli.helped import Verb

VARIABLE = "_GPUD_COMPLETE"


@click.command(
    "completion",
    cls=Verb,
    examples=[
        ("gpud completion bash", 'in ~/.bashrc: eval "$(gpud completion bash)"'),
        ("gpud completion zsh", 'in ~/.zshrc: eval "$(gpud completion zsh)"'),
        ("gpud completion fish", "into ~/.config/fish/completions/gpud.fish"),
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print what makes a shell complete gpud's verbs, options, jobs and classes. Jobs and classes are the running
    daemon's."""
    from gpud.cli.verbs import group

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(ShellComplete.source(kind(group(), {}, "gpud", VARIABLE)))
