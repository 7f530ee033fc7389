"""Subscriptions: rows go to whoever watches, at the pace each of them asked for.

Who watches alike gets the same bytes. A watcher that is slow misses steps, and then gets one that is full; one that
takes nothing for some seconds is closed. Nobody waits for it: what it has yet to take is two steps at most.
"""

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio
from attrs import Factory, define, evolve

from gpud.control import feed_frames, wire
from gpud.control.authority import Peer, Rules, Sees
from gpud.control.feed_frames import Encoded
from gpud.control.feed_view import View
from gpud.control.server import Streamed
from gpud.control.sight import Sight
from gpud.engine.journal_blocks import shifted
from gpud.engine.live import Rows, step
from gpud.engine.watching import Watching
from gpud.model.live_views import Decision
from gpud.model.units import SECOND

log = logging.getLogger("gpud.control")

Looks = wire.AskFeed | wire.AskPast | wire.AskJournal
LEAST_MS, MOST_MS = 100, 60_000
SILENT_S = 5.0
"""Who takes nothing for so long is closed."""
KIND_S = 0.025
"""Each kind of watchers (by pace, and by what they may see) has steps of its own, half a millisecond each: so many
kinds that they would take more than a fiftieth of a core get theirs less often."""
DRIVER_S = 2.0
"""Between two questions to the driver while somebody watches."""
LAST = 50
"""Decisions that come with a full step."""
MOST_NEW, MOST_KNOBS = 100, 20
"""Decisions that come with a step: the newest, and of knobs fewer. The journal has all."""
MOST_ASKED = 5000
"""Decisions that are answered with at once …"""
ROOM = wire.MAX_BYTES - 4096
"""… in so many bytes."""
_FIRST = 1 << 16
"""Number of the first step."""
_SOME = 65536


@define(eq=False)
class _Watcher:
    """One subscription."""

    pending: list[bytes] = Factory(list)
    """Encoded answers of the step that it is to take next."""
    missed: bool = True
    """It has not had what came before: its next step is full."""
    wake: trio.Event = Factory(trio.Event)


@define(eq=False, kw_only=True)
class _Group:
    """Those who watch alike."""

    interval_s: float
    view: View
    encoded: Encoded
    due: float
    number: int = _FIRST
    rows: Rows | None = None
    """As of the last step."""
    last_decision: int = 0
    watchers: set[_Watcher] = Factory(set)


