"""Series as lines of characters: one row each, eight levels, for a terminal or a log.

low.max_launch_rate  knob     20/s … 5062/s    ▁▁▁▁▂▃▅█∞∞∞∞
"""

from collections.abc import Iterator
from typing import Any

from gpud.policies.quantities import show_measured, show_value
from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.series import WORDS, Recording, Series, height, top_of
from gpud.policies.types import Type
from gpud.policies.values import RESIDENCIES

_BLOCKS, _PLAIN = "▁▂▃▄▅▆▇█", "_.-~=+*#"
_MARKS = {True: ("·", "∞"), False: ("?", "^")}
"""(missing, unlimited), in Unicode and without."""


def draw(recording: Recording, *, width: int = 100, unicode: bool = True) -> str:
    """The text, ending with a newline; no line is wider than `width`, which is at least 60."""
    names = [_plain(_head(series), unicode) for series in recording.series]
    column = min(max((len(name) for name in names), default=0), max(width - 30, 30))
    cells = max(20, width - column - 2)
    lines = [_plain(recording.title, unicode)]
    for name, series in zip(names, recording.series, strict=True):
        drawn = _words if series.type in WORDS else _levels
        lines.append(f"{_cut(name, column, unicode):<{column}}  {drawn(series, recording.end_ns, cells, unicode)}")
    lines.append(f"{'':<{column}}  {_axis(recording.end_ns, cells, unicode)}")
    lines += [_plain(note, unicode) for note in recording.notes]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _plain(text: str, unicode: bool) -> str:
    return text if unicode else text.replace("…", "..").encode("ascii", "replace").decode()


def _head(series: Series) -> str:
    if series.type in WORDS or series.type is Type.BOOL:
        return f"{series.name}  {series.kind}"
    low = "device" if series.type is Type.RESIDENCY else "0"
    return f"{series.name}  {series.kind}  {low} … {_short(top_of(series), series.type)}"


def _short(value: float, type: Type) -> str:
    return RESIDENCIES[int(value)] if type is Type.RESIDENCY else show_measured(value, type)


def _cut(text: str, most: int, unicode: bool) -> str:
    return text if len(text) <= most else text[: most - 1] + ("…" if unicode else ".")


def _columns(series: Series, end_ns: int, cells: int) -> Iterator[list[Any]]:
    """Per column, all values in force within it."""
    pieces = list(series.pieces(end_ns))
    first = 0
    for cell in range(cells):
        begin, end = cell * end_ns // cells, max((cell + 1) * end_ns // cells, cell * end_ns // cells + 1)
        while first < len(pieces) and pieces[first][1] <= begin and first + 1 < len(pieces):
            first += 1
        found, index = [], first
        while index < len(pieces) and pieces[index][0] < end:
            found.append(pieces[index][2])
            index += 1
        yield found


def _levels(series: Series, end_ns: int, cells: int, unicode: bool) -> str:
    """A column shows the highest value within it, so that a short peak is seen."""
    levels, (missing, unlimited) = _BLOCKS if unicode else _PLAIN, _MARKS[unicode]
    top, text = top_of(series), ""
    for values in _columns(series, end_ns, cells):
        heights = [found for found in (height(value, series.type) for value in values) if found is not None]
        if not heights:
            text += missing if values else " "
        elif max(heights) == UNLIMITED:
            text += unlimited
        else:
            text += levels[min(len(levels) - 1, int(max(heights) / top * len(levels)) if top else 0)]
    return text


def _words(series: Series, end_ns: int, cells: int, unicode: bool) -> str:
    """Each word where it begins, then a line until the next."""
    text = [" "] * cells
    for begin, end, value in series.pieces(end_ns):
        first = begin * cells // end_ns if end_ns else 0
        last = end * cells // end_ns if end_ns else cells
        room = last - first
        if room > 0:
            shown = _plain(f"|{show_value(value, series.type)}", unicode)[:room]
            text[first:last] = shown + ("─" if unicode else "-") * (room - len(shown))
    return "".join(text[:cells])


def _axis(end_ns: int, cells: int, unicode: bool) -> str:
    end = show_value(end_ns, Type.DURATION)
    return f"0s{('─' if unicode else '-') * max(1, cells - 2 - len(end))}{end}"
