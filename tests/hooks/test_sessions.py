"""Sessions over real sockets, with fake hooks. Nobody disturbs anybody else, and nothing is left behind."""

from pathlib import Path

import pytest
import trio

from gpud.hooks import wire
from gpud.model.errors import GpudError
from gpud.testing.fake_hook import FakeHook
from tests.hooks.conftest import PATIENCE_S, open_node, until

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
        for _ in range(100):
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
        first.settimeout(PATIENCE_S)
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


async def test_many_at_once(tmp_path: Path) -> None:
    async with open_node(tmp_path) as node:
        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(node.attach)
        assert len(node.engine.state.clients) == 30
        assert len({node.client(hook) for hook in node.hooks}) == 30
