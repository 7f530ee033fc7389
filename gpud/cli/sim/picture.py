"""A device log as a picture: over time, what was on each device, for whom, with switches and copies."""

import math
from collections.abc import Iterable, Sequence

from attrs import frozen

from gpud.cli.demo.svg import Svg
from gpud.cli.sim.devicelog import Copy, DeviceLog
from gpud.cli.sim.summary import on_device
from gpud.cli.sim.table import duration

WIDTH, LEFT, RIGHT = 1200, 150, 30
PLOT = WIDTH - LEFT - RIGHT
LANE, GAP = 20, 6
INK, SOFT, GRID, EMPTY = "#1f2328", "#57606a", "#d8dee4", "#f6f8fa"
PROGRAMS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#1b7c83", "#cf222e")
"""One a program, again from the start when there are more."""
COPY, SWITCH, FAULT = "#57606a", "#8c959f", "#cf222e"


@frozen(kw_only=True)
class Lane:
    """One row: when something was on it, and in which colour."""

    title: str
    boxes: tuple[tuple[int, int, str], ...]
    """Begin, end (model ns), colour."""


def draw(log: DeviceLog, first_ns: int | None = None, last_ns: int | None = None) -> str:
    """An SVG document. Without bounds: from the first submission to the last end."""
    work = (*log.work, *log.dropped)
    begin = min((one.submit_ns for one in work), default=0) if first_ns is None else first_ns
    end = max((one.end_ns for one in work), default=1) if last_ns is None else last_ns
    end = max(end, begin + 1)
    devices = [(device, _lanes(log, device, begin, end)) for device in range(log.header.devices)]
    height = 70 + sum(34 + (LANE + GAP) * len(lanes) for _, lanes in devices) + 60
    header = log.header
    svg = Svg(WIDTH, height, f"what ran on the simulated node {header.node}")
    label = (
        f"simulated, profile {header.profile}, {header.mode}, time scale {header.time_scale:g}; times are model time"
    )
    svg.text(LEFT, 28, f"What ran on node {header.node or '?'}", font_size=18, font_weight="bold")
    svg.text(LEFT, 48, label + ("" if log.valid else "; not valid as a measurement"), fill=SOFT)
    y = 70.0
    for device, lanes in devices:
        svg.text(LEFT, y + 14, f"device {device}", font_weight="bold")
        y += 24
        for lane in lanes:
            _lane(svg, lane, begin, end, y)
            y += LANE + GAP
        y += 10
    _marks(svg, log, begin, end, 70, y)
    _axis(svg, begin, end, y)
    return svg.render()


def _lanes(log: DeviceLog, device: int, begin: int, end: int) -> list[Lane]:
    work = [
        one for one in (*log.work, *log.dropped) if one.device == device and one.end_ns > begin and one.start_ns < end
    ]
    pids = list(dict.fromkeys(one.pid for one in sorted(work, key=lambda one: one.start_ns)))
    colour = {pid: PROGRAMS[place % len(PROGRAMS)] for place, pid in enumerate(pids)}
    lanes = []
    for pid in pids:
        own = [one for one in on_device(work) if one.pid == pid]
        lanes.append(
            Lane(title=f"process {pid}", boxes=tuple((a, b, colour[pid]) for one in own for a, b in one.pieces))
        )
    for direction, words in (("h2d", "copies to it"), ("d2h", "copies from it")):
        own = [one for one in work if isinstance(one, Copy) and one.direction == direction]
        if own:
            boxes = tuple((one.start_ns, one.end_ns, colour.get(one.pid, COPY)) for one in own)
            lanes.append(Lane(title=words, boxes=boxes))
    switches = [one for one in log.switches if one.device == device and one.end_ns > begin and one.start_ns < end]
    if switches:
        lanes.append(Lane(title="switches", boxes=tuple((one.start_ns, one.end_ns, SWITCH) for one in switches)))
    return lanes


def _lane(svg: Svg, lane: Lane, begin: int, end: int, y: float) -> None:
    svg.text(LEFT - 8, y + 14, lane.title, text_anchor="end", fill=SOFT)
    svg.rect(LEFT, y, PLOT, LANE, fill=EMPTY)
    for a, b, colour in joined(lane.boxes, (end - begin) / PLOT / 4):
        a, b = max(a, begin), min(b, end)
        if b > a:
            width = max(PLOT * (b - a) / (end - begin), 0.3)
            svg.rect(LEFT + PLOT * (a - begin) / (end - begin), y, width, LANE, fill=colour)


def joined(boxes: Iterable[tuple[int, int, str]], gap: float) -> list[tuple[int, int, str]]:
    """Boxes of one colour that lie closer together than `gap` become one."""
    found: list[tuple[int, int, str]] = []
    for a, b, colour in sorted(boxes):
        if found and found[-1][2] == colour and a - found[-1][1] < gap:
            found[-1] = found[-1][0], max(found[-1][1], b), colour
        else:
            found.append((a, b, colour))
    return found


def _marks(svg: Svg, log: DeviceLog, begin: int, end: int, top: float, bottom: float) -> None:
    """A line where a fault happened or a device was lost."""
    moments: Sequence[tuple[int, str]] = [
        *((fault.model_ns, f"{fault.call}: {fault.what}") for fault in log.faults),
        *((lost.model_ns, f"device {lost.device} is lost") for lost in log.lost),
    ]
    for at, words in moments:
        if begin <= at <= end:
            x = LEFT + PLOT * (at - begin) / (end - begin)
            svg.line(x, top, x, bottom, stroke=FAULT)
            svg.text(x + 3, top + 8, words, fill=FAULT, font_size=10)


def _axis(svg: Svg, begin: int, end: int, y: float) -> None:
    svg.line(LEFT, y, LEFT + PLOT, y, stroke=INK)
    step = step_ns((end - begin) / 8)
    for tick in range(math.ceil(begin / step) * step, end + 1, step):
        x = LEFT + PLOT * (tick - begin) / (end - begin)
        svg.line(x, y, x, y + 5, stroke=INK)
        svg.text(x, y + 19, duration(tick), text_anchor="middle", fill=SOFT)
    svg.text(LEFT + PLOT / 2, y + 38, "model time since the node began", text_anchor="middle", fill=SOFT)


def step_ns(least: float) -> int:
    """The smallest of 1, 2, 5 × 10ⁿ that is not below `least`, and a whole number."""
    power: int = 10 ** max(0, math.floor(math.log10(max(least, 1))))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)
