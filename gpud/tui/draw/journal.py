"""All decisions, the newest at the bottom."""

from collections.abc import Sequence
from typing import overload

from gpud.model.live_views import Decision
from gpud.tui.draw.detail import decision_line
from gpud.tui.draw.view import View
from gpud.tui.text import Line


class JournalLines(Sequence[Line]):
    """Oldest first. A line is made when it is asked for: there are thousands, of which a screen shows a few."""

    def __init__(self, view: View, text: str, width: int) -> None:
        """Those about the focused device that hold the text in kind, sentence, job or place."""
        needle, focus = text.casefold(), view.focus
        self._view = view
        self._width = width
        self._wanted: Sequence[Decision] = [
            one
            for one in view.model.decisions
            if focus in (None, one.device)
            and (not needle or any(needle in part.casefold() for part in (one.kind, one.text, one.by, f"#{one.job}")))
        ]

    def __len__(self) -> int:
        return len(self._wanted)

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        found = self._wanted[index]
        if isinstance(found, Decision):
            return decision_line(found, self._view.model, self._width)
        return [decision_line(one, self._view.model, self._width) for one in found]
