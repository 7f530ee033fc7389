"""The fourth tab: all decisions."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from gpud.tui.draw.journal import JournalLines
from gpud.tui.keys import JOURNAL
from gpud.tui.screens.base import ScrolledScreen, bindings
from gpud.tui.text import Line, Span, line_of


class JournalScreen(ScrolledScreen):
    """It follows the newest until one scrolls up, and again from its end on."""

    tab = 3
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(JOURNAL), *ScrolledScreen.SCROLLING]

    def __init__(self) -> None:
        super().__init__()
        self.wanted = ""

    def lines(self, width: int) -> Sequence[Line]:
        found = JournalLines(self.view, self.wanted, width)
        return found or [line_of([Span("  nothing was decided", "dim")], width)]

    def begin(self, lines: int, height: int) -> int:
        return max(lines - height, 0)

    async def action_filter(self) -> None:
        before = self.wanted
        told = self.top.told
        told.hint, told.hint_bad = " only decisions that hold this text.   Enter keeps it, Esc does not", False

        def changed(text: str) -> None:
            self.wanted = text
            self.redraw()

        def done(keep: bool) -> None:
            self.wanted = self.wanted if keep else before
            told.hint = ""
            self.redraw()

        await self.type_line(before, changed, done)
