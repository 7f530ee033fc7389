"""Series as a picture: SVG by hand, self-contained, one lane each, readable on light and dark ground."""

from collections.abc import Iterator
from html import escape

from gpud.policies.quantities import show_measured, show_value
from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.series import WORDS, Recording, Series, height, top_of
from gpud.policies.types import Type
from gpud.policies.values import RESIDENCIES

LEFT, WIDTH, RIGHT, LANE, GAP, TOP = 230, 860, 24, 56, 18, 56
"""Pixels: names and labels of the axes, the lanes, the margin; a lane's height, between lanes, above the first."""
_STYLE = """
svg { background: #ffffff; font: 12px system-ui, sans-serif; }
text { fill: #24292f; } .dim { fill: #57606a; } .title { font-size: 15px; font-weight: 600; }
.lane { fill: #f6f8fa; } .grid { stroke: #d0d7de; } .line { fill: none; stroke-width: 1.5; }
.knob { stroke: #0550ae; } .signal { stroke: #953800; } .let { stroke: #1a7f37; } .gate { stroke: #8250df; }
.free { stroke-dasharray: 4 3; } .missing { fill: #d0d7de; fill-opacity: 0.6; } .word { fill-opacity: 0.12; }
.word.knob { fill: #0550ae; } .word.signal { fill: #953800; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; } text { fill: #e6edf3; } .dim { fill: #8b949e; } .lane { fill: #161b22; }
.grid { stroke: #30363d; } .knob { stroke: #79c0ff; } .signal { stroke: #ffa657; } .let { stroke: #7ee787; }
.gate { stroke: #d2a8ff; } .missing { fill: #484f58; } .word { fill-opacity: 0.25; }
.word.knob { fill: #79c0ff; } .word.signal { fill: #ffa657; } }
"""
_STEPS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_SECOND = 1_000_000_000


