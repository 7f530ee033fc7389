"""What the screen asks besides the feed: each question on a connection of its own, from a thread that may wait."""

import threading
from collections.abc import Callable
from typing import Protocol

from gpud.control import wire
from gpud.control.client import Client
from gpud.model.errors import Refused, UsageError
from gpud.model.live_views import Decision, Feed
from gpud.model.policy_views import HistoryView, ReloadView
from gpud.model.views import WhyView
from gpud.tui.meters import WINDOW_NS
from gpud.tui.model import NodeModel
from gpud.tui.recording import Recording

Change = wire.AskSet | wire.AskPause | wire.AskResume | wire.AskEvict | wire.AskKill


class Asker(Protocol):
    """All methods may block, and raise GpudError."""

    def past(self, at_ns: int) -> list[Feed]:
        """Full steps that end at that time; those before make rates."""

    def journal(self, ask: wire.AskJournal) -> wire.JournalAnswer: ...

    def why(self, job: int) -> WhyView: ...

    def change(self, ask: Change) -> str:
        """What was done, one sentence."""

    def diff(self) -> wire.DiffAnswer: ...

    def history(self) -> list[HistoryView]: ...

    def reload(self) -> ReloadView: ...

    def rollback(self, number: int | None) -> ReloadView: ...


class LiveAsker:
    """Asks the daemon."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect

    def past(self, at_ns: int) -> list[Feed]:
        with self._connect() as client:
            now = client.past(at_ns)
            try:
                return [client.past(now.at_ns - WINDOW_NS), now]
            except UsageError:  # the journal begins here
                return [now]

    def journal(self, ask: wire.AskJournal) -> wire.JournalAnswer:
        with self._connect() as client:
            return client.journal(ask)

    def why(self, job: int) -> WhyView:
        with self._connect() as client:
            return client.why(job)

    def change(self, ask: Change) -> str:
        with self._connect() as client:
            if isinstance(ask, wire.AskSet):
                job = client.set(ask)
                return f"job {job.id} ({job.name}) is changed"
            if isinstance(ask, wire.AskKill):
                return client.kill(ask.job, ask.signal, ask.pids).text
            verbs = {wire.AskPause: client.pause, wire.AskResume: client.resume, wire.AskEvict: client.evict}
            return verbs[type(ask)](ask.job).text

    def diff(self) -> wire.DiffAnswer:
        with self._connect() as client:
            return client.diff()

    def history(self) -> list[HistoryView]:
        with self._connect() as client:
            return client.history()

    def reload(self) -> ReloadView:
        with self._connect() as client:
            return client.reload()

    def rollback(self, number: int | None) -> ReloadView:
        with self._connect() as client:
            return client.rollback(number)


class ReplayAsker:
    """Asks a recording: it knows the past, and nothing can be changed."""

    def __init__(self, recording: Recording) -> None:
        """`recording`: one of its own, read from here only."""
        self._recording = recording
        self._reading = (
            threading.Lock()
        )  # several questions may be under way, and a file has one place where it is read

    def past(self, at_ns: int) -> list[Feed]:
        model = NodeModel()
        steps: list[Feed] = []
        with self._reading:
            for feed in self._recording.steps():
                if feed.at_ns > at_ns and model.number:
                    break
                if model.apply(feed) and model.at_ns > at_ns - 2 * WINDOW_NS:
                    steps = [*steps[-8:], model.full()]
        if not steps or steps[-1].at_ns > at_ns:
            raise UsageError("the recording does not go back so far")
        return steps

    def journal(self, ask: wire.AskJournal) -> wire.JournalAnswer:
        found: list[Decision] = []
        oldest_ns, told = None, 0
        with self._reading:
            for feed in self._recording.steps():
                oldest_ns = feed.at_ns if oldest_ns is None else oldest_ns
                found += [one for one in feed.decisions if one.number > told and _wanted(one, ask)]
                told = max((one.number for one in feed.decisions), default=told)
        kept = found[-ask.most :]
        return wire.JournalAnswer(decisions=tuple(kept), oldest_at_ns=oldest_ns or 0, left_out=len(found) - len(kept))

    def why(self, job: int) -> WhyView:
        raise Refused("a recording holds the reason in short only")

    def change(self, ask: Change) -> str:
        raise Refused("this is a recording: nothing can be changed")

    def diff(self) -> wire.DiffAnswer:
        raise Refused("a recording knows nothing of the policies' directory")

    def history(self) -> list[HistoryView]:
        return []

    def reload(self) -> ReloadView:
        raise Refused("this is a recording: nothing can be changed")

    def rollback(self, number: int | None) -> ReloadView:
        raise Refused("this is a recording: nothing can be changed")


def _wanted(one: Decision, ask: wire.AskJournal) -> bool:
    return (
        ask.since_at_ns <= one.at_ns <= ask.until_at_ns
        and (ask.job is None or one.job == ask.job)
        and (ask.device is None or one.device == ask.device)
    )