class Feeds:
    """Made by `open_feeds`."""

    def __init__(self, watching: Watching, rules: Rules, ask_driver: Callable[[], Awaitable[None]]) -> None:
        self._watching = watching
        self._rules = rules
        self._ask_driver = ask_driver
        self._groups: dict[Hashable, _Group] = {}
        self._encoded = Encoded()
        """For all who see everything."""
        self._changed = trio.Event()
        """There is a new group."""
        self._watched = trio.Event()
        self._reading = trio.CapacityLimiter(1)

    @property
    def watchers(self) -> int:
        return sum(len(group.watchers) for group in self._groups.values())

    # --------------------------------------------------------------------------------------------------- the pace

    async def run(self) -> None:
        """Steps, until cancelled. Without watchers it has no timer."""
        while True:
            due = min((group.due for group in self._groups.values()), default=math.inf)
            with trio.move_on_at(due):
                await self._changed.wait()
            self._changed = trio.Event()
            now = trio.current_time()
            for group in list(self._groups.values()):
                if group.due <= now:
                    self._carefully(group)

    async def watch_driver(self) -> None:
        """Asks the driver while somebody watches."""
        while True:
            await self._watched.wait()
            if not self._groups:
                self._watched = trio.Event()
                continue
            await self._ask_driver()
            await trio.sleep(DRIVER_S)

    def _carefully(self, group: _Group) -> None:
        """Nothing about screens may end the daemon."""
        try:
            self._step(group)
        except Exception:
            log.exception("an error in gpud about feeds: a step is left out")

    def _step(self, group: _Group) -> None:
        wanted = max(group.interval_s, len(self._groups) * KIND_S)
        spacing = self._watching.spacing_ns(round(wanted * SECOND)) / SECOND
        now = trio.current_time()
        group.due = (now // spacing + 1) * spacing  # all of the same pace at the same time
        if group.due - now < spacing / 2:
            group.due += spacing
        before, rows = group.rows, group.view.of(self._watching.rows())
        journal = self._watching.journal
        new = self._decisions(group.view, group.last_decision, LAST if before is None else MOST_NEW)
        group.rows, group.last_decision = rows, journal.last_number
        answers = group.encoded.answers(step(before, rows, group.number + 1, new))
        group.number += len(answers)
        if before is not None:
            group.encoded.forget(before.jobs.keys() - rows.jobs.keys())
        full = answers if before is None else None
        for watcher in group.watchers:
            if watcher.pending:
                watcher.missed = True  # it has yet to take the step before
                continue
            if watcher.missed and full is None:
                full = self._full(group)
            watcher.pending = full if watcher.missed and full is not None else answers
            watcher.missed = False
            watcher.wake.set()

    def _full(self, group: _Group) -> list[bytes]:
        """As of the last step; the next one follows on it."""
        assert group.rows is not None
        feed = step(None, group.rows, group.number, self._decisions(group.view, 0, LAST))
        return group.encoded.answers(feed, ends=True)

    def _decisions(self, view: View, after: int, most: int) -> tuple[Decision, ...]:
        found = self._watching.journal.since(after, most, min(most, MOST_KNOBS))
        return view.told(found, self._watching.offset)

    # ----------------------------------------------------------------------------------------------- the watchers

    async def answer(self, peer: Peer, ask: Looks) -> wire.Answer | Streamed:
        """To one who may look."""
        match ask:
            case wire.AskFeed():
                if not LEAST_MS <= ask.interval_ms <= MOST_MS:
                    text = f"an interval of {ask.interval_ms} ms is not to be had; ask for {LEAST_MS} to {MOST_MS}"
                    return wire.ErrorAnswer(code="unknown", text=text)
                return Streamed(send=partial(self._stream, peer, ask), ends=True)
            case wire.AskPast():
                return await self._past(peer, ask)
            case wire.AskJournal():
                return self._journal(peer, ask)

    async def _stream(self, peer: Peer, ask: wire.AskFeed, request: int, stream: trio.SocketStream) -> None:
        """Until the other end goes away, or takes nothing for too long."""
        watcher, key = _Watcher(), (ask.interval_ms, self._uid(peer))
        group = self._join(key, watcher, peer, ask.interval_ms / 1000)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_gone, stream, nursery.cancel_scope)
                await _send(watcher, request, stream)
                nursery.cancel_scope.cancel()
        finally:
            group.watchers.discard(watcher)
            if not group.watchers and self._groups.get(key) is group:
                del self._groups[key]

    def _uid(self, peer: Peer) -> int | None:
        """Whose jobs alone it may see; None: all."""
        return None if self._rules.sees(peer) is Sees.ALL else peer.uid

    def _view(self, peer: Peer) -> View:
        state = self._watching.engine.state
        return View(self._uid(peer), lambda: Sight(state, peer, self._rules))

    def _join(self, key: Hashable, watcher: _Watcher, peer: Peer, interval_s: float) -> _Group:
        group = self._groups.get(key)
        if group is None:
            view = self._view(peer)
            encoded = self._encoded if view.whole else Encoded()
            group = _Group(interval_s=interval_s, view=view, encoded=encoded, due=0.0)
            self._groups[key] = group
        group.watchers.add(watcher)
        if group.rows is None:
            self._step(group)
        else:
            watcher.pending, watcher.missed = self._full(group), False
            watcher.wake.set()
        self._changed.set()
        self._watched.set()
        return group

    # -------------------------------------------------------------------------------------------------- the past

    async def _past(self, peer: Peer, ask: wire.AskPast) -> wire.ErrorAnswer | Streamed:
        offset = self._watching.offset
        piece = self._watching.journal.past(ask.at_ns - offset)
        if piece is None:
            first = self._watching.journal.first_ns
            since = "nothing yet" if first is None else f"nothing before {first + offset} ns of Unix time"
            return wire.ErrorAnswer(code="unknown", text=f"the journal knows {since}")
        rows = await trio.to_thread.run_sync(piece.read, limiter=self._reading)
        view = self._view(peer)
        feed = step(None, view.of(shifted(rows, offset)), 1)
        found = self._watching.journal.find(0, rows.mono_ns, most=LAST, may_see=view.may_read)
        decisions = view.told(found.found, offset)
        return Streamed(
            send=partial(_send_all, Encoded().answers(evolve(feed, past=True, decisions=decisions))), ends=False
        )

    def _journal(self, peer: Peer, ask: wire.AskJournal) -> wire.JournalAnswer | wire.ErrorAnswer:
        """Fewer than were asked for where a frame has no room for more."""
        if not 1 <= ask.most <= MOST_ASKED:
            return wire.ErrorAnswer(code="unknown", text=f"most = {ask.most}: give 1 to {MOST_ASKED}")
        offset, journal, view = self._watching.offset, self._watching.journal, self._view(peer)
        found = journal.find(
            ask.since_at_ns - offset,
            ask.until_at_ns - offset,
            job=ask.job,
            device=ask.device,
            most=ask.most,
            may_see=view.may_read,
        )
        decisions = view.told(found.found, offset)
        room, kept = ROOM, 0
        for decision in reversed(decisions):
            room -= len(wire.packed(decision))
            if room < 0:
                break
            kept += 1
        return wire.JournalAnswer(
            decisions=decisions[len(decisions) - kept :],
            oldest_at_ns=journal.knows_ns + offset,
            left_out=found.left_out + len(decisions) - kept,
        )


