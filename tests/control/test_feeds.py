"""Subscriptions: everybody at his own pace, and nobody waits for anybody."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import pytest
import trio

from gpud.control import wire
from gpud.control.authority import Peer, Rules
from gpud.control.feeds import DRIVER_S, LAST, MOST_KNOBS, MOST_NEW, SILENT_S, Feeds, open_feeds
from gpud.control.server import Streamed
from gpud.engine.decisions import Made
from gpud.engine.live_still import COMMAND
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import JobId, SessionId
from gpud.model.live_views import Decision, Feed
from gpud.model.units import SECOND
from tests.engine.conftest import board
from tests.engine.live_world import TURNS, WALL
from tests.engine.watching_rig import Rig, watched
from tests.watched import Model

ROOT = Peer(pid=1, uid=0, gid=0, groups=("root",), user="root")
ANN = Peer(pid=2, uid=1000, gid=1000, groups=("ann",), user="ann")
BOB = Peer(pid=3, uid=1001, gid=1001, groups=("bob",), user="bob")


@asynccontextmanager
async def serving(policies: object = None, readers: str = "everyone") -> AsyncIterator[tuple[Rig, Feeds, list[float]]]:
    async with watched(policies) as rig:  # type: ignore[arg-type]
        asked: list[float] = []

        async def ask_driver() -> None:
            asked.append(trio.current_time())

        async with open_feeds(rig.watching, Rules(own_uid=0, readers=readers), ask_driver) as feeds:
            yield rig, feeds, asked


class Watcher:
    """The other end of a subscription. Reads when it is told to."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.model = Model()
        self.feeds: list[Feed] = []
        self.ended = trio.Event()
        """The daemon's side of it has ended."""
        self._got = bytearray()

    async def next(self) -> Feed:
        """The next step, applied."""
        with trio.fail_after(120):
            reply = wire.decode_reply(await self._frame())
        assert isinstance(reply.answer, wire.FeedAnswer)
        assert (reply.id, reply.more) == (5, True)
        self.model.apply(reply.answer.feed)
        self.feeds.append(reply.answer.feed)
        return reply.answer.feed

    async def all(self) -> None:
        """Whatever has come so far."""
        while True:
            with trio.move_on_after(0.001) as scope:
                await self.next()
            if scope.cancelled_caught:
                return

    async def _frame(self) -> bytes:
        while len(self._got) < 4 or len(self._got) < 4 + wire.body_size(bytes(self._got[:4])):
            more = await self.stream.receive_some()
            if not more:
                raise EOFError
            self._got += more
        size = wire.body_size(bytes(self._got[:4]))
        body, self._got = bytes(self._got[4 : 4 + size]), self._got[4 + size :]
        return body


