"""The line at the bottom that is typed into."""

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class Prompt(Input):
    """Goes away by Enter, which keeps what was typed, and by Esc, which does not."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave(False)", show=False)]

    def __init__(self, text: str, changed: Callable[[str], None], done: Callable[[bool], None]) -> None:
        super().__init__(text, select_on_focus=False)
        self.cursor_blink = False
        self._changed = changed
        self._done = done

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._changed(event.value)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        await self.action_leave(True)

    async def action_leave(self, keep: bool) -> None:
        await self.remove()
        self._done(keep)
