import gc
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gpud.engine.board import Board
from gpud.engine.service import DRIVER_S, Engine, open_engine
from gpud.engine.ticking import BUSY_NS, IDLE_NS
from gpud.engine.unmanaged import LOOK_S
from gpud.model import events as ev
from gpud.model.counters import Counters, HookCounters
from gpud.model.effects import Effect, Reloaded, SendWelcome, StruckOut
from gpud.model.errors import ProtocolError, Refused
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.knobs import DeviceWords, PeerEntry
from gpud.model.levels import Barred, Division, Level, Motion
from gpud.model.units import SECOND
from gpud.testing.boards import board_from_texts
from tests.engine.conftest import GIB, PREEMPT_MIX, UUID, board, by, new_state


class Usage:
    total_bytes, used_bytes = 40 * GIB, 39 * GIB
    power_w = temperature_c = utilisation = None
    mps = mps_clients = False
    processes: tuple[ev.Process, ...] | None = None


class Outside:
    """Pages, sessions, file, driver and reload in one: notes what is asked for, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fail_create: Exception | None = None
        self.brought: tuple[int, int] | None = None
        self.refused: list[tuple[int, str]] = []
        self.now: dict[tuple[ClientId, Slot], Counters] = {}
        self.motion: dict[Slot, Motion] = {}
        self.not_believed: dict[tuple[JobId, Slot], Barred] = {}
        self.told: list[object] = []
        self.asked = 0
        self.asked_ns = 0

    def reloaded(self, done: Reloaded) -> None:
        self.told.append(done)

    def struck_out(self, out: StruckOut) -> None:
        self.told.append(out)

    def devices_changed(self) -> None:
        self.told.append("devices")

    async def usage(self) -> Mapping[bytes, Usage]:
        self.asked += 1
        return {UUID: Usage()}

    def write(self, content: bytes) -> None:
        self.seen.append("save")

    def create(self, client: ClientId, generation: Generation) -> None:
        if self.fail_create:
            raise self.fail_create
        self.seen.append(f"create {client}")

    def adopt(self, client: ClientId, generation: Generation, presence_fd: int, activity_fd: int) -> None:
        if self.fail_create:
            raise self.fail_create
        self.seen.append(f"adopt {client} {presence_fd} {activity_fd}")

    def drop(self, client: ClientId) -> None:
        self.seen.append(f"drop {client}")

    def publish(self, client: ClientId, slot: Slot, words: DeviceWords) -> None:
        self.seen.append(f"publish {client} {slot}")

    def publish_failsafe(self, client: ClientId, after_ns: int | None) -> None:
        self.seen.append(f"failsafe {client} {after_ns}")

    def divide(self, slot: Slot, division: Division | None, resumed: Iterable[Level], now: int) -> None:
        self.seen.append(f"divide {slot}")

    def tell_edges(self, slot: Slot, told: bool) -> None:
        self.seen.append(f"edges {slot} {told}")

    def step_levels(self, now: int) -> dict[Slot, Motion]:
        self.seen.append("step")
        return self.motion

    def barred(self) -> dict[tuple[JobId, Slot], Barred]:
        return self.not_believed

    def levels(self) -> list[Level]:
        return []

    def refresh_lease(self, until_ns: int) -> None:
        self.seen.append("lease")

    def histograms(self, wanted: Iterable[tuple[ClientId, Slot]]) -> dict[tuple[ClientId, Slot], tuple[int, ...]]:
        return dict.fromkeys(wanted, (0,) * 32)

    delays = histograms

    def counters(self) -> dict[tuple[ClientId, Slot], Counters]:
        return self.now

    def reasons(self) -> dict[tuple[ClientId, Slot], str]:
        return {}

    def hook_counters(self, client: ClientId) -> HookCounters:
        return HookCounters()

    def take_pages(self, session: SessionId) -> tuple[int, int] | None:
        return self.brought

    def welcome(self, welcome: SendWelcome) -> None:
        self.seen.append(f"welcome {welcome.client}")

    def refuse(self, session: SessionId, code: int, text: str) -> None:
        self.refused.append((code, text))

    def send_queued(self, session: SessionId, wait_ns: int | None, text: str) -> None:
        self.seen.append(f"queued {session} {wait_ns}")

    def send_slots(self, client: ClientId, slots: tuple[Slot | None, ...]) -> None:
        self.seen.append(f"slots {client}")

    def send_peers(self, client: ClientId, serial: int, peers: tuple[PeerEntry, ...]) -> None:
        self.seen.append(f"peers {client}")

    def send_alloc_reply(self, client: ClientId, slot: Slot, request: int, code: int) -> None:
        self.seen.append(f"alloc {client} {request} {code}")

    def send_lock_granted(
        self, client: ClientId, slots: frozenset[Slot], epoch: int, until_ns: int, count: int, *, only_bytes: bool
    ) -> None:
        pass

    def send_lock_again(self, client: ClientId, slots: frozenset[Slot], epoch: int) -> None:
        pass

    def send_lock_revoked(self, client: ClientId, slots: frozenset[Slot], epoch: int, deadline_ns: int) -> None:
        pass

    def send_lock_refused(self, client: ClientId, request: int, text: str) -> None:
        pass

    def send_swap_out(self, client: ClientId, slot: Slot, request: int, count: int) -> None:
        self.seen.append(f"swap out {client} {count}")

    def send_host_slots(self, client: ClientId, slot: Slot, request: int, made: int, fd: int | None, code: int) -> None:
        self.seen.append(f"host {client} {made} {fd is not None} {code}")

    def send_job(self, session: SessionId, job: JobId, environment: tuple[tuple[str, str], ...]) -> None:
        self.seen.append(f"job {job}")

    def send_attached(self, job: JobId, pid: int) -> None:
        self.seen.append(f"attached {pid}")

    def watch_launcher(self, job: JobId, pid: int, started: int) -> None:
        self.seen.append(f"watch {job}")


@asynccontextmanager
async def running(
    outside: Outside, policies: Board | None = None
) -> AsyncIterator[tuple[Engine, "trio.MemorySendChannel[ev.Event]"]]:
    send, receive = trio.open_memory_channel[ev.Event](100)

    def now() -> int:
        return round(trio.current_time() * 1e9)

    async with (
        send,
        open_engine(
            new_state(policies),
            outside,
            outside,
            outside,
            receive,
            boot="b",
            now=now,
            wall=now,
            policies=outside,
            driver=outside,
        ) as engine,
    ):
        yield engine, send


def asks(session: int, pid: int, again: bool = False) -> ev.AttachAsked:
    who = ev.Who(pid=pid, started=1, uid=0, user="ann", command="x")
    return ev.AttachAsked(
        session=SessionId(session),
        who=who,
        again=again,
        client=ClientId(7 if again else 0),
        generation=Generation(5 if again else 0),
    )


async def test_what_a_client_is_told_is_on_file_before() -> None:
    outside = Outside()
    async with running(outside) as (_, send):
        await send.send(asks(1, 10))
        await wait_all_tasks_blocked()
        assert outside.seen == ["save", "create 1", f"failsafe 1 {30 * SECOND}", "welcome 1"]


async def test_pages_that_cannot_be_made_refuse_that_client_only() -> None:
    outside = Outside()
    async with running(outside) as (engine, send):
        await send.send(asks(1, 10))
        await wait_all_tasks_blocked()
        outside.fail_create = OSError(12, "Cannot allocate memory")
        await send.send(asks(2, 11))
        await wait_all_tasks_blocked()
        assert outside.refused == [(5, "no pages can be made: Cannot allocate memory")]
        assert list(engine.state.clients) == [1]


async def test_pages_brought_that_are_wrong_are_refused() -> None:
    outside = Outside()
    async with running(outside) as (engine, send):
        outside.brought, outside.fail_create = (3, 4), ProtocolError("a page has the seals 0x0")
        await send.send(asks(1, 10, again=True))
        await wait_all_tasks_blocked()
        assert outside.refused == [(4, "a page has the seals 0x0")]
        outside.brought, outside.fail_create = None, None
        await send.send(asks(2, 10, again=True))
        await wait_all_tasks_blocked()
        assert outside.refused[1][0] == 4
        assert engine.state.clients == {}


async def test_ticks(autojump_clock: trio.testing.MockClock) -> None:
    """None without clients; with idle ones the lease alone, once a second."""
    outside = Outside()
    async with running(outside) as (engine, send):
        await trio.sleep(1000)
        assert engine.ticks == 0
        await send.send(asks(1, 10))
        await send.send(ev.Mapped(client=ClientId(1)))
        await send.send(ev.DevicesReported(client=ClientId(1), devices=((UUID, GIB),)))
        await wait_all_tasks_blocked()
        before = engine.ticks
        await trio.sleep(100)
        assert 99 <= engine.ticks - before <= 101
        assert outside.seen.count("lease") == engine.ticks
        await send.send(ev.Detached(client=ClientId(1), session=SessionId(1), reason="x"))
        await wait_all_tasks_blocked()
        before = engine.ticks
        await trio.sleep(1000)
        assert engine.ticks == before


async def test_leaving_changes_no_page() -> None:
    outside = Outside()
    async with running(outside) as (engine, send):
        await send.send(asks(1, 10))
        await wait_all_tasks_blocked()
        engine.drain()
        before = list(outside.seen)
    assert outside.seen == before
    assert before[-1] == "save"


READS = """
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = 1ms }
  when low.queued > 0 { low.max_inflight = 1 }
