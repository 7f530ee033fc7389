"""Dialogs: to confirm, to choose, to type, to read. All are left by Esc."""

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from gpud.model.errors import UsageError
from gpud.tui.actions import Plan
from gpud.tui.draw.page import LEAST, box
from gpud.tui.look import Look
from gpud.tui.text import Line, Span, line_of, width_of, width_of_spans, wrap
from gpud.tui.widgets.paper import Paper

_R = TypeVar("_R")


class Dialog(ModalScreen[_R]):
    """A box in the middle of the screen."""

    def __init__(self, look: Look, title: str) -> None:
        super().__init__()
        self._look = look
        self._title = title
        self._first = 0
        """Line of the text that stands at the top."""

    def compose(self) -> ComposeResult:
        yield Paper()

    def on_mount(self) -> None:
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        self.redraw()

    def text(self, width: int) -> list[Line]:
        """What stands in it."""
        raise NotImplementedError

    def foot(self) -> list[Span]:
        """Its keys."""
        raise NotImplementedError

    def redraw(self) -> None:
        paper = self.query_one(Paper)
        paper.wear(self._look)
        most_width, most_height = max(self.size.width - 4, 12), max(self.size.height - 2, 3)
        lines = self.text(most_width - 4)
        needs = [width_of_spans(line.spans) for line in lines] + [
            width_of_spans(self.foot()),
            width_of(self._title) + 4,
        ]
        width = min(max(needs) + 4, most_width)
        room = max(most_height - 5 - self.below, 1)
        self._first = max(min(self._first, len(lines) - room), 0)
        shown = lines[self._first : self._first + room]
        foot = self.foot()
        if len(shown) < len(lines):
            foot = [Span("↑↓ ", "key"), Span(f"{self._first + len(shown)}/{len(lines)}  ", "dim"), *foot]
        boxed = box(self._title, shown, foot, width)[: most_height - self.below]
        paper.styles.width, paper.styles.height = width, len(boxed)
        paper.show(boxed)

    below = 0
    """Lines that stand below the box."""

    def action_scroll(self, lines: int) -> None:
        self._first = max(self._first + lines, 0)
        self.redraw()


class Info(Dialog[None]):
    """Something to read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,w", "dismiss_it", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
    ]

    def __init__(self, look: Look, title: str, text: Callable[[int], list[Line]]) -> None:
        super().__init__(look, title)
        self._text = text

    def text(self, width: int) -> list[Line]:
        return self._text(width)

    def foot(self) -> list[Span]:
        return [Span("Esc", "key"), Span(" back", "dim")]

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.action_scroll(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.action_scroll(-3)

    def on_click(self, event: events.Click) -> None:
        self.action_dismiss_it()

    def action_dismiss_it(self) -> None:
        self.dismiss(None)


class Confirm(Dialog[bool]):
    """Asks before something is changed: which jobs, whose, which processes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
    ]

    def __init__(self, look: Look, plan: Plan) -> None:
        super().__init__(look, plan.title)
        self._plan = plan

    def text(self, width: int) -> list[Line]:
        role = "bad" if self._plan.grave else "strong"
        return [
            line_of([Span(part, role)], width) for line in self._plan.lines for part in wrap(line, width, 99) or [""]
        ]

    def foot(self) -> list[Span]:
        return [Span("y", "key"), Span(" yes", "dim"), Span("    "), Span("n", "key"), Span(" no (or Esc)", "dim")]

    def on_click(self, event: events.Click) -> None:
        paper = self.query_one(Paper)
        y, x = event.screen_y - paper.region.y, event.screen_x - paper.region.x - 2
        if y == paper.region.height - 2 and 0 <= x < 5:
            self.action_answer(True)
        elif y == paper.region.height - 2 and 9 <= x < 21:
            self.dismiss(False)

    def action_answer(self, yes: bool) -> None:
        """Yes means what can be read: there is none where the terminal is too small for it."""
        if not yes or (self.size.width >= LEAST[0] and self.size.height >= LEAST[1]):
            self.dismiss(yes)


class Choose(Dialog[str | None]):
    """One of a few words."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "take(False)", show=False),
        Binding("enter", "take(True)", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
    ]

    def __init__(self, look: Look, title: str, choices: Sequence[str]) -> None:
        super().__init__(look, title)
        self._choices = choices
        self._at = 0

    def text(self, width: int) -> list[Line]:
        lines = []
        for at, word in enumerate(self._choices):
            chosen = at == self._at
            lines.append(line_of([Span(f"{'▸' if chosen else ' '} {word}", "key" if chosen else "")], width))
        return lines

    def foot(self) -> list[Span]:
        return [Span("↑↓ Enter", "key"), Span(" choose  ", "dim"), Span("Esc", "key"), Span(" back", "dim")]

    def on_click(self, event: events.Click) -> None:
        paper = self.query_one(Paper)
        at = event.screen_y - paper.region.y - 2 + self._first
        if 0 <= at < len(self._choices) and paper.region.contains(event.screen_x, event.screen_y):
            self.dismiss(self._choices[at])

    def action_move(self, by: int) -> None:
        self._at = (self._at + by) % len(self._choices)
        self.redraw()

    def action_take(self, yes: bool) -> None:
        self.dismiss(self._choices[self._at] if yes else None)


class Type(Dialog[str | None]):
    """A line of text, checked as it is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", show=False)]
    below = 1

    def __init__(self, look: Look, title: str, lines: Sequence[str], check: Callable[[str], object]) -> None:
        """`check` raises UsageError for what cannot be."""
        super().__init__(look, title)
        self._told = lines
        self._typed = ""
        self._check = check
        self._wrong = ""

    def compose(self) -> ComposeResult:
        yield Paper()
        line = Input()
        line.cursor_blink = False
        yield line

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.query_one(Input))

    def text(self, width: int) -> list[Line]:
        lines = [line_of([Span(line)], width) for line in self._told]
        return [*lines, Line(), line_of([Span(self._wrong or " ", "bad")], width)]

    def foot(self) -> list[Span]:
        return [Span("Enter", "key"), Span(" go on  ", "dim"), Span("Esc", "key"), Span(" back", "dim")]

    def redraw(self) -> None:
        super().redraw()
        self.query_one(Input).styles.width = self.query_one(Paper).styles.width

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value != self._typed:
            self._typed, self._wrong = event.value, ""
            self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            self._check(event.value)
        except UsageError as error:
            self._wrong = str(error)
            self.redraw()
            return
        self.dismiss(event.value)

    def action_give_up(self) -> None:
        self.dismiss(None)