@asynccontextmanager
async def watching(
    feeds: Feeds, peer: Peer = ROOT, interval_ms: int = 500, room: int | None = None
) -> AsyncIterator[Watcher]:
    """`room`: bytes that the connection takes before anybody reads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if room is not None:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
    answer = await feeds.answer(peer, wire.AskFeed(interval_ms=interval_ms))
    assert isinstance(answer, Streamed)
    assert answer.ends
    async with trio.open_nursery() as nursery:
        watcher = Watcher(trio.SocketStream(trio.socket.from_stdlib_socket(theirs)))

        async def run() -> None:
            async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
                await answer.send(5, stream)
            watcher.ended.set()

        nursery.start_soon(run)
        async with watcher.stream:
            yield watcher
        with trio.fail_after(60):
            await watcher.ended.wait()


async def test_a_full_step_at_once_and_then_what_changes(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _):
        client = await rig.job(1)
        async with watching(feeds) as watcher:
            begin = trio.current_time()
            first = await watcher.next()
            assert (first.full, [row.id for row in first.jobs], trio.current_time()) == (True, [1], begin)
            assert [one.kind for one in first.decisions] == ["admit", "attach"]
            await watcher.next()  # of the common pace
            rig.does(client, entered=3)
            second = await watcher.next()
            assert [row.launches for row in second.jobs] == [3]
            assert (second.node, second.full, second.decisions) == (None, False, ())
            at = trio.current_time()
            third = await watcher.next()
            assert (third.jobs, third.classes) == ((), None)  # a sign of life
            assert trio.current_time() == pytest.approx(at + 0.5, abs=0.001)
            await rig.gone(client)
            fourth = await watcher.next()
            assert fourth.gone == (1,)
            assert [one.kind for one in fourth.decisions] == ["detach", "note"]
        assert feeds.watchers == 0


async def test_applied_steps_are_the_rows(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _), watching(feeds) as watcher, watching(feeds, interval_ms=1300) as slower:
        clients = [await rig.job(number) for number in range(1, 5)]
        for second in range(30):
            rig.does(clients[second % 4], entered=second, active=second % 2)
            if second == 11:
                await rig.gone(clients.pop())
                clients *= 2
            await trio.sleep(1)
        await trio.sleep(1.3)
        for one in (watcher, slower):
            await one.all()
            assert one.model.shows(rig.watching.rows())
            assert (one.model.fulls, one.model.gaps) == (1, 0)
        assert len(watcher.feeds) > 2 * len(slower.feeds)


async def test_who_watches_alike_gets_the_same_at_the_same_time(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _):
        await rig.job(1)
        async with watching(feeds) as first:
            await trio.sleep(0.9)
            async with watching(feeds) as second, watching(feeds, interval_ms=1000) as third:
                looks = rig.looks
                await trio.sleep(10)
                assert rig.looks - looks <= 22 + 11  # rows are made once, twice a second; and the lease's ticks
                for one in (first, second, third):
                    await one.all()
                assert first.feeds[-5:] == second.feeds[-5:]
                assert second.model.gaps == 0
                assert 10 <= len(third.feeds) <= 12


async def test_many_kinds_of_watchers_get_steps_less_often(autojump_clock: trio.testing.MockClock) -> None:
    """However many there are, their steps together take a bounded part of the daemon's time."""
    async with serving() as (rig, feeds, _), AsyncExitStack() as stack:
        await rig.job(1)
        kinds = [await stack.enter_async_context(watching(feeds, interval_ms=100 + kind)) for kind in range(60)]
        await trio.sleep(1)
        for one in kinds:
            await one.all()
        before = [len(one.feeds) for one in kinds]
        await trio.sleep(15)
        for one in kinds:
            await one.all()
        assert all(9 <= len(one.feeds) - was <= 11 for one, was in zip(kinds, before, strict=True))


async def test_without_watchers_there_is_no_timer(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, asked):
        async with watching(feeds) as watcher:
            await watcher.next()
            await trio.sleep(10)
            assert len(asked) == pytest.approx(10 / DRIVER_S, abs=1)
            await watcher.all()
        looks = rig.looks
        await trio.sleep(10_000)
        assert rig.looks == looks
        assert len(asked) <= 10 / DRIVER_S + 2


async def test_one_that_reads_nothing_is_closed_and_holds_nobody(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _):
        for number in range(1, 30):
            await rig.job(number, name="x" * 60)
        async with watching(feeds, room=1) as dead, watching(feeds) as lively:
            begin = trio.current_time()
            at: list[float] = []
            while not dead.ended.is_set():
                await lively.next()
                at.append(trio.current_time())
                assert most_kept(feeds) <= 1  # and one that is being sent
            assert trio.current_time() - begin <= SILENT_S + 0.5
            gaps = [later - before for before, later in pairwise(at[1:])]
            assert max(gaps) == pytest.approx(0.5, abs=0.01)
            assert lively.model.gaps == 0
            assert feeds.watchers == 1


def most_kept(feeds: Feeds) -> int:
    """Steps that wait for the watcher that has taken least."""
    kept = [watcher.pending for group in feeds._groups.values() for watcher in group.watchers]
    assert all(len(answers) == 1 for answers in kept if answers)
    return max(map(len, kept), default=0)


