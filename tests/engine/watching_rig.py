"""An engine with somebody to look at it, over a world that is made up. Times are trio's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from gpud.engine.board import Board
from gpud.engine.live import Facts
from gpud.engine.service import Engine, open_engine
from gpud.engine.watching import TOGETHER_NS, Watching
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, SessionId, Slot
from gpud.model.policy_views import SetView
from gpud.model.units import SECOND
from tests.engine.conftest import GIB, UUID, asks, new_state
from tests.engine.live_world import RUNNING, WALL
from tests.engine.test_service import Outside


@define(eq=False)
class Rig:
    """`wall`: Unix time less the engine's clock."""

    outside: Outside
    engine: Engine
    watching: Watching
    send: "trio.MemorySendChannel[ev.Event]"
    wall: int = WALL
    driver: str = "ok"
    looks: int = 0
    """How often pages were summed up."""
    set: SetView = field(default=RUNNING)

    async def job(self, number: int, uid: int = 0, name: str = "train") -> ClientId:
        """One of `gpud run`, with a process on the device. `number`: counts up from 1."""
        launcher = ev.Who(pid=1000 + number, started=1, uid=uid, user=f"user{uid}", command=name)
        above = ((launcher.pid, launcher.started),)
        who = ev.Who(pid=2000 + number, started=1, uid=uid, user=f"user{uid}", command=f"{name}.py", ancestors=above)
        session = SessionId(10_000 + number)
        await self.send.send(ev.LaunchAsked(session=session, who=launcher, asked=(("name", name),)))
        await self.send.send(asks(number, who))
        await self.send.send(ev.Mapped(client=ClientId(number)))
        await self.send.send(ev.DevicesReported(client=ClientId(number), devices=((UUID, GIB),)))
        await wait_all_tasks_blocked()
        await trio.sleep(2 * TOGETHER_NS / SECOND)  # who looks from now on sees it
        return ClientId(number)

    async def gone(self, client: ClientId) -> None:
        """With its launcher."""
        there = self.engine.state.clients[client]
        await self.send.send(ev.Detached(client=client, session=there.session, reason="its process ended"))
        await self.send.send(ev.LauncherEnded(job=JobId(there.job)))
        await wait_all_tasks_blocked()

    def does(self, client: ClientId, **counters: int) -> None:
        """As its page says from now on."""
        self.outside.now[client, Slot(0)] = Counters(**counters)


@asynccontextmanager
async def watched(policies: Board | None = None) -> AsyncIterator[Rig]:
    send, receive = trio.open_memory_channel[ev.Event](100)
    outside = Outside()
    rigs: list[Rig] = []

    def now() -> int:
        return round(trio.current_time() * SECOND)

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
            wall=lambda: now() + (rigs[0].wall if rigs else WALL),
            driver=outside,
        ) as engine,
    ):
        counters = outside.counters

        def counted() -> dict[tuple[ClientId, Slot], Counters]:
            rig.looks += 1
            return counters()

        outside.counters = counted  # type: ignore[method-assign]
        watching = Watching(engine, Facts(host="node1"), driver=lambda: rigs[0].driver, policy_set=lambda: rigs[0].set)
        rig = Rig(outside, engine, watching, send)
        rigs.append(rig)
        engine.handle(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
        yield rig