def draw_svg(recording: Recording) -> str:
    """The whole document, ending with a newline."""
    rows = len(recording.series)
    bottom = TOP + rows * (LANE + GAP)
    tall = bottom + 40 + 18 * len(recording.notes)
    width = LEFT + WIDTH + RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall}" viewBox="0 0 {width} {tall}" '
        f'role="img" aria-label="{escape(recording.title)}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="16" y="28">{escape(recording.title)}</text>',
        *(f'<rect class="lane" x="{LEFT}" y="{_top(row)}" width="{WIDTH}" height="{LANE}"/>' for row in range(rows)),
        *_time_axis(recording.end_ns, bottom),
    ]
    for row, series in enumerate(recording.series):
        parts += _lane(series, recording.end_ns, _top(row))
    for number, note in enumerate(recording.notes):
        parts.append(f'<text class="dim" x="16" y="{bottom + 44 + 18 * number}">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _top(row: int) -> int:
    """Of its lane."""
    return TOP + row * (LANE + GAP)


def _x(t_ns: int, end_ns: int) -> float:
    return round(LEFT + WIDTH * t_ns / max(end_ns, 1), 1)


def _time_axis(end_ns: int, bottom: int) -> Iterator[str]:
    """Lines down through all lanes, their times below, about eight of them."""
    wanted = end_ns / _SECOND / 8
    step = next((step for step in _STEPS_S if step >= wanted), None)
    step_ns = round((step or -(-wanted // 3600) * 3600) * _SECOND)
    for t_ns in range(0, end_ns + 1, max(step_ns, 1)):
        x = _x(t_ns, end_ns)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{bottom - GAP + 6}"/>'
        label = show_value(t_ns, Type.DURATION)
        yield f'<text class="dim" x="{x}" y="{bottom + 6}" text-anchor="middle">{label}</text>'
    yield f'<text class="dim" x="{LEFT + WIDTH / 2}" y="{bottom + 24}" text-anchor="middle">simulated time</text>'


def _lane(series: Series, end_ns: int, y: int) -> Iterator[str]:
    yield f"<g><title>{escape(series.name)}</title>"
    yield f'<text x="16" y="{y + LANE / 2}">{escape(series.name)}</text>'
    yield f'<text class="dim" x="16" y="{y + LANE / 2 + 15}">{series.kind}</text>'
    if series.type in WORDS:
        yield from _words(series, end_ns, y)
    else:
        yield from _values(series, end_ns, y)
    yield "</g>"


def _values(series: Series, end_ns: int, y: int) -> Iterator[str]:
    top = top_of(series)
    for label, at in _scale(series.type, top):
        down = y + LANE - LANE * (at / top if top else 0)
        yield f'<text class="dim" x="{LEFT - 8}" y="{down + 4:.1f}" text-anchor="end">{escape(label)}</text>'
    yield from _missing(series, end_ns, y)
    for free, path in _paths(series, end_ns, y, top):
        yield f'<path class="line {series.kind}{" free" if free else ""}" d="{path}"/>'
    if any(value == UNLIMITED for value in series.values):
        yield f'<text class="dim" x="{LEFT + WIDTH - 4}" y="{y - 3}" text-anchor="end">dashed: unlimited</text>'


def _scale(type: Type, top: float) -> list[tuple[str, float]]:
    """Labels of the vertical axis."""
    if type is Type.BOOL:
        return [("false", 0), ("true", 1)]
    if type is Type.RESIDENCY:
        return [(word, float(index)) for index, word in enumerate(RESIDENCIES)]
    return [(show_value(0, type), 0), *([(show_measured(top, type), top)] if top else [])]


def _missing(series: Series, end_ns: int, y: int) -> Iterator[str]:
    for begin, end, value in series.pieces(end_ns):
        if value is None:
            x, width = _x(begin, end_ns), max(_x(end, end_ns) - _x(begin, end_ns), 1)
            yield f'<rect class="missing" x="{x}" y="{y}" width="{width:.1f}" height="{LANE}"/>'
            if width > 70:
                yield f'<text class="dim" x="{x + 6}" y="{y + LANE / 2 + 4}">missing</text>'


def _paths(series: Series, end_ns: int, y: int, top: float) -> Iterator[tuple[bool, str]]:
    """(unlimited?, path) for each stretch that is drawn in one go."""
    points: list[str] = []
    free = False
    for begin, end, level in _thinned(series, end_ns):
        if points and (level is None or (level == UNLIMITED) != free):
            yield free, " ".join(points)
            points = []
        if level is None:
            continue
        free = level == UNLIMITED
        up = 1.0 if free else (level / top if top else 0.0)
        down = round(y + LANE - LANE * up, 1)
        points.append(f"V {down} H {end}" if points else f"M {begin} {down} H {end}")
    if points:
        yield free, " ".join(points)


def _thinned(series: Series, end_ns: int) -> Iterator[tuple[float, float, float | None]]:
    """(x from, x to, height), not more than the lowest and the highest of each tenth of a pixel and a half."""
    waiting: list[tuple[float, float, float]] = []
    for begin_ns, end, value in series.pieces(end_ns):
        begin, until, level = _x(begin_ns, end_ns), _x(end, end_ns), height(value, series.type)
        if level is not None and level != UNLIMITED and until - begin < 1:
            if waiting and begin - waiting[0][0] >= 1.5:
                yield from _extremes(waiting)
                waiting = []
            waiting.append((begin, until, level))
            continue
        yield from _extremes(waiting)
        waiting = []
        yield begin, until, level
    yield from _extremes(waiting)


def _extremes(pieces: list[tuple[float, float, float]]) -> Iterator[tuple[float, float, float]]:
    if len(pieces) <= 2:
        yield from pieces
        return
    low, high = min(pieces, key=lambda piece: piece[2]), max(pieces, key=lambda piece: piece[2])
    for first, _, level in sorted({low, high}):
        yield first, first, level
    yield pieces[-1]


def _words(series: Series, end_ns: int, y: int) -> Iterator[str]:
    yield from _missing(series, end_ns, y)
    for begin, end, value in series.pieces(end_ns):
        if value is None:
            continue
        x, width = _x(begin, end_ns), _x(end, end_ns) - _x(begin, end_ns)
        shown = escape(show_value(value, series.type))
        yield f'<rect class="word {series.kind}" x="{x}" y="{y}" width="{width:.1f}" height="{LANE}">'
        yield f"<title>{shown}</title></rect>"
        if width > 7 * len(shown):
            yield f'<text x="{x + 6}" y="{y + LANE / 2 + 4}">{shown}</text>'
