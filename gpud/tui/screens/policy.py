"""The third tab: the policies."""

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType

from gpud.control.wire import DiffAnswer
from gpud.model.policy_views import HistoryView, ReloadView
from gpud.tui.actions import Plan
from gpud.tui.draw.policy import Asked, policy_lines
from gpud.tui.keys import POLICY
from gpud.tui.screens.base import ScrolledScreen, bindings
from gpud.tui.text import Line, clean


class PolicyScreen(ScrolledScreen):
    """What runs and what was refused are of the feed; the rest is asked for by keys."""

    tab = 2
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(POLICY), *ScrolledScreen.SCROLLING]

    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked()

    def lines(self, width: int) -> list[Line]:
        return policy_lines(self.view, self.asked, width)

    def action_diff(self) -> None:
        def answered(answer: DiffAnswer) -> None:
            self.asked.diff = answer
            self.redraw()

        if self.asked.diff is not None:
            self.asked.diff = None
            self.redraw()
        else:
            self.top.ask(lambda asker: asker.diff(), answered)

    def action_history(self) -> None:
        def answered(sets: list[HistoryView]) -> None:
            self.asked.history = sets
            self.redraw()

        if self.asked.history:
            answered([])
        else:
            self.top.ask(lambda asker: asker.history(), answered)

    def action_reload(self) -> None:
        self._try("Read the policies again?", lambda: self.top.ask(lambda asker: asker.reload(), self._reloaded))

    def action_rollback(self) -> None:
        self._try(
            "Run the last good set again?", lambda: self.top.ask(lambda asker: asker.rollback(None), self._reloaded)
        )

    def _try(self, title: str, go: Callable[[], None]) -> None:
        node = self.view.model.node
        if node is None or not self.top.may_change():
            return
        lines = (
            f"of {clean(node.policy_set.directory)}",
            f"on {clean(node.host)}, for {len(self.view.model.jobs)} jobs",
        )
        self.top.confirm(Plan(title=title, lines=lines, asks=()), go)

    def _reloaded(self, answer: ReloadView) -> None:
        self.asked = Asked(result=answer.result, text=answer.text)
        self.top.tell(f"{answer.result}: {clean(answer.text)}", bad=answer.result == "rejected")
        self.redraw()
