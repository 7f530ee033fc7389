"""Sessions over real sockets, with fake hooks. Nobody disturbs anybody else, and nothing is left behind."""

import os
import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from gpud.hooks import wire
from gpud.hooks.identity import IdentityError
from gpud.model import refusals
from gpud.model.errors import GpudError
from gpud.testing.fake_hook import FakeHook, launch
from tests.hooks.conftest import GIB, UUID, descriptors, open_node, until

GATE_PREEMPT, GATE_WINDOW = 2, 4


async def test_low_and_high(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        low = await node.attach(online=False)
        assert low.gate(0).gate == GATE_WINDOW
        with_high = trio.Event()

        async def keep_low() -> None:
            """The keeper of low."""
            while not with_high.is_set():
                low.pump()
                await trio.sleep(0.001)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_low)
            high = await node.attach(online=True)
            with_high.set()
        # High has heard its slots, so low looks at it already.
        assert high.gate(0).gate == 0
        gate = low.gate(0)
        assert (gate.gate, gate.peer_count, gate.max_inflight) == (GATE_WINDOW | GATE_PREEMPT, 1, 1)
        assert (gate.rank, high.gate(0).rank) == (1, 0)
        assert gate.unit != high.gate(0).unit
        assert not low.sees_active(0)
        high.set_active(0, True)
        assert low.sees_active(0)  # from page to page, without the daemon
        high.set_active(0, False)
        assert not low.sees_active(0)
        high.close()
        await until(lambda: low.gate(0).gate == GATE_WINDOW, "low is free of high")
        await trio.to_thread.run_sync(low.pump_until, lambda: not low.peers)


