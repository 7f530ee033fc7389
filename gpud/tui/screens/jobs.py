"""The first tab: devices, classes, the job table, one job's details."""

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType

from gpud.model.live_views import JobRow
from gpud.model.views import WhyView
from gpud.tui import actions
from gpud.tui.columns import COLUMNS
from gpud.tui.draw.classes import CLASSES
from gpud.tui.draw.jobs import column_at, columns_for
from gpud.tui.draw.page import Place, jobs_body
from gpud.tui.draw.why import why_lines
from gpud.tui.filter import FilterError, parse_filter
from gpud.tui.keys import JOBS
from gpud.tui.screens.base import PageScreen, bindings
from gpud.tui.text import Line, Span, clean

HINT = " filter: user:alice class:low state:wait mem>4G, or any text.   Enter keeps it, Esc does not"


class JobsScreen(PageScreen):
    """An action is on the job that the cursor is on when the key is pressed, or on all that are tagged."""

    tab = 0
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(JOBS),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-20)", show=False),
        Binding("pagedown", "move(20)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.place = Place()
        self.detail: bool | None = None
        """The pane is there; None: where there is room."""

    def body(self, width: int, height: int) -> list[Line]:
        view = self.view
        if view.cursor is None:
            view.cursor = next((job.id for job in view.jobs()), None)
        lines, self.place = jobs_body(view, width, height, self.place.first, self.detail)
        return lines

    def clicked(self, x: int, y: int) -> None:
        place, top = self.place, y - 3
        if not place.y <= top < place.y + place.height or x >= place.width:
            return
        if top == place.y:
            column = column_at(x, place.width)
            if column is not None:
                self.view.sort = self.view.sort.by(column.key)
        else:
            at = place.first + top - place.y - 1
            if at < len(place.rows):
                self.view.cursor = place.rows[at].job
        self.redraw()

    def wheel(self, lines: int) -> None:
        self.action_move(lines)

    def action_move(self, by: int) -> None:
        ids = [row.job for row in self.place.rows if row.pid is None]
        if not ids:
            return
        at = ids.index(self.view.cursor) if self.view.cursor in ids else 0
        self.view.cursor = ids[min(max(at + by, 0), len(ids) - 1)]
        self.redraw()

    def action_sort_beside(self, step: int) -> None:
        shown = [column for column, _ in columns_for(self.place.width or self.size.width)]
        self.view.sort = self.view.sort.beside(shown, step)
        self.redraw()

    def action_sort_by(self) -> None:
        """Of all columns, those too for which there is no room."""

        def chosen(head: str | None) -> None:
            if head is not None:
                self.view.sort = self.view.sort.by(next(column.key for column in COLUMNS if column.head == head))
                self.redraw()

        self.top.choose("sort by", [column.head for column in COLUMNS], chosen)

    def action_turn(self) -> None:
        self.view.sort = self.view.sort.turned()
        self.redraw()

    def action_detail(self) -> None:
        self.detail = not any(span.role == "title" and span.text.startswith("job #") for span in self._spans())
        self.redraw()

    def action_tree(self) -> None:
        self.view.tree = not self.view.tree
        self.redraw()

    def action_classes(self) -> None:
        self.view.classed = not any(span.role == "title" and span.text == CLASSES for span in self._spans())
        self.redraw()

    def action_tag(self) -> None:
        if self.view.cursor is not None:
            self.view.tags ^= {self.view.cursor}
            self.action_move(1)

    def action_untag(self) -> None:
        self.view.tags.clear()
        self.redraw()

    async def action_filter(self) -> None:
        before = self.view.filter
        told = self.top.told
        told.hint, told.hint_bad = HINT, False

        def changed(text: str) -> None:
            try:
                self.view.filter_by(parse_filter(text))
                told.hint, told.hint_bad = HINT, False
            except FilterError as error:
                told.hint, told.hint_bad = f" {' ' * error.at}{'^' * error.length} {error}", True
            self.redraw()

        def done(keep: bool) -> None:
            if not keep:
                self.view.filter_by(before)
            told.hint = ""
            self.redraw()

        await self.type_line(before.text, changed, done)

    def _spans(self) -> Iterator[Span]:
        return (span for line in self.paper.lines for span in line.spans)

    def targets(self) -> list[JobRow]:
        """What a key acts on, as it is now: all that are tagged, else what the cursor is on."""
        view = self.view
        numbers = sorted(view.tags) if view.tags else [view.cursor] if view.cursor is not None else []
        return [job for job in map(view.model.job, numbers) if job is not None]

    def action_why(self) -> None:
        job = self._under()
        if job is None:
            return
        number = job.id

        def answered(why: WhyView) -> None:
            self.top.read(f"why #{number}", lambda width: why_lines(why, width))

        self.top.ask(lambda asker: asker.why(number), answered)

    def _under(self) -> JobRow | None:
        return None if self.view.cursor is None else self.view.model.job(self.view.cursor)

    def action_trace(self) -> None:
        job = self._under()
        if job is None:
            return
        if not job.trace:
            self.top.tell(f"job #{job.id} has no trace", bad=True)
            return
        self.app.copy_to_clipboard(job.trace)
        self.top.tell(f"trace {clean(job.trace)} of job #{job.id} is in the clipboard, where the terminal allows it")

    def action_pause(self) -> None:
        self._change(actions.pause)

    def action_evict(self) -> None:
        self._change(actions.evict)

    def action_kill(self) -> None:
        jobs = self._changeable()
        if not jobs:
            return

        def chosen(signal: str | None) -> None:
            if signal is not None:
                self.top.confirm(actions.kill(jobs, signal))

        self.top.choose(f"signal to {_whom(jobs)}", actions.SIGNALS, chosen)

    async def action_set(self) -> None:
        jobs = self._changeable()
        if not jobs:
            return

        def typed(text: str | None) -> None:
            if text is not None:
                self.top.confirm(actions.change(jobs, text))

        await self.top.type_text(
            f"change {_whom(jobs)}",
            [
                *(actions.named(job) for job in jobs[:8]),
                *([actions.as_it_is(jobs[0])] if len(jobs) == 1 else []),
                "",
                "class=NAME  mem=8GiB  compute=30%; auto: as the policy says",
            ],
            lambda text: actions.change(jobs, text),
            typed,
        )

    def _change(self, plan: "actions.Planner") -> None:
        jobs = self._changeable()
        if jobs:
            self.top.confirm(plan(jobs))

    def _changeable(self) -> list[JobRow]:
        """The targets; none, and a remark, where nothing may be changed now."""
        if not self.top.may_change():
            return []
        jobs = self.targets()
        if not jobs:
            self.top.tell("no job is chosen", bad=True)
        return jobs


def _whom(jobs: list[JobRow]) -> str:
    return f"#{jobs[0].id} {clean(jobs[0].name)[:24]}" if len(jobs) == 1 else f"{len(jobs)} jobs"
