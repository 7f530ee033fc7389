"""Text for cells: cleaned, cut by the width of what a terminal shows, and figures in few characters."""

import time
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from gpud.model.text import one_line

LONGEST = 2048
"""Characters of a name or command that are looked at: more fits on no line."""
_SELECTORS = {0xFE0E: None, 0xFE0F: None}
"""They change the width of the sign before them in some terminals and not in others."""


class Span(NamedTuple):
    """Text in one style."""

    text: str
    role: str = ""
    """What it means: a key of `look.ROLES`."""


class Line(NamedTuple):
    """One line of a screen."""

    spans: tuple[Span, ...] = ()
    over: str = ""
    """A role put over the whole line, such as that of the cursor."""


def clean(text: str) -> str:
    """As it may stand in a line: no control characters, nothing that turns the direction of writing."""
    if text.isascii() and text.isprintable() and len(text) <= LONGEST:
        return text
    return one_line(text[:LONGEST].translate(_SELECTORS))


def width_of(text: str) -> int:
    """Cells that cleaned text takes."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, align: str = "<") -> str:
    """Cleaned text in exactly `width` cells: filled up, or cut with an ellipsis. `align`: `<` or `>`."""
    if width <= 0:
        return ""
    have = width_of(text)
    if have > width:
        if width == 1:
            return "…"
        return text[: width - 1] + "…" if text.isascii() else set_cell_size(text, width - 1) + "…"
    return text + " " * (width - have) if align == "<" else " " * (width - have) + text


def wrap(text: str, width: int, most: int) -> list[str]:
    """Cleaned text in at most `most` lines of `width` cells, broken at spaces if it can be; the last one is cut."""
    lines: list[str] = []
    rest = text.strip()
    while rest and width > 0:
        if width_of(rest) <= width or len(lines) == most - 1:
            lines.append(rest if width_of(rest) <= width else fit(rest, width))
            break
        head = rest[:width] if rest.isascii() else set_cell_size(rest, width).rstrip()
        if rest[len(head) : len(head) + 1] != " " and " " in head.strip():
            head = head[: head.rindex(" ")]
        lines.append(head.rstrip())
        rest = rest[max(len(head), 1) :].lstrip()
    return lines


def line_of(spans: list[Span] | tuple[Span, ...], width: int, over: str = "") -> Line:
    """The spans as a line of at most `width` cells: what is beyond it is cut."""
    kept: list[Span] = []
    left = width
    for span in spans:
        have = width_of(span.text)
        if have > left:
            if left > 0:
                kept.append(Span(fit(span.text, left), span.role))
            return Line(tuple(kept), over)
        if have:
            kept.append(span)
        left -= have
    return Line(tuple(kept), over)


def width_of_spans(spans: list[Span] | tuple[Span, ...]) -> int:
    return sum(width_of(span.text) for span in spans)


def both_ends(left: list[Span], right: list[Span], width: int) -> Line:
    """`left` at the left end of a line and `right` at the right end, if both fit; else `left` alone."""
    room = width - width_of_spans(left) - width_of_spans(right)
    if room < 2:
        return line_of(left, width)
    return line_of([*left, Span(" " * room), *right], width)


def rule(title: str, width: int) -> Line:
    """A thin line that begins a part of the screen."""
    text = f"─ {title} " if title else ""
    return line_of(
        [Span("─ ", "rule"), Span(title, "title"), Span(" " + "─" * max(width - width_of(text), 0), "rule")]
        if title
        else [Span("─" * width, "rule")],
        width,
    )


def amount(count: int | None) -> str:
    """Bytes in at most 5 characters, of 1024: `512M`, `39.4G`; `–` for what is not known."""
    if count is None:
        return "–"
    for unit, scale in (("T", 2**40), ("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if count >= scale * 0.9995:
            value = count / scale
            return f"{value:.0f}{unit}" if value >= 99.95 or unit == "K" else f"{value:.3g}{unit}"
    return "0" if count <= 0 else f"{count}B"


def percent(ratio: float | None) -> str:
    """`87%`; `–` for what is not known."""
    return "–" if ratio is None else f"{ratio * 100:.0f}%"


def rate(per_second: float | None) -> str:
    """`12`, `3.4k`, `1.2M`."""
    if per_second is None:
        return "–"
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if per_second >= scale * 0.9995:
            return f"{per_second / scale:.3g}{unit}"
    return f"{per_second:.0f}" if per_second >= 9.95 or per_second == 0 else f"{per_second:.1f}"


def span_of_time(nanoseconds: int | None) -> str:
    """In at most 5 characters: `350us`, `4.2ms`, `41s`, `5m12`, `3h04`, `12d`."""
    if nanoseconds is None:
        return "–"
    if nanoseconds <= 0:
        return "0s"
    if nanoseconds < 999_500:
        return f"{nanoseconds / 1e3:.0f}us"
    if nanoseconds < 999_500_000:
        return f"{nanoseconds / 1e6:.1f}ms" if nanoseconds < 9_950_000 else f"{nanoseconds / 1e6:.0f}ms"
    seconds = nanoseconds / 1e9
    if seconds < 59.95:
        return f"{seconds:.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}"
    return f"{whole // 86400}d"


def clock(at_ns: int) -> str:
    """Unix time as `14:03:05` of this machine's zone."""
    return time.strftime("%H:%M:%S", _local(at_ns))


def moment(at_ns: int) -> str:
    """Unix time as `2026-11-30 14:03:05` of this machine's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", _local(at_ns))


def _local(at_ns: int) -> time.struct_time:
    try:
        return time.localtime(at_ns // 10**9)
    except (OverflowError, OSError, ValueError):  # a clock that is far off
        return time.gmtime(0)


def ordinal(place: int) -> str:
    """`next`, `2nd in line`, …; "" for 0."""
    if place <= 0:
        return ""
    if place == 1:
        return "next"
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending} in line"
