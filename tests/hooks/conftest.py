import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from gpud.engine import saved
from gpud.engine.service import Engine, open_engine
from gpud.engine.state import State
from gpud.engine.state_file import StateFile
from gpud.hooks.identity import Peer
from gpud.hooks.pages import PageStore, open_pages
from gpud.hooks.sessions import Sessions, open_sessions
from gpud.model.events import Event, Who
from gpud.model.ids import ClientId
from gpud.model.units import SECOND
from gpud.testing.boards import board_from_texts
from gpud.testing.fake_hook import FakeHook, launch

UUID = bytes(range(16))
GIB = 1 << 30
PATIENCE_S = 60.0
PREEMPT_MIX = """gpol 1
policy "preempt-mix" {
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  max_inflight = 1  resume_after = 1ms  max_pause = 2s }
}
"""


async def until(condition: Callable[[], object], what: str, within: float = PATIENCE_S) -> None:
    """Waits for a condition, with a deadline."""
    with trio.move_on_after(within):
        while not condition():  # noqa: ASYNC110 (any condition)
            await trio.sleep(0.002)
        return
    raise AssertionError(f"not within {within:g} s: {what}")


class Everybody:
    """Says that each connection comes from a process of its own, though all come from this one."""

    def __init__(self) -> None:
        self.next_pid = 1000
        self.parents: dict[int, int] = {}
        self.fail: Exception | None = None
        self.wait: Callable[[], object] | None = None

    def __call__(self, connection: socket.socket) -> Peer:
        fail, wait = self.fail, self.wait
        self.fail = self.wait = None
        if wait is not None:
            wait()
        if fail is not None:
            raise fail
        self.next_pid += 1
        pid = self.next_pid
        parent = self.parents.get(pid)
        ancestors = ((parent, 1),) if parent else ()
        who = Who(pid=pid, started=1, uid=os.getuid(), user="ann", command="x", ancestors=ancestors)
        return Peer(pidfd=os.pidfd_open(os.getpid()), who=who)


class Node:
    """Pages, sessions and engine of a daemon, in this process."""

    def __init__(self, path: Path, pages: PageStore, sessions: Sessions, engine: Engine, people: Everybody) -> None:
        self.path = path
        self.pages = pages
        self.sessions = sessions
        self.engine = engine
        self.people = people
        self.hooks: list[FakeHook] = []
        self.launchers: list[socket.socket] = []

    async def attach(self, online: bool | None = None, pump: bool = True) -> FakeHook:
        """A client with device 0: of no launcher, or of one whose job is `online` or not."""
        if online is not None:
            connection, _ = await trio.to_thread.run_sync(
                launch, self.path, (("label.tier", "online" if online else "batch"),)
            )
            self.launchers.append(connection)
            self.people.parents[self.people.next_pid + 1] = self.people.next_pid
        hook = FakeHook(self.path)
        self.hooks.append(hook)

        def whole() -> None:
            hook.attach()
            hook.report_devices([(UUID, GIB)])
            if pump:
                hook.pump_until(lambda: hook.slots is not None)

        await trio.to_thread.run_sync(whole)
        return hook

    async def reattach(self, hook: FakeHook) -> None:
        """It comes back to a daemon that was started again, as the process that it was."""
        assert hook.welcome is not None
        who = self.engine.state.clients[ClientId(hook.welcome.client)].who
        self.people.next_pid = who.pid - 1
        self.people.parents[who.pid] = who.ancestors[0][0] if who.ancestors else 0
        hook.path = self.path
        self.hooks.append(hook)
        await trio.to_thread.run_sync(hook.attach, True)

    def client(self, hook: FakeHook) -> ClientId:
        assert hook.welcome is not None
        return ClientId(hook.welcome.client)

    def is_attached(self, hook: FakeHook) -> bool:
        return self.client(hook) in self.engine.state.clients

    async def is_well(self, hook: FakeHook) -> None:
        """The daemon still answers this client, and sees its page."""

        def ask() -> None:  # in a thread: a send may wait until the daemon has read what came before
            hook.set_active(0, True)
            hook.report_devices([(UUID, GIB)])
            hook.pump_until(lambda: hook.slots is not None)

        await trio.to_thread.run_sync(ask)
        assert hook.slots == (0,)
        key = (self.client(hook), 0)
        assert self.pages.counters()[key].active  # type: ignore[index]
        hook.set_active(0, False)
        assert hook.lease_until_ns() > time.monotonic_ns()

    def close(self) -> None:
        for hook in self.hooks:
            hook.close()
        for connection in self.launchers:
            connection.close()


def descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


@asynccontextmanager
async def open_node(
    directory: Path,
    *,
    handshake_s: float = 60.0,
    identify: Callable[[socket.socket], Peer] | None = None,
    policy: str = PREEMPT_MIX,
    again: bool = False,
    hooks_stay: bool = False,
) -> AsyncIterator[Node]:
    """Leaving it checks that no descriptor is left, unless `hooks_stay` with their pages. `again`: as a daemon that
    takes over what is on file."""
    await trio.to_thread.run_sync(lambda: None)  # threads and their descriptors are there before we count
    before = descriptors()
    people = Everybody()
    send, receive = trio.open_memory_channel[Event](100)
    state = State(
        board=board_from_texts({"preempt-mix.gpol": policy}, default="preempt-mix"),
        lease_ns=3 * SECOND,
        last_generation=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    )
    file = StateFile(directory / "state.json")
    if again:
        content = file.read()
        found = saved.load(content, "b") if content else None
        assert found is not None
        saved.restore(state, found, lambda pid, started: True, time.monotonic_ns() + 10 * SECOND)
    async with (
        open_pages(lease_ns=3 * SECOND, failsafe_after_ns=30 * SECOND) as pages,
        open_sessions(
            directory / "hook.sock", pages, send, identify=identify or people, handshake_s=handshake_s
        ) as sessions,
        open_engine(state, pages, sessions, file, receive, boot="b") as engine,
    ):
        node = Node(directory / "hook.sock", pages, sessions, engine, people)
        try:
            yield node
        finally:
            node.close()
            with trio.CancelScope(shield=True):
                await until(lambda: len(sessions) == 0 or node.launchers, "all sessions end")
    left = {fd: name for fd, name in descriptors().items() if before.get(fd) != name}
    assert hooks_stay or not left, f"descriptors are left: {left}"


def drain(hook: FakeHook) -> None:
    while not hook.closed:
        hook.pump(5)
