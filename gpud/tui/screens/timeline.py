"""The second tab: who had which device, and the decisions under the cursor."""

from typing import ClassVar

from attrs import evolve
from textual.binding import BindingType

from gpud.tui.draw.page import TOP
from gpud.tui.draw.timeline import MARGIN, Window, timeline_lines
from gpud.tui.keys import TIMELINE
from gpud.tui.screens.base import PageScreen, bindings
from gpud.tui.text import Line


class TimelineScreen(PageScreen):
    """A cursor in time, on one of the devices."""

    tab = 1
    BINDINGS: ClassVar[list[BindingType]] = bindings(TIMELINE)

    def __init__(self) -> None:
        super().__init__()
        self.window = Window()

    def body(self, width: int, height: int) -> list[Line]:
        return timeline_lines(self.view, self.window, width, height)

    def clicked(self, x: int, y: int) -> None:
        row = y - TOP - 1
        if 0 <= row < len(self.view.devices()) and x >= MARGIN:
            self.window = evolve(self.window, row=row, cursor=max(self.size.width - 1 - x, 0))
            self.redraw()

    def wheel(self, lines: int) -> None:
        self.action_zoom(1 if lines > 0 else -1)

    def action_earlier(self, cells: int) -> None:
        now_ns = self.view.model.at_ns
        self.window = self.window.moved(cells, self.size.width, now_ns)
        self.top.know_since(self.window.end(now_ns) - self.size.width * self.window.step_ns)
        self.redraw()

    def action_device(self, by: int) -> None:
        count = max(len(self.view.devices()), 1)
        self.window = evolve(self.window, row=min(max(self.window.row + by, 0), count - 1))
        self.redraw()

    def action_zoom(self, by: int) -> None:
        self.window = self.window.zoomed(by)
        self.action_earlier(0)

    def action_now(self) -> None:
        self.window = evolve(self.window, end_ns=None, cursor=0)
        self.redraw()