async def test_one_that_is_slow_misses_steps_and_then_gets_all(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _):
        clients = [await rig.job(number, name="x" * 60) for number in range(1, 30)]
        async with watching(feeds, room=1) as slow:
            for second in range(40):
                for client in clients:
                    rig.does(client, entered=second)
                await trio.sleep(2)
                await slow.next()
            assert not slow.ended.is_set()  # it takes something now and then
            assert slow.model.gaps >= 3
            assert slow.model.fulls == slow.model.gaps + 1
            with trio.move_on_after(6):
                while True:
                    await slow.next()
            assert slow.model.shows(rig.watching.rows())


async def test_one_that_speaks_or_goes_away_is_done_with(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _):
        await rig.job(1)
        for speaks in (True, False):
            async with watching(feeds) as watcher:
                await watcher.next()
                await (watcher.stream.send_all(b"x") if speaks else watcher.stream.aclose())
                with trio.fail_after(1):
                    await watcher.ended.wait()
            assert feeds.watchers == 0


@pytest.mark.parametrize("interval_ms", [99, 60_001, 0, -5])
async def test_an_interval_has_bounds(interval_ms: int) -> None:
    async with serving() as (_, feeds, _asked):
        answer = await feeds.answer(ROOT, wire.AskFeed(interval_ms=interval_ms))
        assert isinstance(answer, wire.ErrorAnswer)
        assert answer.code == "unknown"


