"""The demo's progress: a bar on a terminal, a line for each run elsewhere. On stderr, so that output can be piped."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gpud.cli.screen import console


@contextlib.contextmanager
def open_progress() -> Iterator[Callable[[float, float, str], None]]:
    """Yields the function that takes (seconds done, seconds in all, what is going on)."""
    if not sys.stderr.isatty():
        told: list[str] = []

        def tell(done: float, of: float, words: str) -> None:
            if words not in told:
                told.append(words)
                print(f"[{done / of:4.0%}] {words}", file=sys.stderr, flush=True)

        yield tell
        return
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=console(stderr=True), transient=True, refresh_per_second=4,
    ) as bar:  # fmt: skip
        task = bar.add_task("starting")

        def draw(done: float, of: float, words: str) -> None:
            bar.update(task, completed=done, total=of, description=words)

        yield draw
