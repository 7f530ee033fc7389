"""`gpud bench`: runs the measurements of a checkout."""

import subprocess
import sys
from pathlib import Path

import click

from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.cli.helped import Verb
from gpud.cli.screen import print_json

CHECKOUT = Path(__file__).parents[2]


def benches(root: Path) -> dict[str, str]:
    """Name → what it measures, for every module of `bench/` and `bench/gpu/` that is one. Raises `Failure` where there
    is none: an installed gpud has only the commands."""
    found = {}
    for path in sorted([*(root / "bench").glob("*.py"), *(root / "bench" / "gpu").glob("*.py")]):
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text:
            name = ".".join(path.relative_to(root / "bench").with_suffix("").parts)
            found[name] = text.split('"""')[1].strip().split("\n")[0] if text.startswith('"""') else ""
    if not found:
        raise Failure(
            "the benches are not installed with gpud",
            "run it from a checkout of gpud's source: make build, then .venv/bin/gpud bench",
        )
    return found


@click.command(
    "bench",
    cls=Verb,
    context_settings={"ignore_unknown_options": True},
    examples=[
        ("gpud bench", "which there are"),
        ("gpud bench launch_overhead --quick", "a rehearsal of half a minute"),
        ("gpud bench preempt_latency --json", "its last line is JSON"),
    ],
)
@click.argument("name", required=False, metavar="[NAME]")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION]…")
@click.option("--json", "as_json", is_flag=True, help="The last line is one JSON object; without NAME a list of names.")
def command(name: str | None, options: tuple[str, ...], as_json: bool) -> int:
    """Run a measurement of bench/, on this machine's device or, where it says so, on the simulated one. Without NAME,
    list them. Options go to the bench.

    Ends as the bench does: 1 when its figures are not valid.
    """
    known = benches(CHECKOUT)
    if name is None:
        if as_json:
            print_json(list(known))
        else:
            for one, text in known.items():
                click.echo(f"{one:<20} {text}".rstrip())
        return 0
    if name not in known:
        raise Failure(f"there is no bench {name!r}", f"there are {', '.join(known)}", code=EXIT_USAGE)
    command = [sys.executable, "-m", f"bench.{name}", *options, *(["--json"] if as_json else [])]
    return subprocess.run(command, cwd=CHECKOUT).returncode
