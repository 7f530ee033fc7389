"""The server of control.sock: who asks is checked, frames are bounded, and nobody can make anybody else wait."""

import contextlib
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio
from attrs import frozen

from gpud.control import wire
from gpud.control.authority import Peer
from gpud.control.pace import Pace
from gpud.control.peer import peer_of, privileged, uid_of
from gpud.model.errors import ProtocolError, VersionError
from gpud.model.text import one_line

log = logging.getLogger("gpud.control")

FRAME_S = 5.0
"""A frame that has begun must end within this, a reply must be taken within this."""
IDLE_S = 300.0
"""Without a request for this long the connection is closed."""
MOST_CONNECTIONS = 128
MOST_OF_OTHERS = 96
"""Of these, of all users together that are neither root nor the daemon's own …"""
MOST_OF_ONE = 32
"""… and of each of them."""


@frozen(kw_only=True)
class Streamed:
    """An answer in many frames."""

    send: Callable[[int, trio.SocketStream], Awaitable[None]]
    """Writes them, with the number of the request. Raises as `send_all` does."""
    ends: bool
    """The connection ends with it."""


LONGEST_TEXT = 1500
"""Of an error, characters."""

Answerer = Callable[[Peer, wire.Ask], Awaitable[wire.Answer | Streamed]]
Identify = Callable[[socket.socket], Peer]


