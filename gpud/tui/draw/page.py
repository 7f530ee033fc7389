"""Whole screens: the parts put one below the other, or side by side where there is room."""

from attrs import define, frozen

from gpud.tui.draw.classes import class_lines
from gpud.tui.draw.detail import detail_lines
from gpud.tui.draw.devices import device_lines
from gpud.tui.draw.help import key_line
from gpud.tui.draw.jobs import Row, columns_for, head_line, row_line, table_rows
from gpud.tui.draw.top import banner, tab_line, top_bar
from gpud.tui.draw.view import View
from gpud.tui.text import Line, Span, both_ends, fit, line_of, width_of, width_of_spans

LEAST = (40, 10)
"""Columns and lines below which nothing but a remark is shown."""
WIDE = 150
"""Columns from which two parts stand side by side."""
HIGH = 38
"""Lines from which the detail pane is there unless it is sent away."""
TOP = 3
"""Lines above what is a tab's own: the node, the tabs, a banner."""


@define
class Told:
    """What the last lines say."""

    lost: str = ""
    """Why there is no daemon; "": there is."""
    ended: str = ""
    """Why nothing more comes."""
    ended_badly: bool = False
    remark: str = ""
    """In place of the keys, until one is pressed."""
    remark_bad: bool = False
    hint: str = ""
    """Above the line that is typed into."""
    hint_bad: bool = False


@frozen
class Place:
    """Where the rows of the job table stand."""

    y: int = 0
    """Of its head."""
    height: int = 0
    """With the head."""
    width: int = 0
    first: int = 0
    """Which of all rows stands below the head."""
    rows: tuple[Row, ...] = ()
    """All of them, shown or not."""


def framed(view: View, tab: int, told: Told, body: list[Line], width: int, height: int) -> list[Line]:
    """Body between the lines that all tabs have."""
    body = body[: height - TOP - 1]
    body += [Line()] * (height - TOP - 1 - len(body))
    last = key_line(tab, width, readonly=bool(view.readonly))
    if told.remark:
        last = line_of([Span(f" {told.remark}".ljust(width), "lost" if told.remark_bad else "remark")], width)
    if told.hint:
        last = line_of([Span(told.hint, "bad" if told.hint_bad else "dim")], width)
    return [
        top_bar(view, width),
        tab_line(view, tab, width),
        banner(view, told.lost, told.ended, told.ended_badly, width) or Line(),
        *body,
        last,
    ]


def too_small(width: int, height: int) -> list[Line]:
    """For a terminal in which nothing can be read."""
    text = ("too small", f"{width}×{height}, needs {LEAST[0]}×{LEAST[1]}")
    return [line_of([Span(one)], width) for one in text][:height]


