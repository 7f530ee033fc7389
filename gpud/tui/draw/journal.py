"""All decisions, the newest at the bottom."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import overload

from gpud.model.live_views import Decision
from gpud.tui.draw.decisions import count_of, decision_lines
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

        self._ends = list(accumulate(count_of(one, width) for one in self._wanted))
        """Of each: the line after its last one."""

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        which = bisect_right(self._ends, at)
        begin = self._ends[which - 1] if which else 0
        return decision_lines(self._wanted[which], self._view.model, self._width)[at - begin]
