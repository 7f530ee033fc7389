"""The server of control.sock: who asks is checked, frames are bounded, and nobody can make anybody else wait."""

import contextlib
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from gpud.control import wire
from gpud.model.errors import ProtocolError, VersionError

log = logging.getLogger("gpud.control")

FRAME_S = 5.0
"""A frame that has begun must end within this, a reply must be taken within this."""
IDLE_S = 300.0
"""Without a request for this long the connection is closed."""
MOST_CONNECTIONS = 128

Answerer = Callable[[wire.Ask], Awaitable[wire.Answer]]


class Control:
    """Made by `open_control`."""

    def __init__(self, answer: Answerer, stop: Callable[[], None], frame_s: float) -> None:
        self._answer = answer
        self._stop = stop
        self._frame_s = frame_s
        self._connections = 0

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
            if self._connections >= MOST_CONNECTIONS:
                log.warning("more than %d control connections: one more is closed", MOST_CONNECTIONS)
                raw.close()
                continue
            self._connections += 1
            nursery.start_soon(self._serve, raw)

    async def _serve(self, raw: socket.socket) -> None:
        try:
            async with trio.SocketStream(trio.socket.from_stdlib_socket(raw)) as stream:
                if not await self._allowed(raw, stream):
                    return
                while (body := await self._frame(stream)) is not None:
                    reply = await self._reply(body)
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
        except ProtocolError as error:
            log.warning("a control connection ends: %s", error)
        except Exception:
            log.exception("a control connection ends by an error in the daemon")
        finally:
            self._connections -= 1

    async def _allowed(self, raw: socket.socket, stream: trio.SocketStream) -> bool:
        pid, uid, _ = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid in (os.geteuid(), 0):
            return True
        log.warning("user %d (pid %d) may not ask this daemon", uid, pid)
        text = f"this daemon answers user {os.geteuid()} and root, not user {uid}"
        answer = wire.ErrorAnswer(code="refused", text=text)
        with trio.fail_after(self._frame_s):
            await stream.send_all(wire.encode(wire.Reply(version=wire.VERSION, id=0, answer=answer)))
        return False

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

    async def _reply(self, body: bytes) -> wire.Reply:
        answer: wire.Answer
        try:
            request = wire.decode_request(body)
            answer = await self._answer(request.ask)
        except VersionError as error:
            answer = wire.ErrorAnswer(code="version", text=str(error))
        except ProtocolError as error:
            log.warning("a request cannot be answered: %s", error)
            answer = wire.ErrorAnswer(code="protocol", text=str(error))
        except Exception as error:
            log.exception("an error in the daemon: a request is not answered")
            answer = wire.ErrorAnswer(
                code="internal", text=f"an error in the daemon ({type(error).__name__}); look at its log"
            )
        return wire.Reply(version=wire.VERSION, id=wire.request_id(body), answer=answer)


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
    listener: socket.socket, answer: Answerer, stop: Callable[[], None], *, frame_s: float = FRAME_S
) -> AsyncIterator[Control]:
    """Serves a listening socket, which stays the caller's, until left. `stop` is called after a StopAnswer has been
    sent, or could not be."""
    async with trio.open_nursery() as nursery:
        control = Control(answer, stop, frame_s)
        nursery.start_soon(control.accept, listener, nursery)
        with contextlib.ExitStack() as stack:
            stack.callback(nursery.cancel_scope.cancel)
            yield control
