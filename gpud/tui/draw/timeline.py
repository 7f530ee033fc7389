"""Who had each device, when: a line of coloured spans for each device, one cell for each step of time."""

from attrs import evolve, frozen

from gpud.model.live_views import Decision, DeviceRow
from gpud.tui.draw.decisions import decision_lines
from gpud.tui.draw.devices import short_name
from gpud.tui.draw.view import View
from gpud.tui.holders import Held
from gpud.tui.look import JOB_COLOURS
from gpud.tui.text import Line, Span, clean, clock, fit, line_of, rule, span_of_time

STEPS_NS = tuple(int(step * 1e9) for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60))
"""Time of one cell, to choose from."""
MARGIN = 16
"""Cells before the line of a device: its slot and name."""
_TICK = 20
"""Cells between two times on the axis."""


@frozen
class Window:
    """What part of time is shown, and where the cursor is."""

    zoom: int = 5
    """Index into STEPS_NS."""
    end_ns: int | None = None
    """Unix time of the right end; None: now, it moves on."""
    cursor: int = 0
    """Cells from the right end, 0 … ."""
    row: int = 0
    """Which of the shown devices."""

    @property
    def step_ns(self) -> int:
        return STEPS_NS[self.zoom]

    def end(self, now_ns: int) -> int:
        """Of the last cell, a whole step, so that cells do not change what they show as time goes on."""
        at = now_ns if self.end_ns is None else self.end_ns
        return (at // self.step_ns + 1) * self.step_ns

    def cursor_ns(self, now_ns: int) -> tuple[int, int]:
        """Begin and end of the cell under the cursor."""
        end = self.end(now_ns) - self.cursor * self.step_ns
        return end - self.step_ns, end

    def zoomed(self, by: int) -> "Window":
        return evolve(self, zoom=min(max(self.zoom + by, 0), len(STEPS_NS) - 1))

    def moved(self, cells: int, width: int, now_ns: int) -> "Window":
        """The cursor so many cells earlier (> 0) or later; at an end the window moves with it."""
        cursor = self.cursor + cells
        last = max(width - MARGIN - 1, 0)
        if cursor < 0:
            end = (self.end_ns if self.end_ns is not None else now_ns) - cursor * self.step_ns
            return evolve(self, cursor=0, end_ns=None if end >= now_ns else end)
        if cursor > last:
            end = (self.end_ns if self.end_ns is not None else now_ns) - (cursor - last) * self.step_ns
            return evolve(self, cursor=last, end_ns=end)
        return evolve(self, cursor=cursor)


def timeline_lines(view: View, window: Window, width: int, height: int) -> list[Line]:
    """Title, a line for each device, the axis, then decisions around the cursor."""
    now_ns = view.model.at_ns
    rows = view.devices()
    shown = rows[: max(min(len(rows), height - 5), 0)]
    lines = [rule(f"who had which device   {span_of_time(window.step_ns)} a cell", width)]
    lines += [_device(row, view, window, width, chosen=at == window.row) for at, row in enumerate(shown)]
    lines.append(_axis(window, now_ns, width))
    chosen = shown[window.row] if window.row < len(shown) else None
    lines += _under_cursor(view, window, chosen, width, height - len(lines))
    return lines[:height]


def held_at(view: View, row: DeviceRow | None, begin_ns: int, end_ns: int) -> Held | None:
    """Who had it the longest in that time."""
    holders = view.model.holders.get(row.slot) if row is not None and row.slot is not None else None
    spans = holders.between(begin_ns, end_ns) if holders else []
    return max(spans, key=lambda span: _overlap(span, begin_ns, end_ns), default=None)


def _overlap(span: Held, begin_ns: int, end_ns: int) -> int:
    return min(end_ns if span.ended_at_ns is None else span.ended_at_ns, end_ns) - max(span.began_at_ns, begin_ns)


def _device(row: DeviceRow, view: View, window: Window, width: int, *, chosen: bool) -> Line:
    cells = width - MARGIN
    step, end_ns, now_ns = window.step_ns, window.end(view.model.at_ns), view.model.at_ns
    begin_ns = end_ns - cells * step
    holders = view.model.holders.get(row.slot) if row.slot is not None else None
    owners: list[int | None] = [None] * cells
    best = [0] * cells
    for span in holders.between(begin_ns, end_ns) if holders else ():
        until_ns = min(now_ns if span.ended_at_ns is None else span.ended_at_ns, end_ns)
        first, last = max((span.began_at_ns - begin_ns) // step, 0), min((until_ns - begin_ns) // step, cells - 1)
        for at in range(int(first), int(last) + 1):
            part = _overlap(span, begin_ns + at * step, begin_ns + (at + 1) * step)
            if part >= best[at]:
                best[at], owners[at] = part, span.job
    spans = [
        Span(f"{'▸' if chosen else ' '}{'–' if row.slot is None else row.slot:>2} ", "key" if chosen else "strong"),
        Span(fit(short_name(row), MARGIN - 5) + " ", "dim"),
        *_cells(owners, view, cursor=cells - 1 - window.cursor if chosen else None),
    ]
    return line_of(spans, width)


def _cells(owners: list[int | None], view: View, cursor: int | None) -> list[Span]:
    """Runs of one owner, its name in them where it fits."""
    spans: list[Span] = []
    at = 0
    while at < len(owners):
        end = at + 1
        while end < len(owners) and owners[end] == owners[at]:
            end += 1
        job = owners[at]
        text, role = (
            ("·" * (end - at), "rule") if job is None else (_label(job, view, end - at), f"job{job % JOB_COLOURS}")
        )
        if cursor is not None and at <= cursor < end:
            inside = _split(text, cursor - at)
            spans += [Span(inside[0], role), Span("┃", "mark"), Span(inside[1], role)]
        else:
            spans.append(Span(text, role))
        at = end
    return [span for span in spans if span.text]


def _split(text: str, at: int) -> tuple[str, str]:
    """Without the cell at `at`. Labels with wide signs are written without them."""
    return text[:at], text[at + 1 :]


def _label(job: int, view: View, cells: int) -> str:
    known = view.model.job(job)
    name = clean(known.name) if known else ""
    name = name if name.isascii() else name.encode("ascii", "replace").decode()  # one cell a sign, so it can be split
    for text in (f" {job} {name} ", f"{job} {name}", f" {job} ", str(job)):
        if len(text) <= cells:
            return text.ljust(cells)
    return " " * cells


def _axis(window: Window, now_ns: int, width: int) -> Line:
    cells = width - MARGIN
    end_ns = window.end(now_ns)
    text = [" "] * cells
    for back in range(0, cells, _TICK):
        at = cells - 1 - back
        label = clock(end_ns - back * window.step_ns) if back else "now" if window.end_ns is None else clock(end_ns)
        begin = max(at - len(label) + 1, 0)
        if begin + len(label) <= cells:
            text[begin : begin + len(label)] = label
    return line_of([Span(" " * MARGIN), Span("".join(text), "dim")], width)


def _under_cursor(view: View, window: Window, row: DeviceRow | None, width: int, room: int) -> list[Line]:
    """Who had the chosen device at the cursor, and the decisions up to then; the last of them is what made it so."""
    if room < 3 or row is None:
        return []
    model = view.model
    begin_ns, end_ns = window.cursor_ns(model.at_ns)
    held = held_at(view, row, begin_ns, end_ns)
    title = f"device {row.slot} at {clock(begin_ns)}.{begin_ns // 10**6 % 1000:03}"
    if held is None:
        who = [Span("  nobody had it", "dim")]
    else:
        job = model.job(held.job)
        lasted = (held.ended_at_ns or model.at_ns) - held.began_at_ns
        verb = "had its turn" if held.turn else "used most of it"
        who = [
            Span("  "),
            Span(f"#{held.job} {clean(job.name) if job else ''}".rstrip(), "good"),
            Span(f" {verb} from {clock(held.began_at_ns)}.{held.began_at_ns // 10**6 % 1000:03}"),
            Span(f" for {span_of_time(lasted)}" + ("" if held.ended_at_ns else ", and still does"), "dim"),
        ]
    lines = [Line(), rule(title, width), line_of(who, width), Line()]
    told: list[Line] = []
    for one in reversed(decisions_before(view, row, end_ns)[-room:]):
        more = decision_lines(one, model, width, over="" if told else "cursor")
        if told and len(told) + len(more) > room - len(lines):
            break
        told = [*more, *told]
    return [*lines, *told]


def decisions_before(view: View, row: DeviceRow, end_ns: int) -> list[Decision]:
    """About that device, oldest first."""
    return [one for one in view.model.decisions if one.device == row.slot and one.at_ns < end_ns]