"""
MEMORY = """
  class all { match any }
  arbitrate open {}
  when gpu.memory_free < 2GiB { all.max_inflight = 1 }
"""


async def joined(send: "trio.MemorySendChannel[ev.Event]", client: int = 1) -> None:
    await send.send(asks(client, 9 + client))
    await send.send(ev.Mapped(client=ClientId(client)))
    await send.send(ev.DevicesReported(client=ClientId(client), devices=((UUID, GIB),)))
    await wait_all_tasks_blocked()


async def test_ticks_of_a_policy_that_reads_signals(autojump_clock: trio.testing.MockClock) -> None:
    outside = Outside()
    async with running(outside, board(("reads", READS))) as (engine, send):
        await trio.sleep(1000)
        assert engine.ticks == 0
        await joined(send)
        before = engine.ticks
        await trio.sleep(10)
        assert abs(engine.ticks - before - 10 * SECOND // IDLE_NS) <= 11  # the lease as well, once a second
        outside.now = {(ClientId(1), Slot(0)): Counters(active=True)}
        await trio.sleep(0.1)
        before = engine.ticks
        await trio.sleep(1)
        assert abs(engine.ticks - before - SECOND // BUSY_NS) <= 2
        await send.send(ev.Detached(client=ClientId(1), session=SessionId(1), reason="x"))
        await wait_all_tasks_blocked()
        before = engine.ticks
        await trio.sleep(1000)
        assert engine.ticks == before


async def test_what_a_policy_sees_reaches_the_pages(autojump_clock: trio.testing.MockClock) -> None:
    outside = Outside()
    async with running(outside, board(("reads", READS))) as (engine, send):
        await joined(send)
        await trio.sleep(1)
        outside.seen.clear()
        await trio.sleep(0.5)
        assert not [what for what in outside.seen if what.startswith("publish")]
        outside.now = {(ClientId(1), Slot(0)): Counters(holding=1)}
        await trio.sleep(0.06)
        assert [what for what in outside.seen if what.startswith("publish")] == ["publish 1 0"]
        assert engine.state.clients[ClientId(1)].words[Slot(0)].max_inflight == 1


async def test_another_set_is_read_for_written_and_told_of(autojump_clock: trio.testing.MockClock) -> None:
    outside = Outside()
    async with running(outside) as (engine, send):
        await joined(send)
        assert outside.told == ["devices"]
        outside.now = {(ClientId(1), Slot(0)): Counters(holding=1)}
        outside.seen.clear()
        wider = READS.replace("max_inflight = 1", "max_inflight = 2")
        await send.send(ev.BoardChanged(board=board(("reads", wider)), why="rollback"))
        await wait_all_tasks_blocked()
        assert [what for what in outside.seen if not what.startswith("edges")][:2] == ["publish 1 0", "save"]
        assert outside.seen.index("edges 0 True") < outside.seen.index("save")
        done = outside.told[-1]
        assert isinstance(done, Reloaded)
        assert (done.generation, done.why, done.digest) == (2, "rollback", engine.state.board.digest)
        assert engine.state.clients[ClientId(1)].words[Slot(0)].max_inflight == 2  # read before, not a tick later


async def test_a_policy_that_takes_too_long_is_told_of(autojump_clock: trio.testing.MockClock) -> None:
    outside = Outside()
    async with running(outside, board(("reads", READS))) as (engine, send):
        await joined(send)
        spent = iter(range(0, 10**12, 2_000_000))
        engine.state.cpu_ns = lambda: next(spent)
        await trio.sleep(1)
        (out,) = [told for told in outside.told if isinstance(told, StruckOut)]
        assert (out.policy, out.generation) == ("reads", 1)


async def test_the_driver_is_asked_only_while_a_policy_wants_to_know(autojump_clock: trio.testing.MockClock) -> None:
    outside = Outside()
    async with running(outside) as (engine, send):
        await trio.sleep(100)
        assert outside.asked == 0
        await joined(send)
        await trio.sleep(100)
        assert abs(outside.asked - 100 / LOOK_S) <= 2, "for processes without a hook"
        outside.asked = 0
        await send.send(ev.BoardChanged(board=board(("memory", MEMORY))))
        await trio.sleep(10)
        assert abs(outside.asked - 10 / DRIVER_S - 10 / LOOK_S) <= 2
        assert engine.state.clients[ClientId(1)].words[Slot(0)].max_inflight == 1
        await send.send(ev.Detached(client=ClientId(1), session=SessionId(1), reason="x"))
        await trio.sleep(2 * LOOK_S)
        before = outside.asked
        await trio.sleep(100)
        assert outside.asked == before
        await joined(send, 2)
        await trio.sleep(2 * DRIVER_S)
        assert outside.asked > before


async def test_a_process_without_a_hook_is_in_the_journal_once(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unmanaged = ev.Process(pid=77, started=5, user="eve", command="miner", used_bytes=None)
    monkeypatch.setattr(Usage, "processes", (unmanaged,))
    outside = Outside()
    async with running(outside) as (_, send):
        await joined(send)
        await trio.sleep(10 * LOOK_S)
    said = [record.getMessage() for record in caplog.records if "miner" in record.getMessage()]
    assert [text.partition(" is on ")[0] for text in said] == ["process 77 (miner) of eve"]


async def test_a_pin_is_answered() -> None:
    outside = Outside()
    async with running(outside) as (engine, send):
        await joined(send)
        engine.change(ev.SetAsked(job=1, by=by(), changes=(("class", "high"),)))
        assert outside.seen[-1] == "save"
        assert engine.state.clients[ClientId(1)].words[Slot(0)].rank == 0
        with pytest.raises(Refused, match="unknown class 'gold'"):
            engine.change(ev.SetAsked(job=1, by=by(), changes=(("class", "gold"),)))
        with pytest.raises(Refused, match="there is no job 7"):
            engine.change(ev.SetAsked(job=7, by=by(), changes=(("class", "high"),)))


async def test_who_calls_from_another_task_wakes_the_engine(autojump_clock: trio.testing.MockClock) -> None:
    """A reload, a pin: what they bring is due before the lease, which was all that there was to wait for."""
    async with running(Outside()) as (engine, send):
        await joined(send)
        await trio.sleep(0.001)
        engine.handle(ev.BoardChanged(board=board(("reads", READS))))
        before = engine.ticks
        await trio.sleep(0.5)
        assert abs(engine.ticks - before - SECOND // 2 // IDLE_NS) <= 2
        engine.handle(ev.BoardChanged(board=board(("quiet", PREEMPT_MIX))))
        await trio.sleep(0.1)
        before = engine.ticks
        await trio.sleep(3)
        assert engine.ticks - before <= 4  # the lease alone again


async def test_a_pin_is_looked_at_at_once(autojump_clock: trio.testing.MockClock) -> None:
    each = """
      class nb  { match label("kind") == "nb" }
      class low { match any }
      arbitrate open {}
      each nb as n { n.max_inflight = 2 }
    """
    async with running(Outside(), board(("each", each))) as (engine, send):
        await joined(send)
        await trio.sleep(0.01)
        engine.change(ev.SetAsked(job=engine.state.clients[ClientId(1)].job, by=by(), changes=(("class", "nb"),)))
        await trio.sleep(0.003)
        assert engine.state.clients[ClientId(1)].words[Slot(0)].max_inflight == 2


async def test_sets_that_ran_before_leave_nothing_behind(autojump_clock: trio.testing.MockClock) -> None:
    """The collector looks at what lives long once, when it comes, and yet lets it go."""
    async with running(Outside()) as (engine, send):
        await joined(send)
        old: list[weakref.ref[object]] = []
        for number in range(3):
            fresh = board_from_texts(
                {"p.gpol": f'gpol 1 policy "p{number}" {{ class a {{ match any }} }}'}, f"p{number}"
            )
            engine.handle(ev.BoardChanged(board=fresh))
            old.append(weakref.ref(fresh))
            del fresh
            await trio.sleep(2)  # somebody is there, whose lease wakes the engine
        assert [ref() is None for ref in old] == [True, True, False]
        assert gc.get_freeze_count() > 10_000


async def test_host_slots_are_handed_over_or_it_is_said_why_not_and_they_end_with_the_client() -> None:
    outside = Outside()
    async with running(outside, board(("s", _SWAPS))) as (engine, send):
        await send.send(asks(1, 10))
        for count in (2 << 20, 2 << 20, 2 << 20):
            asked = ev.SlotsAsked(client=ClientId(1), slot=Slot(0), request=1, bytes=count)
            await send.send(asked)
        with trio.fail_after(10):
            while sum(seen.startswith("host") for seen in outside.seen) < 3:
                await trio.lowlevel.checkpoint()
        assert sorted(seen for seen in outside.seen if seen.startswith("host")) == [
            "host 1 0 False 4", "host 1 2097152 True 0", "host 1 2097152 True 0",
        ]  # fmt: skip
        assert engine.state.moves.host.used == 4 << 20
        await send.send(ev.Detached(client=ClientId(1), session=SessionId(1), reason="x"))
        await wait_all_tasks_blocked()
        assert engine.state.moves.host.used == 0


_SWAPS = "class a { match any }  arbitrate exclusive { max_hold = 9s }  swap { tiers = [host(max = 4MiB)] }"


async def test_an_allocation_that_does_not_fit_is_judged_by_what_is_held_now() -> None:
    outside = Outside()
    async with running(outside, board(("l", "class a { match any  limit { memory = 1MiB } }"))) as (_, send):
        await send.send(asks(1, 10))
        await send.send(ev.Mapped(client=ClientId(1)))
        await send.send(ev.DevicesReported(client=ClientId(1), devices=((b"u" * 16, 1 << 30),)))
        await wait_all_tasks_blocked()
        outside.now = {(ClientId(1), Slot(0)): Counters(reserved_bytes=1 << 20)}
        await send.send(ev.AllocAsked(client=ClientId(1), slot=Slot(0), request=3, bytes=4096, time_ns=0))
        await wait_all_tasks_blocked()
        assert outside.seen[-1] == "alloc 1 3 1"


async def test_an_observer_hears_each_event_after_its_effects_and_one_that_fails_only_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outside = Outside()
    heard: list[tuple[str, int]] = []

    class Hears:
        def saw(self, event: ev.Event, effects: Sequence[Effect], now: int) -> None:
            if isinstance(event, ev.AttachAsked | ev.PagesFailed):
                assert effects
                heard.append((type(event).__name__, len(outside.seen)))

    class Fails:
        calls = 0

        def saw(self, event: ev.Event, effects: Sequence[Effect], now: int) -> None:
            self.calls += 1
            raise ZeroDivisionError

    fails = Fails()
    async with running(outside) as (engine, send):
        engine.observe(fails)
        engine.observe(Hears())
        await send.send(asks(1, 10))
        await wait_all_tasks_blocked()
        assert heard == [("AttachAsked", len(outside.seen))], "they were carried out"
        assert outside.seen
        outside.fail_create = OSError(12, "Cannot allocate memory")
        await send.send(asks(2, 11))
        await wait_all_tasks_blocked()
        assert [name for name, _ in heard] == ["AttachAsked", "AttachAsked", "PagesFailed"], "what came of it, too"
        assert fails.calls == 1
        assert list(engine.state.clients) == [1], "the engine goes on"
    assert caplog.text.count("Fails stops observing") == 1
