"""A widget that shows lines. It draws again only what differs from the lines before."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gpud.tui.look import DARK, Look
from gpud.tui.text import Line, width_of


class Paper(Widget):
    """Lines from the top left corner on; the rest is empty."""

    DEFAULT_CSS = "Paper { width: 1fr; height: 1fr; }"
    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look: Look = DARK
        self._lines: Sequence[Line] = ()
        self._strips: dict[int, Strip] = {}
        self._styles_of: dict[str, Style] = {}
        self.redrawn = 0
        """Regions that were drawn again so far."""

    @property
    def lines(self) -> Sequence[Line]:
        return self._lines

    def show(self, lines: Sequence[Line]) -> None:
        """These lines instead of those before."""
        before, self._lines = self._lines, lines
        regions: list[Region] = []
        for y in range(max(len(before), len(lines))):
            old = before[y] if y < len(before) else _EMPTY
            new = lines[y] if y < len(lines) else _EMPTY
            if old != new:
                self._strips.pop(y, None)
                regions += differing(old, new, y, self.size.width)
        if regions:
            self.redrawn += len(regions)
            self.refresh(*regions)

    def wear(self, look: Look) -> None:
        """In these styles."""
        if look is self.look:
            return
        self.look = look
        self._forget()
        self.refresh()

    def notify_style_update(self) -> None:
        self._forget()
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Straight from the lines: there is neither border nor padding to be drawn around them."""
        begin, end = crop.column_span
        width = self.size.width
        strips = (self._strip(y, width) for y in crop.line_range)
        if (begin, end) == (0, width):
            return list(strips)
        return [strip.crop(begin, end) for strip in strips]

    def _forget(self) -> None:
        self._strips.clear()
        self._styles_of.clear()

    def _strip(self, y: int, width: int) -> Strip:
        strip = self._strips.get(y)
        if strip is None or strip.cell_length != width:
            line = self._lines[y] if y < len(self._lines) else _EMPTY
            segments = [Segment(span.text, self._style(line.over, span.role)) for span in line.spans]
            base = self._style(line.over, "")
            strip = Strip(segments).adjust_cell_length(width, base).simplify()
            for line_filter in self.get_line_filters():
                strip = strip.apply_filter(line_filter, self.background_colors[1])
            self._strips[y] = strip
        return strip

    def _style(self, over: str, role: str) -> Style:
        key = f"{over}|{role}"
        style = self._styles_of.get(key)
        if style is None:
            style = self.look.base
            for name in (*role.split(), *over.split()):
                style += self.look.style(name)
            self._styles_of[key] = style
        return style


_EMPTY = Line()


def differing(old: Line, new: Line, y: int, width: int) -> list[Region]:
    """Where two lines differ: cells alone if all cells stand where they stood."""
    same_cells = old.over == new.over and len(old.spans) == len(new.spans)
    if not same_cells:
        return [Region(0, y, width, 1)]
    regions: list[Region] = []
    x = 0
    for one, other in zip(old.spans, new.spans, strict=True):
        cells = width_of(other.text)
        if one != other:
            if width_of(one.text) != cells:
                return [*regions, Region(x, y, max(width - x, 1), 1)]
            if regions and regions[-1].right == x:
                last = regions.pop()
                regions.append(Region(last.x, y, last.width + cells, 1))
            else:
                regions.append(Region(x, y, cells, 1))
        x += cells
    return regions