class Control:
    """Made by `open_control`."""

    def __init__(self, answer: Answerer, stop: Callable[[], None], identify: Identify, frame_s: float) -> None:
        self._answer = answer
        self._stop = stop
        self._identify = identify
        self._frame_s = frame_s
        self._limiter = trio.CapacityLimiter(8)
        self._connections: Counter[int] = Counter()
        """User → how many."""
        self._warnings = Pace(at_once=20, per_s=0.2)

    async def accept(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        """Takes connections until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                raw, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                log.warning("cannot take a control connection: %s; raise the limit of open files", error.strerror)
                await trio.sleep(0.05)
                continue
            uid = uid_of(raw)
            if self._too_many(uid):
                self._warn(uid, "too many control connections: one more of user %d is closed", uid)
                raw.close()
                continue
            self._connections[uid] += 1
            nursery.start_soon(self._serve, raw, uid)

    def _too_many(self, uid: int) -> bool:
        """Others can never take the daemon away from who operates it, nor from each other."""
        if self._connections.total() >= MOST_CONNECTIONS:
            return True
        others = sum(count for user, count in self._connections.items() if not privileged(user))
        return not privileged(uid) and (self._connections[uid] >= MOST_OF_ONE or others >= MOST_OF_OTHERS)

    async def _serve(self, raw: socket.socket, uid: int) -> None:
        try:
            async with trio.SocketStream(trio.socket.from_stdlib_socket(raw)) as stream:
                peer = await self._who(raw)
                if peer is None:
                    await self._say_no(
                        stream, "refused", "the user database did not say in time who you are; try again"
                    )
                    return
                while (body := await self._next(stream, uid)) is not None:
                    reply = await self._reply(peer, body)
                    if isinstance(reply, Streamed):
                        await reply.send(wire.request_id(body), stream)
                        if reply.ends:
                            return
                        continue
                    try:
                        with trio.fail_after(self._frame_s):
                            await stream.send_all(_encode(reply))
                    finally:  # the gates are open: it must end, whether or not somebody still waits for the answer
                        if isinstance(reply.answer, wire.StopAnswer):
                            self._stop()
                    if isinstance(reply.answer, wire.ErrorAnswer) and reply.answer.code in ("version", "protocol"):
                        return
        except (trio.BrokenResourceError, trio.TooSlowError, trio.ClosedResourceError):
            pass  # it went away, or does not read
        except Exception:
            log.exception("a control connection ends by an error in the daemon")
        finally:
            self._connections[uid] -= 1
            if not self._connections[uid]:
                del self._connections[uid]

    def _warn(self, uid: int, text: str, *arguments: object) -> None:
        """Nobody fills the log with what is wrong with his own requests."""
        if self._warnings.may(uid, trio.current_time()):
            log.warning(text, *arguments)

    async def _who(self, raw: socket.socket) -> Peer | None:
        """In a thread with a deadline: the user database can hang."""
        with trio.move_on_after(self._frame_s):
            try:
                return await trio.to_thread.run_sync(self._identify, raw, abandon_on_cancel=True, limiter=self._limiter)
            except OSError as error:
                log.warning("who asks cannot be known: %s", error.strerror)
        return None

    async def _next(self, stream: trio.SocketStream, uid: int) -> bytes | None:
        """The next body; None when there is none, or one that cannot be had: then the other end knows why."""
        try:
            return await self._frame(stream)
        except ProtocolError as error:
            self._warn(uid, "a control connection of user %d ends: %s", uid, error)
            await self._say_no(stream, "protocol", str(error))
            return None

    async def _say_no(self, stream: trio.SocketStream, code: str, text: str) -> None:
        answer = wire.ErrorAnswer(code=code, text=text)
        with trio.fail_after(self._frame_s):
            await stream.send_all(wire.encode(wire.Reply(version=wire.VERSION, id=0, answer=answer)))

    async def _frame(self, stream: trio.SocketStream) -> bytes | None:
        """The next body; None when the other end has closed, or has been idle for too long."""
        first = b""
        with trio.move_on_after(IDLE_S):
            first = await stream.receive_some(wire.LENGTH.size)
        if not first:
            return None
        with trio.fail_after(self._frame_s):
            prefix = first + await _exactly(stream, wire.LENGTH.size - len(first))
            return await _exactly(stream, wire.body_size(prefix))

    async def _reply(self, peer: Peer, body: bytes) -> wire.Reply | Streamed:
        answer: wire.Answer | Streamed
        try:
            request = wire.decode_request(body)
            answer = await self._answer(peer, request.ask)
        except VersionError as error:
            answer = wire.ErrorAnswer(code="version", text=str(error))
        except ProtocolError as error:
            self._warn(peer.uid, "a request of user %d cannot be answered: %s", peer.uid, error)
            answer = wire.ErrorAnswer(code="protocol", text=str(error))
        except Exception as error:
            log.exception("an error in the daemon: a request is not answered")
            answer = wire.ErrorAnswer(
                code="internal", text=f"an error in the daemon ({type(error).__name__}); look at its log"
            )
        if isinstance(answer, Streamed):
            return answer
        if isinstance(answer, wire.ErrorAnswer):
            answer = _readable(answer)
        return wire.Reply(version=wire.VERSION, id=wire.request_id(body), answer=answer)


def _readable(answer: wire.ErrorAnswer) -> wire.ErrorAnswer:
    """A sentence may repeat what was asked, and that may be anything."""
    text = one_line(answer.text)
    text = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
    return answer if text == answer.text else wire.ErrorAnswer(code=answer.code, text=text)


def _encode(reply: wire.Reply) -> bytes:
    try:
        return wire.encode(reply)
    except ProtocolError as error:
        answer = wire.ErrorAnswer(code="busy", text=f"the answer is too long: {error}")
        return wire.encode(wire.Reply(version=wire.VERSION, id=reply.id, answer=answer))


async def _exactly(stream: trio.SocketStream, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = await stream.receive_some(size - len(got))
        if not more:
            raise ProtocolError(f"a frame ends after {len(got)} of {size} bytes")
        got += more
    return bytes(got)


@asynccontextmanager
async def open_control(
    listener: socket.socket,
    answer: Answerer,
    stop: Callable[[], None],
    *,
    identify: Identify = peer_of,
    frame_s: float = FRAME_S,
) -> AsyncIterator[Control]:
    """Serves a listening socket, which stays the caller's, until left. `stop` is called after a StopAnswer has been
    sent, or could not be."""
    async with trio.open_nursery() as nursery:
        control = Control(answer, stop, identify, frame_s)
        nursery.start_soon(control.accept, listener, nursery)
        with contextlib.ExitStack() as stack:
            stack.callback(nursery.cancel_scope.cancel)
            yield control
