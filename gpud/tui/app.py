"""The program: takes what the feed brings, keeps what is shown, asks the daemon in threads of their own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from textual.app import App
from textual.binding import BindingType
from textual.message import Message
from textual.theme import BUILTIN_THEMES, Theme

from gpud.control.wire import AskJournal, JournalAnswer
from gpud.model.errors import GpudError
from gpud.model.live_views import Feed
from gpud.tui.actions import Plan
from gpud.tui.ask import Asker
from gpud.tui.draw.help import help_lines
from gpud.tui.draw.page import Told
from gpud.tui.draw.view import View
from gpud.tui.feed import Ended, Lost, Remark, Step
from gpud.tui.inbox import Inbox
from gpud.tui.keys import EVERYWHERE
from gpud.tui.look import DARK, LIGHT, NONE, Look
from gpud.tui.model import NodeModel
from gpud.tui.screens.base import PageScreen, bindings
from gpud.tui.screens.jobs import JobsScreen
from gpud.tui.text import Line, clean

_A = TypeVar("_A")
_LOOKS = (DARK, LIGHT, NONE)
JOURNAL_NS = 600 * 10**9
"""How far back the journal is asked for at the beginning."""
_THEMES = (
    Theme(name=DARK.name, primary="#6cb6ff", foreground="#d5dde6", background="#0e141b", surface="#1a2430", dark=True),
    Theme(name=LIGHT.name, primary="#0969da", foreground="#1f2328", background="#fbfcfd", surface="#eaeef2",
          dark=False),
    replace(BUILTIN_THEMES["ansi-dark"], name=NONE.name),
)  # fmt: skip


class Fed(Message):
    """Something lies in the inbox."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Fed)


class Answered(Message):
    """A thread has an answer."""

    def __init__(self, run: Callable[[], None]) -> None:
        super().__init__()
        self.run = run


