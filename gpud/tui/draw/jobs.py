"""Rows of the job table. Cells keep their place whatever stands in them, so that only changed ones are drawn again."""

from attrs import frozen

from gpud.model.live_views import JobRow
from gpud.tui.columns import GAP, Column, choose
from gpud.tui.draw.view import View
from gpud.tui.text import Line, Span, amount, clean, fit, line_of

MARKS = 2
"""Cells at the left end, for the tag and the sign of the tree."""


@frozen
class Row:
    """What one line of the table stands for."""

    job: int
    pid: int | None = None
    """One of its processes; None: the job itself."""


def table_rows(view: View) -> list[Row]:
    """All of them, in order."""
    rows: list[Row] = []
    for job in view.jobs():
        rows.append(Row(job.id))
        if view.tree:
            rows += [Row(job.id, process.pid) for process in job.processes]
    return rows


def columns_for(width: int) -> list[tuple[Column, int]]:
    return choose(width - MARKS)


def head_line(view: View, width: int) -> Line:
    spans = [Span(" " * MARKS)]
    for column, cells in columns_for(width):
        sorted_by = column.key == view.sort.key
        head = column.head + ("↓" if view.sort.down else "↑") if sorted_by and cells > len(column.head) else column.head
        spans += [Span(fit(head, cells, column.align), "key" if sorted_by else "head"), Span(" " * GAP)]
    return line_of(spans, width)


def column_at(x: int, width: int) -> Column | None:
    """Whose head stands at that cell."""
    at = MARKS
    for column, cells in columns_for(width):
        if at <= x < at + cells + GAP:
            return column
        at += cells + GAP
    return None


def row_line(row: Row, view: View, width: int, columns: list[tuple[Column, int]]) -> Line:
    """The line of one row; empty for one that is no more."""
    job = view.model.job(row.job)
    if job is None:
        return Line()
    if row.pid is not None:
        return _process(row.pid, job, view, width)
    tagged = job.id in view.tags
    spans = [Span("▌" if tagged else " ", "tagged"), Span("▾" if view.tree and job.processes else " ", "dim")]
    gone = job.id not in view.model.jobs
    for column, cells in columns:
        text, role = column.cell(job, view.model)
        if gone:
            role = "dim"
        elif tagged and column.key in ("id", "name"):
            role = "tagged"
        spans += [Span(fit(text, cells, column.align), role), Span(" " * GAP)]
    return line_of(spans, width, "cursor" if job.id == view.cursor else "")


def _process(pid: int, job: JobRow, view: View, width: int) -> Line:
    last = job.processes[-1].pid == pid
    process = next((one for one in job.processes if one.pid == pid), None)
    if process is None:
        return Line()
    spans = [
        Span("     " + ("└─ " if last else "├─ "), "rule"),
        Span(f"pid {pid}", "note"),
        Span(f"  {amount(process.used_bytes):>5}  "),
        Span(clean(process.command), "dim"),
    ]
    return line_of(spans, width)
