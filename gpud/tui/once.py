"""`gpud top --once` and `--json`: one look at the node, without a screen."""

import os
import sys
from collections.abc import Iterator

import msgspec

from gpud.model.errors import ProtocolError
from gpud.model.live_views import Feed
from gpud.tui.draw.page import LEAST, TOP, jobs_body
from gpud.tui.draw.top import top_bar
from gpud.tui.draw.view import View
from gpud.tui.look import Look
from gpud.tui.text import Line
from gpud.tui.words import state_of


def take(view: View, steps: Iterator[Feed], wanted: int) -> None:
    """Applies so many steps, or all of a recording (0). Raises ProtocolError where there is none."""
    for number, feed in enumerate(steps, 1):
        view.model.apply(feed)
        if number == wanted:
            return
    if not view.model.number:
        raise ProtocolError("there is not a single step to show")


def print_once(view: View, look: Look, size: tuple[int, int] | None) -> None:
    """The first tab, as high as it needs to be."""
    from rich.console import Console
    from rich.text import Text

    terminal = sys.stdout.isatty()
    columns, lines = size or (os.get_terminal_size() if terminal else (120, 40))
    columns, lines = max(columns, LEAST[0]), max(lines, LEAST[1], _needs(view))
    body, _ = jobs_body(view, columns, lines - TOP, 0, detail=False)
    console = Console(width=columns, highlight=False, no_color=look.base.color is None, soft_wrap=True)
    for line in [top_bar(view, columns), Line(), *_without_end(body)]:
        text = Text(no_wrap=True, end="")
        for span in line.spans:
            style = look.style(span.role.split()[-1] if span.role else "")
            text.append(span.text, style)
        text.rstrip()
        console.print(text)


def _needs(view: View) -> int:
    """Lines in which everything has room."""
    parts = len(view.devices()) + len(view.classes()) + 2
    return max(len(view.jobs()) + parts + 12, 5 * parts)


def _without_end(lines: list[Line]) -> list[Line]:
    """Without empty lines at the end."""
    last = max((at for at, line in enumerate(lines) if line.spans), default=-1)
    return lines[: last + 1]


def print_json(view: View) -> None:
    """One document: what passes the filters, as the feed has it, and the rates beside it."""
    model = view.model
    jobs = [
        {
            **msgspec.to_builtins(job),
            "state": state_of(job, model),
            "gpu": model.gpu(job),
            "launches_per_s": model.launches(job),
        }
        for job in view.jobs()
        if job.id in model.jobs
    ]
    classes = [{**msgspec.to_builtins(row), "share": model.share(row)} for row in view.classes()]
    document = {
        "at_ns": model.at_ns,
        "node": msgspec.to_builtins(model.node),
        "devices": [{**msgspec.to_builtins(row), "busy": model.busy(row)} for row in view.devices()],
        "classes": classes,
        "jobs": jobs,
        "decisions": [msgspec.to_builtins(one) for one in model.decisions],
    }
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
