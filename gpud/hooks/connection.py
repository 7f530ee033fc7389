"""One connection of hook.sock: packets with descriptors in, packets with descriptors out, nothing kept for long and
nothing lost.

Knows nothing of what the messages mean beyond `wire.ServerSession`.
"""

import array
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable

import trio

from gpud.hooks import layout, wire
from gpud.hooks.identity import Peer
from gpud.model.errors import ProtocolError
from gpud.model.ids import ClientId, JobId, SessionId
from gpud.model.knobs import PeerEntry

_KEPT_PACKETS = 64
_BURST, _EVERY_S, _REST_S = 64, 1 / 1280, 8 / 1280
"""Who sends more than `_BURST` packets at once, and one in `_EVERY_S` on the average, is read again `_REST_S` later:
its own buffer fills, nobody else waits. Short, since turns of the device lock are told by such packets."""


PageOf = Callable[[ClientId], int | None]
"""The descriptor of a client's presence page; None once it is gone."""


class Connection:
    """The daemon's end. `send` never waits; `receive` does; `close` closes all that is owned here."""

    def __init__(self, raw: socket.socket, number: SessionId, page_of: PageOf) -> None:
        raw.setblocking(False)
        self.raw = raw
        self._page_of = page_of
        self.id = number
        self.protocol = wire.ServerSession()
        self.peer: Peer | None = None
        self.client: ClientId | None = None
        self.job: JobId | None = None
        self.pages: tuple[int, int] | None = None
        """Descriptors that came with HELLO."""
        self.known: set[tuple[int, int]] = set()
        """(present, generation) that the client has mapped by an earlier daemon's hand."""
        self.scope = trio.CancelScope()
        self.patience = trio.CancelScope()
        """Of the wait for its next message, while the handshake lasts."""
        self.queued = False
        """It waits in line to be let in: it is not the one who is slow."""
        self.end_reason: str | None = None
        self.finishing = False
        """Ends once all is sent."""
        self._out: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._peers: tuple[int, tuple[PeerEntry, ...]] | None = None
        self._delivered: dict[int, int] = {}
        self._work = trio.Event()
        self._allowance, self._counted_at = float(_BURST), trio.current_time()

    def end(self, reason: str) -> None:
        """Ends the conversation; the first reason counts."""
        self.end_reason = self.end_reason or reason
        self.scope.cancel()

    def close(self) -> None:
        hang_up(self.raw)
        for _, descriptors in self._out:
            _close_all(descriptors)
        self._out.clear()
        if self.pages is not None:
            _close_all(self.pages)
            self.pages = None
        if self.peer is not None:
            os.close(self.peer.pidfd)
            self.peer = None

    async def receive(self) -> wire.Message | None:
        """The next message, None at the end. Raises ProtocolError. Descriptors it may carry are in `pages` then; all
        others are closed."""
        await self._rest()
        while True:
            await trio.lowlevel.wait_readable(self.raw)
            try:
                packet, descriptors, truncated = _receive(self.raw)
                break
            except BlockingIOError:
                continue
            except ConnectionError:
                return None
        if not packet:
            _close_all(descriptors)
            return None
        try:
            if truncated & socket.MSG_TRUNC:
                raise ProtocolError(f"a packet is longer than {wire.MAX_BYTES} bytes")
            if truncated & socket.MSG_CTRUNC:
                raise ProtocolError(
                    f"descriptors were lost: more than {wire.MAX_FDS} came, or this daemon has too many files open"
                )
            message = self.protocol.receive(packet, len(descriptors))
        except BaseException:
            _close_all(descriptors)
            raise
        if len(descriptors) == 2:
            self.pages = (descriptors[0], descriptors[1])
        return message

    def send(self, message: wire.Message, descriptors: tuple[int, ...] = ()) -> None:
        """Sends now or keeps it (with copies of the descriptors). Too much kept, or no descriptor to be had, ends the
        connection."""
        try:
            packet = self.protocol.send(message)
        except ProtocolError as error:
            self.end(f"the daemon could not say what it had to: {error}")
            return
        if not self._out and self._peers is None and self._try(packet, descriptors):
            return
        if len(self._out) >= _KEPT_PACKETS:
            if not isinstance(message, wire.Attached):
                self.end(f"it does not read: {_KEPT_PACKETS} messages wait for it")
            return
        copies: list[int] = []
        try:
            for fd in descriptors:
                copies.append(os.dup(fd))
        except OSError as error:
            _close_all(tuple(copies))
            self.end(f"the daemon has no descriptor left for it: {error.strerror}")
            return
        self._out.append((packet, tuple(copies)))
        self._work.set()

    def send_peers(self, serial: int, peers: tuple[PeerEntry, ...]) -> None:
        """The complete set, ahead of all that is kept; a newer one replaces one that could not be sent yet."""
        self._peers = (serial, peers)
        if not self._flush():
            self._work.set()

    async def write(self) -> None:
        """Sends what was kept, until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._out or self._peers is not None:
                if not self._flush():
                    await trio.lowlevel.wait_writable(self.raw)
            if self.finishing:
                self.end("refused")

    def finish(self) -> None:
        """Ends once all is sent."""
        self.finishing = True
        self._work.set()

    def _flush(self) -> bool:
        """Sends one message of those kept; False when the buffer is full. Peers first: who hears its slots may launch,
        and must know by then whom to look at."""
        if self._peers is not None:
            message, descriptors, delivered = self._build_peers(*self._peers)
            if not self._try(self.protocol.send(message), descriptors):
                return False
            self._peers, self._delivered = None, delivered
            return True
        packet, descriptors = self._out[0]
        if not self._try(packet, descriptors):
            return False
        _close_all(self._out.popleft()[1])
        return True

    def _build_peers(
        self, serial: int, peers: tuple[PeerEntry, ...]
    ) -> tuple[wire.Peers, tuple[int, ...], dict[int, int]]:
        """New entries first, with descriptors; then those that are mapped already. One whose client is gone by now is
        left out: a newer set is on its way."""
        fresh: list[tuple[wire.PeerPage, int]] = []
        mapped: list[wire.PeerPage] = []
        for entry in peers:
            page = wire.PeerPage(entry.present, entry.client, entry.generation, layout.PRESENCE_BYTES)
            descriptor = self._page_of(entry.client)
            if self._delivered.get(entry.present) == entry.generation:
                mapped.append(page)
            elif descriptor is not None:
                fresh.append((page, descriptor))
            elif (entry.present, entry.generation) in self.known:
                mapped.append(page)
        message = wire.Peers(serial, len(fresh), (*(page for page, _ in fresh), *mapped))
        delivered = {page.present: page.generation for page in message.peers}
        return message, tuple(descriptor for _, descriptor in fresh), delivered

    def _try(self, packet: bytes, descriptors: tuple[int, ...]) -> bool:
        """Sends without waiting; False when the buffer is full. A broken connection counts as sent: its reader ends
        it."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        try:
            self.raw.sendmsg([packet], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        except OSError as error:
            self.end(f"it cannot be sent to: {error.strerror}")
        return True

    async def _rest(self) -> None:
        now = trio.current_time()
        self._allowance = min(self._allowance + (now - self._counted_at) / _EVERY_S, _BURST) - 1
        self._counted_at = now
        if self._allowance < 0:
            await trio.sleep(_REST_S)


def hang_up(raw: socket.socket) -> None:
    """Closes so that the other end can still read what was said last: with packets of its own left unread here, it
    would get ECONNRESET instead."""
    with raw, contextlib.suppress(OSError):
        raw.setblocking(False)
        raw.shutdown(socket.SHUT_RD)  # whatever it sends from now on, it hears that nobody is there
        while raw.recv(1):
            pass


def _receive(raw: socket.socket) -> tuple[bytes, tuple[int, ...], int]:
    room = socket.CMSG_SPACE(4 * wire.MAX_FDS)
    packet, rights, flags, _ = raw.recvmsg(wire.MAX_BYTES, room, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % 4])
    return packet, tuple(descriptors), flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)


def _close_all(descriptors: tuple[int, ...]) -> None:
    for fd in descriptors:
        os.close(fd)
