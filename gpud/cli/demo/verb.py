"""`gpud demo`: the command."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from gpud.cli.failure import Failure
from gpud.cli.helped import Verb


@click.command(
    "demo",
    cls=Verb,
    examples=[
        ("gpud demo", "a table and gpud-demo.svg in two minutes"),
        ("gpud demo --top", "watch it in gpud top"),
        ("gpud demo --device sim --json", "on the simulated GPU; its last line is JSON"),
    ],
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one line of JSON last (and nothing else to standard output)."
)
@click.option(
    "--device", type=click.Choice(["auto", "sim", "real"]), default="auto", show_default=True,
    help="The simulated GPU, the real one, or the real one where there is a driver.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(1, 600), default=16.0, show_default=True, help="How long each run is measured."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of arrivals and data.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("gpud-demo.svg"), show_default=True, help="The picture."
)
@click.option("--top", "watched", is_flag=True, help="Run in the background, and show it in gpud top until q.")
@click.option("--inside", type=click.Path(path_type=Path), hidden=True)
def command(
    as_json: bool, device: str, seconds: float, seed: int, out: Path, watched: bool, inside: Path | None
) -> int:
    """Two programs on one GPU: a serving program alone, with a training program beside it, and both under gpud.

    Prints a table and draws a picture. Ends with 1 when a program computed something wrong. "Not valid as a
    measurement" is said when this machine was too slow or too busy.

    With --top the runs under gpud come first; what the demo prints is in gpud-demo.log, the picture is drawn as ever,
    and q ends it all.
    """
    from gpud.cli.demo import prerequisites

    if not out.absolute().parent.is_dir():
        raise Failure(f"cannot write the picture {out}: no such directory", "name another file with --out")
    simulated = device == "sim" or (device == "auto" and not prerequisites.real_driver())
    if device == "real" and not prerequisites.real_driver():
        raise Failure("no NVIDIA driver with a GPU on this machine", "gpud demo --device sim runs on a simulated one")
    prerequisites.check(simulated=simulated)
    if watched:
        if as_json:
            raise click.UsageError("--top and --json exclude each other: the screen has the terminal")
        from gpud.cli.demo.watched import watch

        with _ended_by_term():
            return watch(_again(device, seconds, seed, out))
    from gpud.cli.demo.picture import draw
    from gpud.cli.demo.progress import open_progress
    from gpud.cli.demo.runner import Demo, write_picture
    from gpud.cli.demo.table import as_json as to_json
    from gpud.cli.demo.table import label_of, show
    from gpud.cli.screen import console

    with _ended_by_term(), open_progress() as progress:
        outcome = Demo(simulated=simulated, seconds=seconds, seed=seed, progress=progress, inside=inside).run()
    label = label_of(outcome)
    main_runs = {name: run for name, run in outcome.runs.items() if not name.startswith("short")}
    write_picture(out, draw(main_runs, label))
    show(console(stderr=as_json), outcome, label)
    console(stderr=as_json).print(f"picture: {out}", markup=False)
    if as_json:
        sys.stdout.write(to_json(outcome, str(out.absolute())) + "\n")
    return 0 if all(run.correct for run in [*outcome.runs.values(), *([outcome.null] if outcome.null else [])]) else 1


def _again(device: str, seconds: float, seed: int, out: Path) -> list[str]:
    return ["--device", device, "--seconds", f"{seconds:g}", "--seed", str(seed), "--out", str(out.absolute())]


@contextlib.contextmanager
def _ended_by_term() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: everything that it started is ended first."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
