"""What the screens of all tabs share: a paper over the whole terminal, and a line to type into."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import Screen

from gpud.tui.draw.page import LEAST, Told, framed, too_small
from gpud.tui.draw.top import tab_at
from gpud.tui.draw.view import View
from gpud.tui.keys import Key
from gpud.tui.text import Line
from gpud.tui.widgets.paper import Paper

if TYPE_CHECKING:
    from gpud.tui.app import TopApp


def bindings(keys: tuple[Key, ...]) -> list[BindingType]:
    return [Binding(key.keys, key.action, key.help, show=False) for key in keys]


class PageScreen(Screen[None]):
    """One tab."""

    tab: ClassVar[int] = 0

    _drawn: Size | None = None
    """Of the terminal, when it was drawn last; None: it never was."""

    @property
    def top(self) -> "TopApp":
        return cast("TopApp", self.app)

    @property
    def view(self) -> View:
        return self.top.view

    @property
    def paper(self) -> Paper:
        return self.query_one(Paper)

    def compose(self) -> ComposeResult:
        yield Paper()

    def on_screen_resume(self) -> None:
        if self._drawn is not None:  # the first time, the size comes right after it
            self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        if self._drawn != self.size:
            self.redraw()

    def body(self, width: int, height: int) -> list[Line]:
        """What is this tab's own."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Shows what is known now. Costs little where nothing has changed."""
        self._drawn = self.size
        width, height = self.paper_size()
        self.paper.wear(self.top.look)
        if width < LEAST[0] or height < LEAST[1]:
            self.paper.show(too_small(width, height))
            return
        body = self.body(width, height - 4)
        self.paper.show(framed(self.view, self.tab, self.told(), body, width, height))

    def told(self) -> Told:
        return self.top.told

    def paper_size(self) -> tuple[int, int]:
        """Columns and lines: of the terminal, without the line that is typed into."""
        return self.size.width, self.size.height - len(self.query("Input"))

    async def type_line(self, text: str, changed: Callable[[str], None], done: Callable[[bool], None]) -> None:
        """Opens a line at the bottom; the next key is typed into it. `changed` gets what is typed; `done` whether it is
        to be kept."""
        from gpud.tui.widgets.prompt import Prompt

        if self.query(Prompt):
            return
        prompt = Prompt(text, changed, done)
        await self.mount(prompt)
        self.set_focus(prompt)
        self.redraw()

    def on_key(self, event: events.Key) -> None:
        self.top.forget_remark()

    def on_click(self, event: events.Click) -> None:
        self.top.forget_remark()
        if event.screen_y == 1:
            tab = tab_at(event.screen_x)
            if tab is not None:
                self.top.action_tab(tab)
        else:
            self.clicked(event.screen_x, event.screen_y)

    def clicked(self, x: int, y: int) -> None:
        """Below the tabs."""

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.wheel(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.wheel(-3)

    def wheel(self, lines: int) -> None:
        """The mouse's wheel, downwards."""


class ScrolledScreen(PageScreen):
    """A tab that is longer than the screen."""

    SCROLLING: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-15)", show=False),
        Binding("pagedown", "move(15)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.first: int | None = None
        """Line that stands at the top; None: where `begin` says."""

    def lines(self, width: int) -> Sequence[Line]:
        """All of them."""
        raise NotImplementedError

    def begin(self, lines: int, height: int) -> int:
        """Which line stands at the top before anybody has scrolled."""
        return 0

    def body(self, width: int, height: int) -> list[Line]:
        lines = self.lines(width)
        last = max(len(lines) - height, 0)
        if self.first is not None and self.first >= last == self.begin(len(lines), height):
            self.first = None
        at = self.begin(len(lines), height) if self.first is None else min(max(self.first, 0), last)
        self._shown = (at, last)
        return list(lines[at : at + height])

    def wheel(self, lines: int) -> None:
        self.action_move(lines)

    def action_move(self, lines: int) -> None:
        at, last = self._shown
        self.first = min(max(at + lines, 0), last)
        self.redraw()
