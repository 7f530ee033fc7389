"""Launchers, and who waits in line to be let in."""

import socket
from pathlib import Path

import pytest
import trio

from gpud.hooks import wire
from gpud.model.errors import GpudError
from gpud.testing.fake_hook import FakeHook, launch
from tests.hooks.conftest import PATIENCE_S, open_node, until


async def test_launchers(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        connection, job = await trio.to_thread.run_sync(launch, node.path, (("name", "n"), ("label.tier", "online")))
        node.launchers.append(connection)
        node.people.parents[node.people.next_pid + 1] = node.people.next_pid
        hook = await node.attach()
        assert hook.welcome is not None
        assert hook.welcome.job == job.job
        connection.settimeout(PATIENCE_S)
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


ONE = """gpol 1
policy "preempt-mix" {
  class all { match any  limit { tenants = 1 } }
  arbitrate open {}
  admit { when_full = queue(max = 90s) }
}
"""


async def test_who_waits_in_line_is_not_the_one_who_is_slow(tmp_path: Path) -> None:
    """It may wait much longer than a handshake may take, and has all the time of one once it is let in."""
    async with open_node(tmp_path, policy=ONE, handshake_s=1) as node:
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
            await trio.sleep(1.2)  # longer than a handshake may take
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
