"""The demo's picture: latency over time in each run, and who held the GPU in one stretch of each."""

import math
from collections.abc import Iterable, Sequence

from gpud.cli.demo.figures import Lane, RunFigures
from gpud.cli.demo.svg import Svg

WIDTH, LEFT, RIGHT = 1000, 84, 24
PLOT = WIDTH - LEFT - RIGHT
INK, SOFT, GRID = "#1f2328", "#57606a", "#d8dee4"
COLOURS = {"alone": "#1a7f37", "shared": "#cf222e", "preempt-mix": "#0969da"}
WORDS = {"alone": "serving alone", "shared": "shared, without gpud", "preempt-mix": "shared, preempt-mix"}
LANE_COLOURS = {"serving": "#bc4c00", "training": "#8c959f"}
EXCERPT_S = 0.6
TOP_PLOT = 300
LANE = 22


def draw(runs: dict[str, RunFigures], label: str) -> str:
    """An SVG document of these runs (keys as in `COLOURS`); `label` says where the figures are from."""
    lanes_height = sum(46 + LANE * max(len(run.lanes), 1) for run in runs.values() if run.lanes)
    height = 96 + TOP_PLOT + 74 + (lanes_height + 60 if lanes_height else 0) + 30
    svg = Svg(WIDTH, height, "gpud demo: latency of a serving program that shares a GPU with a training program")
    svg.text(
        LEFT, 32, "Two programs on one GPU: latency of serving, and who held the GPU", font_size=19, font_weight="bold"
    )
    svg.text(LEFT, 54, label, fill=SOFT)
    _latencies(svg, runs, 96)
    if lanes_height:
        _lanes(svg, runs, 96 + TOP_PLOT + 74)
    return svg.render()


def _latencies(svg: Svg, runs: dict[str, RunFigures], top: float) -> None:
    """Each request as a dot: when it arrived, how long it took (logarithmic)."""
    all_ms = [sample.latency_ms for run in runs.values() for sample in run.samples]
    low, high = _decade(min(all_ms, default=1) / 1.2, 0), _decade(max(all_ms, default=10), 1)
    seconds = max((run.window_s for run in runs.values()), default=1.0)
    bottom = top + TOP_PLOT

    def x(at_s: float) -> float:
        return LEFT + PLOT * at_s / seconds

    def y(ms: float) -> float:
        return bottom - TOP_PLOT * math.log(ms / low) / math.log(high / low)

    for column, (name, run) in enumerate(runs.items()):
        place = LEFT + PLOT / 3 * column
        svg.dot(place + 6, top - 18, 5, fill=COLOURS[name])
        svg.text(
            place + 18,
            top - 14,
            f"{WORDS[name].removeprefix('shared, ')}: p50 {run.p50_ms:.3g} ms, p99 {run.p99_ms:.3g} ms",
            font_size=12,
        )
    for value in _log_ticks(low, high):
        svg.line(LEFT, y(value), LEFT + PLOT, y(value), stroke=GRID)
        svg.text(LEFT - 8, y(value) + 4, f"{value:g}", text_anchor="end", fill=SOFT)
    _time_axis(svg, 0, seconds, bottom, "arrival of the request (s)")
    svg.text(
        0,
        0,
        "latency (ms)",
        fill=SOFT,
        text_anchor="middle",
        transform=f"translate(30 {top + TOP_PLOT / 2}) rotate(-90)",
    )
    for name, run in runs.items():
        for sample in run.samples:
            svg.dot(x(sample.at_s), y(max(sample.latency_ms, low)), 3.2, fill=COLOURS[name], fill_opacity=0.75)


