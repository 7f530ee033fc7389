import os
import socket
from itertools import pairwise

import pytest
import trio
import trio.testing

from gpud.hooks import wire
from gpud.hooks.connection import Connection
from gpud.model.ids import ClientId, Generation, SessionId
from gpud.model.knobs import PeerEntry
from tests.hooks.test_wire_lock import ready


class Pair:
    """The daemon's end of a connection, and the other end as a plain socket whose daemon side is full."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pages: dict[int, int] = {}
        self.connection = Connection(ours, SessionId(1), lambda client: self.pages.get(client))
        self.fillers = 0
        try:
            while True:
                ours.send(b"filler", socket.MSG_DONTWAIT)
                self.fillers += 1
        except BlockingIOError:
            pass
        self.theirs.settimeout(60)

    def close(self) -> None:
        self.connection.close()
        self.theirs.close()

    def read(self) -> tuple[wire.Message, int]:
        """The next message that is no filler, and how many descriptors came with it."""
        while True:
            packet, fds, _, _ = socket.recv_fds(self.theirs, 20000, 16)
            for fd in fds:
                os.close(fd)
            if packet != b"filler":
                return wire.decode(packet), len(fds)


def entry(present: int, client: int) -> PeerEntry:
    return PeerEntry(present=present, client=ClientId(client), generation=Generation(100 + client))


async def test_what_is_kept_goes_out_in_order_with_the_newest_peers_first() -> None:
    before = len(os.listdir("/proc/self/fd"))
    pair = Pair()
    pair.pages = {1: 0, 2: 0}
    connection = pair.connection
    connection.send(wire.DeviceSlots((0,)))
    connection.send_peers(1, (entry(0, 1),))
    connection.send_peers(2, (entry(0, 1), entry(1, 2)))
    connection.send(wire.Detach("bye"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.write)
        (peers, descriptors), (slots, none), (detach, _) = [await trio.to_thread.run_sync(pair.read) for _ in range(3)]
        assert isinstance(peers, wire.Peers)
        assert (peers.serial, peers.descriptors, descriptors) == (2, 2, 2)
        assert (slots, none, detach) == (wire.DeviceSlots((0,)), 0, wire.Detach("bye"))
        # What it has mapped by now comes without a descriptor; who is gone, not at all.
        pair.pages = {1: 0}
        connection.send_peers(3, (entry(0, 1), entry(1, 3), entry(2, 1)))
        peers, descriptors = await trio.to_thread.run_sync(pair.read)
        assert isinstance(peers, wire.Peers)
        assert ([page.present for page in peers.peers], descriptors) == ([2, 0], 1)
        nursery.cancel_scope.cancel()
    pair.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the worker thread's, if it is new


async def test_what_cannot_be_kept_ends_the_connection_and_leaves_nothing() -> None:
    pair = Pair()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        pair.connection.send(wire.Attached(1))  # news that may be lost
    assert pair.connection.end_reason is None
    pair.connection.send(wire.Welcome(1, 1, 1, 1, 1, 1, 1), (0, 0, 0))
    assert pair.connection.end_reason is not None
    assert "does not read" in pair.connection.end_reason
    assert len(os.listdir("/proc/self/fd")) == before
    pair.close()


async def test_descriptors_of_what_is_kept_are_ours() -> None:
    """The page they name may be dropped before they are sent."""
    pair = Pair()
    page = os.memfd_create("page")
    pair.connection.send(wire.Welcome(1, 1, 1, 1, 1, 1, 1), (page,))
    os.close(page)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.connection.write)
        message, descriptors = await trio.to_thread.run_sync(pair.read)
        assert isinstance(message, wire.Welcome)
        assert descriptors == 1
        nursery.cancel_scope.cancel()
    pair.close()


async def test_what_does_not_fit_into_a_message_ends_the_connection() -> None:
    pair = Pair()
    pair.connection.send(wire.Job(1, (("A", "x" * 20000),)))
    assert pair.connection.end_reason is not None
    assert "16384" in pair.connection.end_reason
    pair.close()


@pytest.mark.parametrize("packets", [1, 64])
async def test_a_few_packets_are_read_at_once(packets: int, autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = Connection(ours, SessionId(1), lambda _: None)
    connection.protocol.receive(wire.ClientSession(wire.ROLE_HOOK).hello())
    connection.protocol.send(wire.Ping(1))
    connection.protocol.receive(wire.encode(wire.Pong(1)))
    connection.protocol.send(wire.Welcome(1, 1, 1, 1, 1, 1, 1))
    theirs.send(wire.encode(wire.Mapped()))
    for _ in range(packets - 1):
        theirs.send(wire.encode(wire.WentActive(0, 1, 1)))
    began = trio.current_time()
    for _ in range(packets):
        assert await connection.receive() is not None
    assert trio.current_time() == began
    if packets > 1:
        theirs.send(wire.encode(wire.WentActive(0, 1, 1)))
        await connection.receive()
        assert trio.current_time() > began
    connection.close()
    theirs.close()


async def test_who_says_too_much_is_slowed_down_and_never_stands_for_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    autojump_clock.autojump_threshold = 0.01  # what is in the socket is seen before time moves on
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = Connection(ours, SessionId(1), lambda _: None)
    connection.protocol = ready()
    packet = wire.encode(wire.WentActive(0, 1, 1))
    times = []
    with theirs:
        for _ in range(1064):
            theirs.send(packet)
            assert await connection.receive() is not None
            times.append(trio.current_time())
        gaps = [after - before for before, after in pairwise(times)]
        assert max(gaps[:63]) == 0, "so many at once"
        assert times[-1] - times[0] == pytest.approx(1000 / 1280, abs=0.01), "and so many a second"
        assert max(gaps) < 0.01, "shorter than any turn"
        await trio.sleep(1)
        last = trio.current_time()
        for _ in range(64):
            theirs.send(packet)
            await connection.receive()
        assert trio.current_time() == last, "who has been quiet may say as much again"
    connection.close()
