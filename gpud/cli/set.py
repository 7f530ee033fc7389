"""`gpud set`: changes a running job."""

import click

from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.cli.screen import client, console, escape, print_json
from gpud.model.errors import UsageError

FORM = "write: gpud set JOB class=NAME, or class=auto to let its labels decide again"


@click.command("set")
@click.argument("job", type=int)
@click.argument("changes", nargs=-1, required=True, metavar="class=NAME|class=auto")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: the job.")
def command(job: int, changes: tuple[str, ...], as_json: bool) -> None:
    """Put a running job into another class of the policy that arbitrates. It stays there, over reloads too, until
    class=auto lets its labels decide again."""
    wanted: str | None = None
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not value:
            raise UsageError(f"{change!r} is no change; {FORM}")
        if key != "class":
            raise Failure(f"nothing called {key!r} can be set", FORM, code=EXIT_USAGE)
        if wanted is not None:
            raise UsageError(f"class is given twice; {FORM}")
        wanted = value
    with client() as daemon:
        view = daemon.set_class(job, None if wanted == "auto" else wanted)
    if as_json:
        print_json(view)
    else:
        how = "pinned" if view.pinned else "by its labels"
        line = f"job {view.id} ({view.name}) is {view.job_class or 'of no class'}, {how}"
        console().print(escape(line), soft_wrap=True)
