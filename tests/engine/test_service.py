from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import trio
from trio.testing import wait_all_tasks_blocked

from gpud.engine.service import Engine, open_engine
from gpud.model import events as ev
from gpud.model.counters import Counters, HookCounters
from gpud.model.effects import SendWelcome
from gpud.model.errors import ProtocolError
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.knobs import DeviceWords, PeerEntry
from tests.engine.conftest import GIB, UUID, new_state


class Outside:
    """Pages, sessions and file in one: notes what is asked for, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fail_create: Exception | None = None
        self.brought: tuple[int, int] | None = None
        self.refused: list[tuple[int, str]] = []

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

    def publish_others(self, client: ClientId, slot: Slot, active: bool) -> None:
        self.seen.append(f"others {client} {slot} {active}")

    def refresh_lease(self, until_ns: int) -> None:
        self.seen.append("lease")

    def counters(self) -> dict[tuple[ClientId, Slot], Counters]:
        return {}

    def hook_counters(self, client: ClientId) -> HookCounters:
        return HookCounters()

    def presence(self, wanted: Iterable[tuple[ClientId, Slot]]) -> dict[tuple[ClientId, Slot], ev.Presence]:
        return {}

    def take_pages(self, session: SessionId) -> tuple[int, int] | None:
        return self.brought

    def welcome(self, welcome: SendWelcome) -> None:
        self.seen.append(f"welcome {welcome.client}")

    def refuse(self, session: SessionId, code: int, text: str) -> None:
        self.refused.append((code, text))

    def send_slots(self, client: ClientId, slots: tuple[Slot | None, ...]) -> None:
        self.seen.append(f"slots {client}")

    def send_peers(self, client: ClientId, serial: int, peers: tuple[PeerEntry, ...]) -> None:
        self.seen.append(f"peers {client}")

    def send_job(self, session: SessionId, job: JobId, environment: tuple[tuple[str, str], ...]) -> None:
        self.seen.append(f"job {job}")

    def send_attached(self, job: JobId, pid: int) -> None:
        self.seen.append(f"attached {pid}")

    def watch_launcher(self, job: JobId, pid: int, started: int) -> None:
        self.seen.append(f"watch {job}")


@asynccontextmanager
async def running(outside: Outside) -> AsyncIterator[tuple[Engine, "trio.MemorySendChannel[ev.Event]"]]:
    send, receive = trio.open_memory_channel[ev.Event](100)

    def now() -> int:
        return round(trio.current_time() * 1e9)

    async with (
        send,
        open_engine(new_state(), outside, outside, outside, receive, boot="b", now=now) as engine,
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
        assert outside.seen == ["save", "create 1", "welcome 1"]


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