class TopApp(App[int]):
    """`gpud top`."""

    TITLE = "gpud top"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = bindings(EVERYWHERE)
    CSS = """
    PageScreen { overflow: hidden; }
    PageScreen Input { dock: bottom; height: 1; border: none; padding: 0 1; background: $surface; }
    Dialog { align: center middle; background: $background 55%; overflow: hidden; }
    Dialog:ansi { background: transparent; }
    Dialog Paper { width: 40; height: 10; }
    Dialog Input { width: 40; height: 1; border: none; padding: 0 2; background: $surface; }
    """

    def __init__(self, *, inbox: Inbox, asker: Asker, view: View, look: Look, fixed: str = "") -> None:
        """`view.model` is the node as it is; steps are applied to it. `fixed`: why nothing may be changed."""
        super().__init__()
        self.inbox = inbox
        self.asker = asker
        self.view = view
        self.live: NodeModel = view.model
        self.look = look
        self.told = Told()
        self._fixed = view.readonly = fixed
        self._pages: dict[int, PageScreen] = {}
        self._past_ns: int | None = None
        """The time that was asked for last; None: now is shown."""
        self._known_ns: int | None = None
        """From then on all decisions are known."""
        for theme in _THEMES:
            self.register_theme(theme)
        self.theme = look.name

    def get_default_screen(self) -> JobsScreen:
        page = JobsScreen()
        self._pages[0] = page
        return page

    def on_mount(self) -> None:
        self.inbox.wake_by(lambda: self.post_message(Fed()))

    @property
    def page(self) -> PageScreen:
        """The tab that is shown, perhaps below a dialog."""
        return next(screen for screen in reversed(self.screen_stack) if isinstance(screen, PageScreen))

    def redraw(self) -> None:
        self.page.redraw()

    def on_fed(self) -> None:
        for item in self.inbox.drain():
            if isinstance(item, Step):
                self._step(item.feed)
            elif isinstance(item, Lost):
                self.told.lost = item.text
            elif isinstance(item, Ended):
                self.told.ended, self.told.ended_badly = item.text, item.bad
            elif isinstance(item, Remark):
                self.tell(item.text, bad=True)
        self.redraw()

    def _step(self, feed: Feed) -> None:
        first = not self.live.number
        self.live.kept = set(self.view.tags) | ({self.view.cursor} if self.view.cursor is not None else set())
        self.live.apply(feed)
        self.told.lost = ""
        if self.live.node is not None:
            self.view.readonly = self._fixed or clean(self.live.node.readonly)
        if first or self._known_ns is None:
            self._known_ns = feed.at_ns
            self.know_since(feed.at_ns - JOURNAL_NS)

    # Questions

    def ask(self, what: Callable[[Asker], _A], then: Callable[[_A], object], *, quiet: bool = False) -> None:
        """Asks in a thread; `then` gets the answer here. An error is told, unless `quiet`."""

        def work() -> None:
            try:
                answer = what(self.asker)
            except (GpudError, OSError) as error:
                text = clean(str(error))
                if not quiet:
                    self.post_message(Answered(lambda: self.tell(text, bad=True)))
            else:
                self.post_message(Answered(lambda: _drop(then(answer))))

        self.run_worker(work, thread=True, exit_on_error=True)

    def on_answered(self, message: Answered) -> None:
        message.run()

    def tell(self, text: str, *, bad: bool = False) -> None:
        """A remark in the last line, until the next key."""
        self.told.remark, self.told.remark_bad = clean(text), bad
        self.redraw()

    def forget_remark(self) -> None:
        if self.told.remark:
            self.told.remark = ""
            self.redraw()

    def know_since(self, at_ns: int) -> None:
        """Fetches older decisions, if there are any of that time that are not known."""
        known_ns = self._known_ns
        if known_ns is None or at_ns >= known_ns:
            return
        self._known_ns = at_ns

        def answered(answer: JournalAnswer) -> None:
            self.live.take_older(answer.decisions)
            self.redraw()

        ask = AskJournal(since_at_ns=at_ns, until_at_ns=known_ns, most=2000)
        self.ask(lambda asker: asker.journal(ask), answered, quiet=True)

    # Dialogs

    def read(self, title: str, text: Callable[[int], list[Line]]) -> None:
        from gpud.tui.screens.dialogs import Info

        self.push_screen(Info(self.look, title, text))

    def choose(self, title: str, choices: Sequence[str], then: Callable[[str | None], None]) -> None:
        from gpud.tui.screens.dialogs import Choose

        self.push_screen(Choose(self.look, title, choices), then)

    async def type_text(
        self,
        title: str,
        lines: Sequence[str],
        check: Callable[[str], object],
        then: Callable[[str | None], None],
    ) -> None:
        from gpud.tui.screens.dialogs import Type

        await self.push_screen(Type(self.look, title, lines, check), then)

    def confirm(self, plan: Plan, go: Callable[[], None] | None = None) -> None:
        """Asks whether it is meant; then does it: `go`, or the plan's own requests, one after the other."""
        from gpud.tui.screens.dialogs import Confirm

        def answered(yes: bool | None) -> None:
            if yes and go is not None:
                go()
            elif yes:
                self.ask(lambda asker: _all(asker, plan), self._done)

        self.push_screen(Confirm(self.look, plan), answered)

    def _done(self, results: list[tuple[str, bool]]) -> None:
        texts = [text for text, _ in results]
        failed = [text for text, bad in results if bad]
        if len(texts) > 1 and not failed:
            self.tell(f"{len(texts)} jobs: done")
        else:
            self.tell("; ".join(failed or texts), bad=bool(failed))

    def may_change(self) -> bool:
        """Tells why not."""
        if self.view.model.past:
            self.tell("this is the past: Esc goes back to now", bad=True)
        elif self.view.readonly:
            self.tell(f"nothing can be changed: {self.view.readonly}", bad=True)
        else:
            return True
        return False

    # Keys that all tabs have

    def action_tab(self, number: int) -> None:
        if self.page.tab == number:
            return
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = _new_page(number)
            self.install_screen(page, f"tab{number}")
        if number == 0:
            self.pop_screen()  # the first one is always there, below the others
        elif self.page.tab == 0:
            self.push_screen(page)
        else:
            self.switch_screen(page)

    def action_help(self) -> None:
        tab, readonly = self.page.tab, bool(self.view.readonly)
        self.read("help", lambda width: help_lines(tab, width, readonly=readonly))

    def action_freeze(self) -> None:
        self.view.frozen = not self.view.frozen
        self._past_ns = None
        self.view.model = self.live.snapshot() if self.view.frozen else self.live
        self.redraw()

    def action_focus_device(self) -> None:
        self.view.next_focus()
        self.redraw()

    def action_look(self) -> None:
        self.look = _LOOKS[(_LOOKS.index(self.look) + 1) % len(_LOOKS)]
        self.theme = self.look.name
        self.redraw()

    def action_leave(self) -> None:
        from gpud.tui.filter import Filter

        if self._past_ns is not None or self.view.frozen:
            self._to_now()
        elif self.view.focus is not None:
            self.view.focus = None
        elif self.view.filter.text:
            self.view.filter_by(Filter())
        else:
            self.view.tags.clear()
        self.redraw()

    def action_past(self, seconds: int) -> None:
        """So many seconds before what is shown; after now there is only now."""
        shown_ns = self._past_ns if self._past_ns is not None else self.view.model.at_ns
        wanted_ns = shown_ns - seconds * 10**9
        if wanted_ns >= self.live.at_ns or not self.live.number:
            self._to_now()
            self.redraw()
            return
        before_ns, self._past_ns = self._past_ns, wanted_ns

        def look_back(asker: Asker) -> tuple[NodeModel | None, str]:
            try:
                return past_model(asker.past(wanted_ns)), ""
            except (GpudError, OSError) as error:
                return None, clean(str(error))

        def answered(answer: tuple[NodeModel | None, str]) -> None:
            if self._past_ns != wanted_ns:
                return  # another time was asked for meanwhile
            model, error = answer
            if model is None:
                self._past_ns = before_ns
                self.tell(error, bad=True)
                return
            model.holders, model.decisions = self.live.holders, self.live.decisions.copy()
            self.view.model, self.view.frozen = model, False
            self.redraw()

        self.ask(look_back, answered)

    def _to_now(self) -> None:
        self._past_ns, self.view.frozen, self.view.model = None, False, self.live

    async def action_quit(self) -> None:
        self.exit(0)


def past_model(steps: list[Feed]) -> NodeModel:
    """The node as it was after the last of some full steps."""
    model = NodeModel()
    for step in steps:
        model.apply(step)
    model.past = True
    return model


def _all(asker: Asker, plan: Plan) -> list[tuple[str, bool]]:
    """Each request by itself: what was done, or why not."""
    results: list[tuple[str, bool]] = []
    for ask in plan.asks:
        try:
            results.append((asker.change(ask), False))
        except (GpudError, OSError) as error:
            results.append((str(error), True))
    return results


def _new_page(number: int) -> PageScreen:
    from gpud.tui.screens.journal import JournalScreen
    from gpud.tui.screens.policy import PolicyScreen
    from gpud.tui.screens.timeline import TimelineScreen

    kinds: tuple[type[Any], ...] = (JobsScreen, TimelineScreen, PolicyScreen, JournalScreen)
    page = kinds[number]()
    assert isinstance(page, PageScreen)
    return page


def _drop(_: object) -> None:
    """The answer of a callback that nobody wants."""