async def _send(watcher: _Watcher, request: int, stream: trio.SocketStream) -> None:
    """Step after step; returns when nothing is taken any more."""
    while True:
        await watcher.wake.wait()
        watcher.wake = trio.Event()
        answers, watcher.pending = watcher.pending, []
        for answer in answers:
            if not await _taken(feed_frames.framed(request, answer, more=True), stream):
                return


async def _send_all(answers: list[bytes], request: int, stream: trio.SocketStream) -> None:
    """One answer in several."""
    for left, answer in zip(range(len(answers) - 1, -1, -1), answers, strict=True):
        if not await _taken(feed_frames.framed(request, answer, more=left > 0), stream):
            raise trio.BrokenResourceError("it takes nothing")


async def _taken(frame: bytes, stream: trio.SocketStream) -> bool:
    """False: the other end is gone, or takes nothing for too long."""
    left = memoryview(frame)
    while left:
        sent = 0
        with trio.move_on_after(SILENT_S):
            try:
                sent = await stream.socket.send(left[:_SOME])
            except OSError:
                return False
        if not sent:
            return False
        left = left[sent:]
    return True


async def _until_gone(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """It has nothing to say any more: what comes is its end, or a mistake, which ends it, too."""
    with suppress(trio.BrokenResourceError):
        await stream.receive_some(1)
    scope.cancel()


@asynccontextmanager
async def open_feeds(
    watching: Watching, rules: Rules, ask_driver: Callable[[], Awaitable[None]]
) -> AsyncIterator[Feeds]:
    """Until left. `ask_driver`: lets the engine hear what the driver says now; never raises."""
    feeds = Feeds(watching, rules, ask_driver)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feeds.run)
        nursery.start_soon(feeds.watch_driver)
        yield feeds
        nursery.cancel_scope.cancel()
