"""A line for each class of a device's policies: what it should get and what it gets, and how long its launches wait."""

from gpud.model.live_views import ClassRow
from gpud.tui.draw.bars import marked_bar
from gpud.tui.draw.view import View
from gpud.tui.text import Line, Span, clean, fit, line_of, percent, rule, span_of_time

CLASSES = "classes: share, and wait of launches"
"""The title of the part."""


def class_lines(view: View, width: int, height: int) -> list[Line]:
    """A title, and a line for each class; what does not fit is counted."""
    rows = view.classes()
    shown = rows if len(rows) < height else rows[: max(height - 2, 0)]
    lines = [rule(CLASSES, width)]
    device = None
    for row in shown:
        lines.append(_class(row, view, width, first=row.device != device))
        device = row.device
    if not rows:
        lines.append(line_of([Span("  no policy divides these devices", "dim")], width))
    elif len(shown) < len(rows):
        lines.append(line_of([Span(f"  … {len(rows) - len(shown)} more: g looks at one device", "dim")], width))
    return lines[:height]


def _class(row: ClassRow, view: View, width: int, *, first: bool) -> Line:
    share = view.model.share(row)
    bar_width = max(6, min(width - 74, 40))
    spans = [
        Span(f" {row.device if first else '':>2} ", "strong"),
        Span(fit(clean(row.policy), 11) + " ", "dim"),
        Span(fit(clean(row.job_class), 10) + " "),
        *marked_bar(share, row.target, bar_width),
        Span(fit(percent(share), 5, ">"), "" if share else "dim"),
        Span(fit(f" of {percent(row.target)}" if row.target is not None else "", 8), "dim"),
        Span("p50 ", "dim"),
        Span(fit(span_of_time(row.wait_p50_ns), 7)),
        Span("p95 ", "dim"),
        Span(fit(span_of_time(row.wait_p95_ns), 7)),
        Span(f"{row.active}/{row.jobs} on", "dim"),
    ]
    if row.held:
        spans.append(Span(f"  {row.held} held", "warn"))
    return line_of(spans, width)
