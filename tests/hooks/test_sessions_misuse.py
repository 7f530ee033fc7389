"""What a client may do wrong at each step of the conversation: it goes, and nobody else."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from gpud.hooks import wire
from gpud.testing.fake_hook import FakeHook
from tests.hooks.conftest import GIB, UUID, descriptors, drain, open_node, until


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
            await trio.to_thread.run_sync(drain, hook)
            assert hook.refused or hook.detached
            assert hook.control is None or hook.is_let_go() or step is instead_of_mapped
        hook.close()
        await until(lambda: len(descriptors()) == count, "its descriptors are closed")
        await node.is_well(bystander)


@pytest.mark.parametrize("step", STEPS[:3], ids=lambda step: step.__name__)
async def test_who_says_nothing_is_dropped_in_time(tmp_path: Path, step: Callable[[FakeHook], None]) -> None:
    async with open_node(tmp_path, handshake_s=0.5) as node:
        hook = FakeHook(node.path)
        node.hooks.append(hook)
        await trio.to_thread.run_sync(step, hook)
        await until(lambda: len(node.sessions) == 0, "the session ends")
        await until(lambda: not node.engine.state.clients, "the client is forgotten")


async def test_who_attached_may_be_silent_for_ever(tmp_path: Path) -> None:
    async with open_node(tmp_path, handshake_s=0.5) as node:
        hook = await node.attach()
        await trio.sleep(0.7)
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
        await trio.to_thread.run_sync(drain, hook)
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
                    await node.attach()  # not only when the flood is over
            finally:
                stop.set()
        assert node.is_attached(flooder)