async def test_a_thousand_jobs_with_long_command_lines(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too long for a frame comes in several; the past, too."""
    async with serving() as (rig, feeds, _), watching(feeds) as watcher:
        await watcher.next()
        monkeypatch.setattr(rig.engine, "_save", lambda: None)  # of so many it takes long, each time
        for number in range(1, 1001):
            who = ev.Who(pid=number, started=1, uid=0, user="ann", command="x")
            asked = (("name", "ü" * 80), ("command", "é" * 4096), *((f"label.k{i}", "v" * 60) for i in range(9)))
            rig.engine.handle(ev.LaunchAsked(session=SessionId(number), who=who, asked=asked))
        await trio.sleep(1)
        await watcher.all()
        assert watcher.model.shows(rig.watching.rows())
        assert (watcher.model.fulls, watcher.model.gaps) == (1, 0)
        assert max(len(feed.jobs) for feed in watcher.feeds) < 1000
        assert {len(row.command) for row in watcher.model.jobs.values()} == {COMMAND}
        async with watching(feeds) as late:
            await trio.sleep(0.6)
            await late.all()
            assert late.model.shows(rig.watching.rows())
            assert [feed.full for feed in late.feeds[:2]] == [True, False]
            assert late.model.gaps == 0
        parts = await past(feeds, ROOT, rig.watching.rows().at_ns)
        assert len(parts) > 1
        assert sum(len(part.jobs) for part in parts) == 1000


async def past(feeds: Feeds, peer: Peer, at_ns: int) -> list[Feed]:
    """All parts of an answer."""
    answer = await feeds.answer(peer, wire.AskPast(at_ns=at_ns))
    assert isinstance(answer, Streamed), answer
    assert not answer.ends
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    found: list[wire.Reply] = []
    async with trio.open_nursery() as nursery:
        sending = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        nursery.start_soon(answer.send, 5, sending)
        async with trio.SocketStream(trio.socket.from_stdlib_socket(theirs)) as stream:
            watcher = Watcher(stream)
            while not found or found[-1].more:
                found.append(wire.decode_reply(await watcher._frame()))
    await sending.aclose()
    feeds_of = [reply.answer.feed for reply in found if isinstance(reply.answer, wire.FeedAnswer)]
    assert [feed.past for feed in feeds_of] == [True] * len(found)
    assert [reply.id for reply in found] == [5] * len(found)
    return feeds_of


async def test_the_past_is_what_was_fed_then(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _):
        client = await rig.job(1)
        shown: dict[int, Feed] = {}
        async with watching(feeds, interval_ms=1000) as watcher:
            for second in range(100):
                rig.does(client, entered=second)
                feed = await watcher.next()
                shown[feed.at_ns] = feed
        for at, feed in list(shown.items())[2::7]:
            (then,) = await past(feeds, ROOT, at)
            assert then.full
            assert then.jobs == feed.jobs
        answer = await feeds.answer(ROOT, wire.AskPast(at_ns=WALL - 1))
        assert isinstance(answer, wire.ErrorAnswer)
        assert answer.code == "unknown"


async def test_the_past_has_the_decisions_until_then(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _):
        client = await rig.job(1)
        await trio.sleep(5)
        then = rig.watching.rows().at_ns
        await trio.sleep(1)
        await rig.gone(client)
        (feed,) = await past(feeds, ROOT, then)
        assert [one.kind for one in feed.decisions] == ["admit", "attach"]
        assert [one.at_ns // SECOND - then // SECOND for one in feed.decisions] == [-5, -5]


async def test_the_clock_is_set_back_while_somebody_watches(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _), watching(feeds) as watcher:
        client = await rig.job(1)
        await trio.sleep(2)
        await watcher.all()
        before = watcher.feeds[-1].at_ns
        rig.wall -= 3600 * SECOND
        rig.does(client, entered=9)
        await trio.sleep(2)
        await watcher.all()
        assert watcher.model.shows(rig.watching.rows())
        assert watcher.model.gaps == 0
        assert watcher.feeds[-1].at_ns == before - 3598 * SECOND
        (then,) = await past(feeds, ROOT, watcher.feeds[-1].at_ns - 3 * SECOND)
        assert [row.launches for row in then.jobs] == [0]
        assert then.jobs[0].began_at_ns == watcher.model.jobs[1].began_at_ns


async def journal(feeds: Feeds, peer: Peer = ROOT, **ask: int) -> wire.JournalAnswer:
    whole = {"since_at_ns": 0, "until_at_ns": 2**62} | ask
    answer = await feeds.answer(peer, wire.AskJournal(**whole))
    assert isinstance(answer, wire.JournalAnswer), answer
    return answer


async def test_the_journal(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _):
        await rig.job(1)
        await rig.job(2)
        at = rig.watching.rows().at_ns
        await trio.sleep(3)
        rig.watching.journal.note([note(rig, number) for number in range(20)])
        assert [one.kind for one in (await journal(feeds, until_at_ns=at)).decisions] == ["admit", "attach"] * 2
        assert [one.kind for one in (await journal(feeds, until_at_ns=at, job=2)).decisions] == ["admit", "attach"]
        found = await journal(feeds, since_at_ns=at + 1, most=5)
        assert ([one.text for one in found.decisions], found.left_out) == ([f"note {i}" for i in range(15, 20)], 15)
        assert found.oldest_at_ns <= at
        for most in (0, 5001):
            answer = await feeds.answer(ROOT, wire.AskJournal(since_at_ns=0, until_at_ns=1, most=most))
            assert isinstance(answer, wire.ErrorAnswer)


def note(rig: Rig, number: int, kind: str = "note", length: int = 0) -> Made:
    text = f"{kind} {number}{'é' * length}"
    tell: Callable[[], tuple[str, str]] | None = (lambda: (text, "p.gpol:3")) if kind == "knob" else None
    return Made(mono_ns=rig.engine.now(), kind=kind, text=text, tell=tell)


async def test_an_answer_of_the_journal_fits_into_a_frame() -> None:
    async with serving() as (rig, feeds, _):
        rig.watching.journal.note([note(rig, number, length=600) for number in range(5000)])
        found = await journal(feeds, most=5000)
        wire.encode(wire.Reply(version=wire.VERSION, id=1, answer=found))
        assert found.left_out == 5000 - len(found.decisions) > 0
        assert found.decisions[-1].text.startswith("note 4999")


async def test_knobs_that_turn_all_the_time_do_not_fill_a_feed(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as (rig, feeds, _), watching(feeds) as watcher:
        await watcher.next()
        rig.watching.journal.note([note(rig, number, "knob") for number in range(1000)])
        rig.watching.journal.note([note(rig, number) for number in range(1000)])
        await trio.sleep(1)
        await watcher.all()
        kinds = [one.kind for one in watcher.model.decisions.values()]
        assert kinds.count("note") == MOST_NEW
        rig.watching.journal.note([note(rig, number, "knob") for number in range(1000)])
        await trio.sleep(1)
        await watcher.all()
        kinds = [one.kind for one in watcher.model.decisions.values()]
        assert kinds.count("knob") == MOST_KNOBS
        async with watching(feeds) as late:
            assert len((await late.next()).decisions) == LAST


# ------------------------------------------------------------------------------------------------ who may see what


async def test_others_jobs_are_hidden(autojump_clock: trio.testing.MockClock) -> None:
    turns = board(("turns", TURNS))
    async with serving(turns, readers="owners") as (rig, feeds, _):
        hers, his = await rig.job(1, uid=1000, name="hers"), await rig.job(2, uid=1001, name="topsecret")
        for number, client in enumerate((his, hers)):
            slots = rig.engine.state.clients[client].slots()
            rig.engine.handle(ev.LockAsked(client=client, request=number, slots=slots, explicit=True, wait_ns=None))
        async with watching(feeds, ANN) as ann, watching(feeds, ROOT) as root, watching(feeds, BOB) as bob:
            for spent in range(6):
                rig.does(his, spent_ns=spent, entered=spent)
                rig.does(hers, entered=spent)
                await trio.sleep(1)
            for one in (ann, root, bob):
                await one.all()
            assert (sorted(ann.model.jobs), sorted(bob.model.jobs), sorted(root.model.jobs)) == ([1], [2], [1, 2])
            assert "topsecret" not in str(ann.feeds)
            assert ann.model.jobs[1].launches == 5
            why = ann.model.jobs[1].why
            assert why is not None
            assert (why.code, why.holder, why.place) == ("lock", None, 1)
            assert why.text.startswith("it waits for its turn; another user's job was asked for the device")
            assert next(iter(ann.model.devices.values())).holder is None
            assert next(iter(root.model.devices.values())).holder == 2
            assert ann.model.gaps == bob.model.gaps == 0
            rig.engine.handle(ev.LauncherEnded(job=JobId(1)))
            await rig.gone(hers)
            await trio.sleep(1)
            await ann.all()
            assert ann.model.jobs == {}
            assert own(ann.model.decisions.values()) == ["admit", "attach", "note", "detach"]
        found = await journal(feeds, ANN)
        assert "topsecret" not in str(found)
        assert own(found.decisions) == ["admit", "attach", "note", "detach"]
        then = await past(feeds, ANN, rig.watching.rows().at_ns - 4 * SECOND)
        assert [row.id for row in then[0].jobs] == [1]
        assert "topsecret" not in str(then)
        assert "job 1 (hers, job) of user1000 began" in own_texts(found.decisions)


def own(decisions: object) -> list[str]:
    return [one.kind for one in decisions if one.job == 1]  # type: ignore[attr-defined]


def own_texts(decisions: tuple[Decision, ...]) -> list[str]:
    return [one.text for one in decisions if one.job == 1]


async def test_idle_counters_are_nothing_new(autojump_clock: trio.testing.MockClock) -> None:
    """With many jobs that do nothing, a step is a few bytes."""
    async with serving() as (rig, feeds, _):
        for number in range(1, 51):
            rig.outside.now[await rig.job(number), next(iter(rig.engine.state.devices))] = Counters(entered=5)
        async with watching(feeds) as watcher:
            await trio.sleep(10)
            await watcher.all()
            assert sum(len(feed.jobs) for feed in watcher.feeds[1:]) == 0