def _lanes(svg: Svg, runs: dict[str, RunFigures], top: float) -> None:
    """A stretch of each run, the same one in all: which program's kernels were on the device."""
    start = _busy_stretch(runs)
    svg.text(LEFT, top, "Who held the GPU: the same stretch of each run", font_size=15, font_weight="bold")
    place = LEFT + PLOT - 300
    for who, colour in LANE_COLOURS.items():
        svg.rect(place, top - 11, 12, 12, fill=colour)
        svg.text(place + 17, top, who)
        place += 85
    _mark(svg, place + 5, top + 1)
    svg.text(place + 14, top, "a request arrives")
    y = top + 18
    for name, run in runs.items():
        if not run.lanes:
            continue
        svg.text(LEFT, y + 16, WORDS[name], font_weight="bold", fill=COLOURS[name])
        y += 30
        for sample in run.samples:
            if start <= sample.at_s < start + EXCERPT_S:
                _mark(svg, LEFT + PLOT * (sample.at_s - start) / EXCERPT_S, y)
        for lane in run.lanes:
            _lane(svg, lane, start, y)
            y += LANE
        y += 16
    _time_axis(svg, start, start + EXCERPT_S, y - 6, "time (s)")


def _mark(svg: Svg, x: float, y: float) -> None:
    svg.element("path", d=f"M {x - 4:.1f} {y - 9:.1f} L {x + 4:.1f} {y - 9:.1f} L {x:.1f} {y - 1:.1f} Z", fill=INK)


def _lane(svg: Svg, lane: Lane, start: float, y: float) -> None:
    svg.text(LEFT - 8, y + 13, lane.who, text_anchor="end", fill=SOFT)
    svg.rect(LEFT, y, PLOT, LANE - 4, fill="#f6f8fa")
    for begin, end in merge(lane.pieces, 0.0002):
        begin, end = max(begin, start) - start, min(end, start + EXCERPT_S) - start
        if end > begin:
            width = max(PLOT * (end - begin) / EXCERPT_S, 0.5)
            svg.rect(LEFT + PLOT * begin / EXCERPT_S, y, width, LANE - 4, fill=LANE_COLOURS[lane.who])


def merge(pieces: Iterable[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Joins pieces that lie closer together than `gap`."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(pieces):
        if joined and begin - joined[-1][1] < gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _busy_stretch(runs: dict[str, RunFigures]) -> float:
    """Where an excerpt begins that holds as many requests as is usual, away from the edges."""
    samples = [sample.at_s for sample in runs["alone"].samples]
    last = max(runs["alone"].window_s - EXCERPT_S, 0.0)
    starts = [max(at - 0.05, 0.0) for at in samples if at - 0.05 <= last] or [0.0]
    counts = sorted((sum(start <= at < start + EXCERPT_S for at in samples), start) for start in starts)
    return counts[len(counts) * 2 // 3][1]


def _time_axis(svg: Svg, first: float, last: float, y: float, words: str) -> None:
    svg.line(LEFT, y, LEFT + PLOT, y, stroke=INK)
    step = _step((last - first) / 8)
    tick = math.ceil(first / step - 1e-9) * step
    while tick <= last + 1e-9:
        x = LEFT + PLOT * (tick - first) / (last - first)
        svg.line(x, y, x, y + 5, stroke=INK)
        svg.text(x, y + 19, f"{tick:.6g}", text_anchor="middle", fill=SOFT)
        tick += step
    svg.text(LEFT + PLOT / 2, y + 36, words, text_anchor="middle", fill=SOFT)


def _step(least: float) -> float:
    """The smallest of 1, 2, 5 × 10ⁿ that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)


def _decade(value: float, up: int) -> float:
    """The next of 1, 2, 5 × 10ⁿ below (`up` 0) or above (1)."""
    power = 10.0 ** math.floor(math.log10(value))
    factors: Sequence[float] = (1, 2, 5, 10)
    if up:
        return next(power * factor for factor in factors if power * factor > value)
    return max(power * factor for factor in factors if power * factor <= value)


def _log_ticks(low: float, high: float) -> list[float]:
    ticks, value = [], low
    while value <= high * 1.001:
        ticks.append(value)
        value = _decade(value * 1.001, 1)
    return ticks
