"""Bars and sparklines of block signs."""

from collections.abc import Sequence

from gpud.tui.text import Span

_LEVELS = " ▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def sparkline(values: Sequence[float | None]) -> str:
    """A sign for each value of 0 … 1; `·` where none is known."""
    return "".join("·" if value is None else _LEVELS[_level(value)] for value in values)


def _level(value: float) -> int:
    if value <= 0.005:
        return 1  # a line at the bottom: measured, and nothing
    return min(max(round(value * 8), 1), 8)


def bar(ratio: float | None, width: int, role: str = "bar", *, more: float = 0.0) -> list[Span]:
    """`width` cells that are filled by `ratio`, then in another colour up to `more` (both of 0 … 1)."""
    if ratio is None:
        return [Span("·" * width, "dim")]
    cells = min(max(ratio, 0.0), 1.0) * width
    whole = int(cells)
    part = _EIGHTHS[int((cells - whole) * 8)] if whole < width else ""
    used = whole + (1 if part.strip() else 0)
    behind = max(min(round(more * width), width) - used, 0)
    spans = [
        Span("█" * whole + part.strip(), role),
        Span("▒" * behind, "held"),
        Span("░" * (width - used - behind), "track"),
    ]
    return [span for span in spans if span.text]


def marked_bar(ratio: float | None, mark: float | None, width: int) -> list[Span]:
    """A bar with a line at `mark` (0 … 1), the value it should have."""
    spans = bar(ratio, width)
    if mark is None or width < 2:
        return spans
    at = min(max(round(mark * width), 0), width - 1)
    cells = [(sign, span.role) for span in spans for sign in span.text]
    cells[at] = ("│", "mark")
    merged: list[Span] = []
    for sign, role in cells:
        if merged and merged[-1].role == role:
            merged[-1] = Span(merged[-1].text + sign, role)
        else:
            merged.append(Span(sign, role))
    return merged