def jobs_body(view: View, width: int, height: int, first: int, detail: bool | None) -> tuple[list[Line], Place]:
    """Devices and classes, the table, the detail pane. `detail`: None: where there is room. `first`: which row stands
    at the top; the cursor is always in sight, so it may become another."""
    lines = _above(view, width, height)
    side = detail is not False and width >= WIDE and height >= 20
    below = not side and (detail or (detail is None and height >= HIGH))
    spare = height - len(lines) - len(table_rows(view)) - 3  # what the table has no use for
    pane_height = min(max(height // 3, 9, spare), 22) if below else 0
    table_width = width - min(max(width // 3, 56), 76) - 2 if side else width
    table_height = max(height - len(lines) - pane_height, 3)
    table, place = _table(view, table_width, table_height, len(lines), first)
    if side:
        pane = detail_lines(view, width - table_width - 2, table_height)
        lines += beside(table, pane, table_width, width)
    else:
        lines += table
        if below:
            lines += detail_lines(view, width, height - len(lines))
    return lines, place


def _above(view: View, width: int, height: int) -> list[Line]:
    devices, classes = len(view.devices()), len(view.classes())
    if width >= WIDE and view.classed is not False:
        most = max(height // 4, 4)
        rows = min(max(devices, classes, 1) + 1, most)
        left = width * 11 // 20
        right = width - left - 2
        return [*beside(device_lines(view, left, rows), class_lines(view, right, rows), left, width), Line()]
    rows = min(devices + 1, max(height // 4, 3)) if devices else 2
    lines = device_lines(view, width, rows)
    if (height >= 28 if view.classed is None else view.classed) and classes:
        lines += [Line(), *class_lines(view, width, min(classes + 1, max(height // 5, 3)))]
    return [*lines, Line()] if height >= 18 else lines


def _table(view: View, width: int, height: int, y: int, first: int) -> tuple[list[Line], Place]:
    rows = table_rows(view)
    room = height - 2
    at = next((index for index, row in enumerate(rows) if row.job == view.cursor and row.pid is None), None)
    first = min(max(first, 0), max(len(rows) - room, 0))
    if at is not None:
        last = at  # with its processes
        while last + 1 < len(rows) and rows[last + 1].pid is not None:
            last += 1
        first = min(max(first, last - room + 1), at)
    columns = columns_for(width)
    shown = rows[first : first + room]
    lines = [_table_title(view, rows, first, len(shown), width), head_line(view, width)]
    lines += [row_line(row, view, width, columns) for row in shown]
    if not rows:
        empty = "no job is here" if not view.filter.text else "no job is so; Esc takes the filter away"
        lines.append(line_of([Span(f"  {empty}", "dim")], width))
    lines += [Line()] * (height - len(lines))
    return lines[:height], Place(y + 1, height - 1, width, first, tuple(rows))


def _table_title(view: View, rows: list[Row], first: int, shown: int, width: int) -> Line:
    left = [Span("─ ", "rule"), Span("jobs", "title"), Span(" ", "rule")]
    if view.filter.text:
        left += [Span(f"filter {view.filter.text} ", "key")]
    if view.tags:
        left += [Span(f"{len(view.tags)} tagged ", "tagged")]
    right = [Span(f" {first + 1}–{first + shown} of {len(rows)} ", "dim")] if shown < len(rows) else []
    right.append(Span("──", "rule"))
    room = width - width_of_spans(left) - width_of_spans(right)
    return both_ends(left, right, width) if room < 2 else line_of([*left, Span("─" * room, "rule"), *right], width)


def beside(left: list[Line], right: list[Line], at: int, width: int) -> list[Line]:
    """Two parts side by side, the right one from column `at` + 2 on."""
    lines: list[Line] = []
    for y in range(max(len(left), len(right))):
        one = left[y] if y < len(left) else Line()
        other = right[y] if y < len(right) else Line()
        spans = [_over(span, one.over) for span in one.spans]
        room = at - width_of_spans(spans)
        spans.append(_over(Span(" " * room), one.over))
        spans.append(Span("  "))
        spans += [_over(span, other.over) for span in other.spans]
        lines.append(line_of(spans, width))
    return lines


def _over(span: Span, over: str) -> Span:
    return Span(span.text, f"{over} {span.role}".rstrip()) if over else span


def box(title: str, lines: list[Line], foot: list[Span], width: int) -> list[Line]:
    """Lines in a frame, `width` cells in all, with a row of keys at the bottom."""
    inner = width - 4
    head = f" {title} " if width_of(title) <= inner - 2 else f" {fit(title, inner - 2)} "
    top = [Span("╭─", "rule"), Span(head, "title"), Span("─" * (width - 3 - width_of(head)) + "╮", "rule")]
    made = [line_of(top, width), _inside([], width)]
    made += [_inside(list(line.spans), width) for line in lines]
    made += [_inside([], width), _inside(foot, width)]
    return [*made, line_of([Span("╰" + "─" * (width - 2) + "╯", "rule")], width)]


def _inside(spans: list[Span], width: int) -> Line:
    inner = width - 4
    cut = line_of(spans, inner).spans
    room = inner - width_of_spans(cut)
    return Line((Span("│ ", "rule"), *cut, Span(" " * room), Span(" │", "rule")))