async def test_a_low_knows_whom_to_look_at_before_it_may_launch(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        high = await node.attach(online=True)
        high.set_active(0, True)
        low = await node.attach(online=False)
        assert low.slots == (0,)
        assert low.sees_active(0)


async def test_high_is_not_held_by_a_low_that_does_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_node(tmp_path) as node:
        low = await node.attach(online=False)
        began = trio.current_time()
        high = await node.attach(online=True)
        assert trio.current_time() - began >= 0.09
        assert caplog.text.count("goes on though") == 1
        second = await node.attach(online=True)
        assert caplog.text.count("goes on though") == 1  # it is known to be slow: nobody waited for it
        assert (high.slots, second.slots) == ((0,), (0,))
        assert node.is_attached(low)


async def test_sets_of_peers_replace_each_other_for_who_does_not_read(tmp_path: Path) -> None:
    """Nothing piles up however long a client sleeps, and it knows the truth once it wakes."""
    async with open_node(tmp_path) as node:
        low = await node.attach(online=False)
        for _ in range(300):
            high = await node.attach(online=True)
            high.close()
            node.hooks.remove(high)
            node.launchers.pop().close()
        assert node.is_attached(low)
        last = await node.attach(online=True)
        generation = last.welcome.generation if last.welcome else 0
        await trio.to_thread.run_sync(low.pump_until, lambda: {g for g, _ in low.peers.values()} == {generation})
        last.set_active(0, True)
        assert low.sees_active(0)
        await node.is_well(low)


# What a client may do wrong at a step of the conversation.


def garbage(hook: FakeHook) -> None:
    hook.send(b"\x00\xff" * 40)


def truncated(hook: FakeHook) -> None:
    hook.send(hook.session.hello()[:17])


def oversized(hook: FakeHook) -> None:
    hook.send(b"GD" + bytes(60_000))


def unknown_type(hook: FakeHook) -> None:
    hook.send(b"\x47\x44\x63\x00\x08\x00\x00\x00")


def out_of_order(hook: FakeHook) -> None:
    hook.send(wire.encode(wire.Launch(())))


def daemons_message(hook: FakeHook) -> None:
    hook.send(wire.encode(wire.Welcome(1, 1, 1, 1, 1, 1, 1)))


def descriptors_unasked(hook: FakeHook) -> None:
    hook.send(wire.encode(wire.Bye()), [0, 0])


def too_many_descriptors(hook: FakeHook) -> None:
    hook.send(wire.encode(wire.Bye()), [0] * 100)


def empty(hook: FakeHook) -> None:
    hook.send(b"")


def closes(hook: FakeHook) -> None:
    hook.disconnect()


def half_closes(hook: FakeHook) -> None:
    assert hook.socket
    hook.socket.shutdown(socket.SHUT_WR)


def says_nothing(hook: FakeHook) -> None:
    pass


WRONGS: list[Callable[[FakeHook], None]] = [
    *(garbage, truncated, oversized, unknown_type, out_of_order, daemons_message, descriptors_unasked),
    *(too_many_descriptors, empty, closes, half_closes),
]


def before_hello(hook: FakeHook) -> None:
    hook.connect()


def instead_of_pong(hook: FakeHook) -> None:
    hook.connect()
    hook.send(hook.session.hello())
    assert hook.socket
    hook.socket.recv(100, socket.MSG_PEEK)


def instead_of_mapped(hook: FakeHook) -> None:
    hook.connect()
    hook.send(hook.session.hello())
    hook.pump_until(lambda: hook.welcome is not None)


def after_mapped(hook: FakeHook) -> None:
    hook.attach()


def with_devices(hook: FakeHook) -> None:
    hook.attach()
    hook.report_devices([(UUID, GIB)])
    hook.pump_until(lambda: hook.slots is not None)


STEPS = [before_hello, instead_of_pong, instead_of_mapped, after_mapped, with_devices]


@pytest.mark.parametrize("wrong", WRONGS, ids=lambda wrong: wrong.__name__)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
async def test_who_misbehaves_goes_and_nobody_else(
    tmp_path: Path, step: Callable[[FakeHook], None], wrong: Callable[[FakeHook], None]
) -> None:
    async with open_node(tmp_path) as node:
        bystander = await node.attach(online=False)
        sessions, clients = len(node.sessions), len(node.engine.state.clients)
        count = len(descriptors())
        hook = FakeHook(node.path)
        await trio.to_thread.run_sync(step, hook)
        wrong(hook)
        await until(lambda: len(node.sessions) == sessions, "the session ends")
        await until(lambda: len(node.engine.state.clients) == clients, "the client is forgotten")
        if wrong not in (closes, half_closes, empty):
            # It is told why, and its page says that it is let go.
            await trio.to_thread.run_sync(_drain, hook)
            assert hook.refused or hook.detached
            assert hook.control is None or hook.is_let_go() or step is instead_of_mapped
        hook.close()
        await until(lambda: len(descriptors()) == count, "its descriptors are closed")
        await node.is_well(bystander)


def _drain(hook: FakeHook) -> None:
    while not hook.closed:
        hook.pump(5)


@pytest.mark.parametrize("step", STEPS[:3], ids=lambda step: step.__name__)
async def test_who_says_nothing_is_dropped_in_time(tmp_path: Path, step: Callable[[FakeHook], None]) -> None:
    async with open_node(tmp_path, handshake_s=0.2) as node:
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        await trio.to_thread.run_sync(step, hook)
        await until(lambda: len(node.sessions) == 0, "the session ends")
        await until(lambda: not node.engine.state.clients, "the client is forgotten")


async def test_who_attached_may_be_silent_for_ever(tmp_path: Path) -> None:
    async with open_node(tmp_path, handshake_s=0.1) as node:
        hook = await node.attach()
        await trio.sleep(0.5)
        await node.is_well(hook)


async def test_answers_that_lie(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        bystander = await node.attach()
        for lie in (
            wire.PeersMapped(99, 1),
            wire.WentActive(8, 1, 1),
            wire.WentIdle(2**32 - 1, 1, 1),
        ):
            hook = await node.attach()
            hook.send(wire.encode(lie))
            await until(lambda hook=hook: not node.is_attached(hook), "the liar is detached")  # type: ignore[misc]
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        await trio.to_thread.run_sync(instead_of_pong, hook)
        hook.send(wire.encode(wire.Pong(123)))
        await trio.to_thread.run_sync(_drain, hook)
        assert hook.refused is not None
        assert "another number than PING" in hook.refused.text
        await node.is_well(bystander)


async def test_a_flood_of_edges_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        flooder = await node.attach()
        assert flooder.socket
        stop = threading.Event()
        sent = 0

        def flood() -> None:
            nonlocal sent
            assert flooder.socket
            packet = wire.encode(wire.WentActive(0, 1, 1))
            flooder.socket.settimeout(0.05)
            while not stop.is_set():
                try:
                    flooder.socket.send(packet)
                    sent += 1
                except TimeoutError:
                    continue

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, flood)
            try:
                await until(lambda: sent > 300, "the flood has begun")
                for _ in range(5):
                    began = trio.current_time()
                    await node.attach()
                    assert trio.current_time() - began < 1
            finally:
                stop.set()
        assert node.is_attached(flooder)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (wire.Hello(7, 9, wire.ROLE_HOOK, 0, wire.PAGE_VERSION, 0, 0), refusals.VERSION),
        (wire.Hello(1, 1, wire.ROLE_HOOK, 0, 77, 0, 0), refusals.VERSION),
        (wire.Hello(1, 1, 9, 0, wire.PAGE_VERSION, 0, 0), refusals.PROTOCOL),
    ],
)
async def test_refusals_have_a_code_and_a_remedy(tmp_path: Path, message: wire.Hello, code: int) -> None:
    async with open_node(tmp_path) as node:
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        hook.connect()
        hook.send(wire.encode(message))
        await trio.to_thread.run_sync(_drain, hook)
        assert hook.refused is not None
        assert hook.refused.code == code
        assert code != refusals.VERSION or "install the same gpud for both" in hook.refused.text


