"""A screen over a feed from a script, with everything in reach."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from attrs import define, evolve, field
from textual.pilot import Pilot

from gpud.control import wire
from gpud.model.errors import UsageError
from gpud.model.live_views import DeviceRow, Feed, JobRow
from gpud.model.policy_views import ChangeView, DevicePlanView, HistoryView, ReloadView
from gpud.model.views import JobView, WhyView
from gpud.testing.scripted_feed import BEGIN_NS, Script, node_row
from gpud.tui.app import TopApp
from gpud.tui.ask import Change
from gpud.tui.draw.view import View
from gpud.tui.feed import Item, Step
from gpud.tui.inbox import Inbox
from gpud.tui.look import LOOKS
from gpud.tui.model import NodeModel

STEPS = 40
SIZES = ((80, 24), (120, 40), (200, 60))


def job(number: int = 1, **fields: object) -> JobRow:
    """The script's first job, changed."""
    return evolve(next(iter(Script().jobs(0))), id=number, **fields)


def device(slot: int = 0, **fields: object) -> DeviceRow:
    return evolve(Script().device_rows(0)[0], slot=slot, uuid=f"GPU-{slot}", **fields)


def full(*jobs: JobRow, number: int = 1, at_ns: int = BEGIN_NS, devices: Iterable[DeviceRow] = ()) -> Feed:
    return Feed(number=number, at_ns=at_ns, full=True, node=node_row(), jobs=jobs, devices=tuple(devices))


@define
class FakeAsker:
    """Answers at once, from what it was given."""

    changed: list[Change] = field(factory=list)
    errors: dict[int, str] = field(factory=dict)
    """By job: why a change fails."""
    asked_past: list[int] = field(factory=list)
    reloaded: int = 0
    rejects: bool = False
    gates: dict[int, threading.Event] = field(factory=dict)
    """By time that is asked for: the answer waits for it."""

    def past(self, at_ns: int) -> list[Feed]:
        self.asked_past.append(at_ns)
        assert at_ns not in self.gates or self.gates[at_ns].wait(20)
        if at_ns < BEGIN_NS:
            raise UsageError("the journal does not go back so far")
        count = (at_ns - BEGIN_NS) // 500_000_000 + 1
        model, found = NodeModel(), []
        for feed in Script().steps(count):
            model.apply(feed)
            found.append(evolve(model.full(), past=True))
        return found[-5:]

    def journal(self, ask: wire.AskJournal) -> wire.JournalAnswer:
        return wire.JournalAnswer(decisions=(), oldest_at_ns=BEGIN_NS)

    def why(self, job: int) -> WhyView:
        if job in self.errors:
            raise UsageError(self.errors[job])
        return WhyView(job=job_view(job), hold=None, devices=())

    def change(self, ask: Change) -> str:
        self.changed.append(ask)
        if ask.job in self.errors:
            raise UsageError(self.errors[ask.job])
        return f"job {ask.job}: done"

    def diff(self) -> wire.DiffAnswer:
        change = ChangeView(sign="~", policy="preempt-mix", line=9, text="quiet = 5ms → 2ms")
        plan = DevicePlanView(devices=(0,), others=True, before="preempt-mix(quiet = 5ms)",
                              after="preempt-mix(quiet = 2ms)", changes=(change,))  # fmt: skip
        return wire.DiffAnswer(running="d4735e3a", directory="4e07408562be", plan=(plan,))

    def history(self) -> list[HistoryView]:
        return [
            HistoryView(number=4, digest="d4735e3a265e16ee", began_ns=BEGIN_NS - 3700 * 10**9, how="files",
                        files=("a.gpol", "b.gpol"), applied=None, running=True, proved=True, failed=""),
            HistoryView(number=3, digest="4e07408562bedb8b", began_ns=BEGIN_NS - 9000 * 10**9, how="asked",
                        files=("a.gpol",), applied=None, running=False, proved=False, failed="a tick took 40 ms"),
        ]  # fmt: skip

    def reload(self) -> ReloadView:
        self.reloaded += 1
        if self.rejects:
            return ReloadView(result="rejected", digest="", text="1 error in 1 file")
        return ReloadView(result="loaded", digest="4e07", text="set 5 runs on 2 devices")

    def rollback(self, number: int | None) -> ReloadView:
        raise UsageError("there is no earlier set")


def job_view(number: int) -> JobView:
    return JobView(id=number, name="train", user="carol", job_class="training", state="held", pids=(4020,),
                   launcher_pid=None, command="python train.py", labels={}, devices=(0,), age_ns=10**9, used_bytes=0,
                   why=None)  # fmt: skip


@define
class Rig:
    """An app and what is behind it."""

    app: TopApp
    inbox: Inbox
    asker: FakeAsker

    @property
    def text(self) -> str:
        """What the paper of the tab shows."""
        return "\n".join("".join(span.text for span in line.spans) for line in self.app.page.paper.lines)

    @property
    def dialog(self) -> str:
        """What the dialog on top shows."""
        from gpud.tui.widgets.paper import Paper

        lines = self.app.screen.query_one(Paper).lines
        return "\n".join("".join(span.text for span in line.spans) for line in lines)


def rig(
    items: Iterable[Feed | Item] | None = None,
    *,
    look: str = "dark",
    fixed: str = "",
    asker: FakeAsker | None = None,
    view: View | None = None,
) -> Rig:
    """Without `items`: the script's."""
    inbox, asker = Inbox(), asker or FakeAsker()
    for item in Script().steps(STEPS) if items is None else items:
        inbox.post(Step(item) if isinstance(item, Feed) else item)
    app = TopApp(inbox=inbox, asker=asker, view=view or View(NodeModel()), look=LOOKS[look], fixed=fixed)
    app.animation_level = "none"
    return Rig(app, inbox, asker)


def drive(made: Rig, steps: Callable[[Pilot[int]], Awaitable[None]], size: tuple[int, int] = (120, 40)) -> None:
    """Runs the app, and `steps` in it."""

    async def run() -> None:
        async with made.app.run_test(size=size) as pilot:
            await settle(pilot)
            await steps(pilot)

    asyncio.run(run())


async def settle(pilot: Pilot[int]) -> None:
    """Until threads have answered and all is drawn."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    await pilot.pause()


async def press(pilot: Pilot[int], *keys: str) -> None:
    await pilot.press(*keys)
    await settle(pilot)


def runtime_dir(path: Path) -> Path:
    """One that a client takes."""
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)
    return path