async def test_who_cannot_be_known_is_refused(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        node.people.fail = IdentityError("it runs in a PID namespace of its own; start the daemon with --pid=host")
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        with pytest.raises(GpudError, match="--pid=host"):
            await trio.to_thread.run_sync(hook.attach)
        assert hook.refused is not None
        assert hook.refused.code == refusals.IDENTITY


async def test_an_error_of_the_daemon_ends_one_session(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        bystander = await node.attach()
        node.people.fail = RuntimeError("a bug")
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        with pytest.raises(GpudError):
            await trio.to_thread.run_sync(hook.attach)
        await node.is_well(bystander)


async def test_a_kernel_that_hangs_holds_one_session(tmp_path: Path) -> None:
    async with open_node(tmp_path, handshake_s=0.2) as node:
        go_on = threading.Event()
        node.people.wait = lambda: go_on.wait(10)
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        with pytest.raises(GpudError, match="did not say in time"):
            await trio.to_thread.run_sync(hook.attach)
        other = await node.attach()
        await node.is_well(other)
        go_on.set()  # what comes too late is closed: open_node counts


async def test_out_of_descriptors(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        bystander = await node.attach()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        hook.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hook.socket.settimeout(5)
        highest = max(descriptors())
        fill = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
            try:
                while True:
                    fill.append(os.dup(0))
            except OSError:
                pass
            hook.socket.connect(str(node.path))
            await trio.to_thread.run_sync(_drain, hook)
            assert hook.refused is not None
            assert hook.refused.code == refusals.RESOURCES
            assert "limit of open files" in hook.refused.text
        finally:
            for fd in fill:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await node.is_well(bystander)
        await node.is_well(await node.attach())


async def test_the_spare_descriptor_may_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread takes the one that was free for a moment: the daemon goes on."""
    async with open_node(tmp_path) as node:
        bystander = await node.attach()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nobody:
            nobody.bind(str(tmp_path / "x.sock"))
            nobody.listen(1)
            nobody.setblocking(False)

            def full(*_: object) -> int:
                raise OSError(24, "Too many open files")

            monkeypatch.setattr(os, "open", full)
            node.sessions._turn_away(nobody)
            monkeypatch.undo()
            node.sessions._turn_away(nobody)
        await node.is_well(bystander)
        await node.is_well(await node.attach())


async def test_who_is_known_at_the_moment_of_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found, and the answer thrown away by the cancellation: taken all the same, or its descriptor would be lost."""
    async with open_node(tmp_path, handshake_s=0.3) as node:
        run_sync = trio.to_thread.run_sync

        async def late(work: Callable[[], object], **how: object) -> None:
            await run_sync(work, **how)  # type: ignore[arg-type]
            await trio.sleep_forever()  # the deadline comes before the result is handed over

        with monkeypatch.context() as patched:
            patched.setattr(trio.to_thread, "run_sync", late)
            hook = FakeHook(node.path)
            node.hooks.append(hook)
            await run_sync(hook.attach)
        await node.is_well(hook)


async def test_a_daemon_that_ends_says_so(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        bystander = await node.attach()
        node.sessions.refusing = True
        node.engine.drain()
        with pytest.raises(GpudError, match="try again when it is back"):
            await node.attach()
        assert node.is_attached(bystander)


async def test_a_client_comes_back_while_the_daemon_lives(tmp_path: Path) -> None:
    """By a second connection before the first has ended: it is the same client, with a new control page."""
    async with open_node(tmp_path) as node:
        low = await node.attach(online=False)
        before, first = low.welcome, low.socket
        assert before is not None
        assert first is not None
        node.people.next_pid = node.engine.state.clients[node.client(low)].who.pid - 1
        low.set_active(0, True)
        welcome = await trio.to_thread.run_sync(low.attach, True)
        assert (welcome.client, welcome.generation) == (before.client, before.generation)
        assert low.gate(0).gate == GATE_WINDOW
        first.settimeout(5)
        while await trio.to_thread.run_sync(first.recv, 1000):
            pass  # the first connection is ended
        first.close()
        await node.is_well(low)


async def test_a_client_with_pages_of_a_daemon_that_nobody_remembers(tmp_path: Path) -> None:
    """The state file is lost: the kernel says who it is, the pages go on."""
    async with open_node(tmp_path) as node:
        low = await node.attach()
        generation = low.welcome.generation if low.welcome else 0
        low.set_slot(0, entered=7, left=7)
        low.disconnect()
        await until(lambda: not node.engine.state.clients, "the client is forgotten")
        welcome = await trio.to_thread.run_sync(low.attach, True)
        assert welcome.generation == generation
        await node.is_well(low)
        assert node.pages.counters()[node.client(low), 0].entered == 7  # type: ignore[index]


async def test_a_generation_out_of_nowhere_disturbs_nobody(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        liar = FakeHook(node.path)
        node.hooks.append(liar)
        liar.connect()
        liar.session = wire.ClientSession(wire.ROLE_HOOK, 5, 2**64 - 1)
        liar.send(liar.session.hello(), [0, 0])
        with pytest.raises(GpudError, match="another process"):
            await trio.to_thread.run_sync(liar.pump_until, lambda: liar.welcome is not None)
        await node.is_well(await node.attach())


async def test_launchers(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        connection, job = await trio.to_thread.run_sync(launch, node.path, (("name", "n"), ("label.tier", "online")))
        node.launchers.append(connection)
        node.people.parents[node.people.next_pid + 1] = node.people.next_pid
        hook = await node.attach()
        assert hook.welcome is not None
        assert hook.welcome.job == job.job
        connection.settimeout(5)
        session = wire.ClientSession(wire.ROLE_LAUNCHER)
        session.known = True
        packet = await trio.to_thread.run_sync(connection.recv, 100)
        message, _ = session.receive(packet)
        assert message == wire.Attached(node.people.next_pid)
        # The socket of `gpud run` is gone, its process is not: the job goes on.
        connection.close()
        hook.close()
        await until(lambda: not node.engine.state.clients, "the client is gone")
        assert job.job in node.engine.state.tenants


async def test_launchers_that_are_refused(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        with pytest.raises(GpudError, match="unknown class 'gold'; the policy preempt-mix has high, low"):
            await trio.to_thread.run_sync(launch, node.path, (("class", "gold"),))
        assert node.engine.state.tenants == {}


async def test_many_at_once(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(node.attach)
        assert len(node.engine.state.clients) == 30
        assert len({node.client(hook) for hook in node.hooks}) == 30


ONE = """gpol 1
policy "preempt-mix" {
  class all { match any  limit { tenants = 1 } }
  arbitrate open {}
  admit { when_full = queue(max = 90s) }
}
"""


async def test_who_waits_in_line_is_not_the_one_who_is_slow(tmp_path: Path) -> None:
    """It may wait much longer than a handshake may take, and has all the time of one once it is let in."""
    async with open_node(tmp_path, policy=ONE, handshake_s=0.3) as node:
        first, second = await node.attach(), FakeHook(node.path)
        node.hooks.append(second)
        asked = trio.Event()

        async def attach() -> None:
            asked.set()
            await trio.to_thread.run_sync(lambda: second.attach(waits=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(attach)
            await asked.wait()
            await until(lambda: node.engine.state.waiting, "it is in line")
            await trio.sleep(0.6)  # twice as long as a handshake may take
            assert second.queued is not None
            assert (second.queued.seconds, second.welcome) == (90, None)
            assert second.queued.text.startswith("the class all has 1 job on device 0")
            first.close()
        await until(lambda: node.is_attached(second), "it is let in")
        assert node.engine.state.waiting == []


async def test_who_gives_up_waiting_is_gone(tmp_path: Path) -> None:
    async with open_node(tmp_path, policy=ONE) as node:
        await node.attach()
        second = FakeHook(node.path)

        async def attach() -> None:
            with pytest.raises((GpudError, OSError)):
                await trio.to_thread.run_sync(lambda: second.attach(waits=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(attach)
            await until(lambda: node.engine.state.waiting, "it is in line")
            assert second.socket is not None
            second.socket.shutdown(socket.SHUT_RDWR)
        await until(lambda: not node.engine.state.waiting, "nobody is in line")
        second.close()
