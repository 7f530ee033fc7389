"""`/metrics` over HTTP, by hypercorn: on a Unix socket, and on loopback where the configuration says so.

Whoever scrapes can do nothing but read: connections are few and bounded, one that sends or takes nothing is ended, and
what is asked too often is answered with what was made a moment ago (metrics.py).
"""

import errno
import logging
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ConnectionState, Scope

log = logging.getLogger("gpud.metrics")

PATH = "/metrics"
MOST_CONNECTIONS = 32
SILENT_S = 5.0
"""Who sends no request, or takes nothing of the answer, for so long is closed."""
MOST_REQUESTS, LONGEST_S = 10, 60.0
"""Of one connection, which then ends: so many are answered within that time at the pace of SILENT_S."""
AT_ONCE, PER_S = 20, 20.0
"""Connections and requests, of all scrapers together: so many are taken at once, then so many a second."""
MOST_PIECES = 8
"""Of a body that nobody wants."""
_TEXT = "text/plain; charset=utf-8"

Page = Callable[[str], Awaitable[tuple[bytes, str]]]
"""What the ACCEPT header says → body and content type."""


class _Stream:
    """A connection as hypercorn's server wants it. Nobody is waited for who does not read, and all end at once."""

    def __init__(self, connection: trio.socket.SocketType) -> None:
        self._stream = trio.SocketStream(connection)
        self.socket = connection
        self.life = trio.CancelScope()
        """Of all that is done for it."""
        self._asks = self._ended = False

    async def receive_some(self, most: int) -> bytes:
        content = bytes(await self._stream.receive_some(most))
        self._asks, self._ended = bool(content) or self._asks, not content
        if self._ended and not self._asks:  # it is gone; the server would keep its place for SILENT_S
            self.hang_up()
        return content

    def answered(self) -> None:
        """What it has asked; who only waited for that is gone."""
        self._asks = False
        if self._ended:
            self.hang_up()

    async def send_all(self, content: bytes) -> None:
        """Raises BrokenResourceError. (The server shields it: without a limit of its own it would keep the daemon from
        ending.)"""
        left = memoryview(content)
        while left:
            sent = 0
            with trio.move_on_after(SILENT_S):
                try:
                    sent = await self.socket.send(left[:65536])
                except OSError as error:
                    raise trio.BrokenResourceError from error
            if not sent:
                self.hang_up()
                raise trio.BrokenResourceError("it takes nothing")
            left = left[sent:]

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        self.hang_up()
        await trio.lowlevel.checkpoint()

    def hang_up(self) -> None:
        """Whoever waits for it is told that it is gone. (The server would go on for a while, at nothing.)"""
        self.socket.close()
        self.life.cancel()


class _Pace:
    """HTTP costs more than what it carries: whoever asks without a pause waits, and costs some hundredths of a core."""

    def __init__(self) -> None:
        self._at = -math.inf

    async def wait(self) -> None:
        now = trio.current_time()
        self._at = max(self._at, now - AT_ONCE / PER_S) + 1 / PER_S
        await trio.sleep_until(self._at)


class _App:
    """ASGI, of one connection. Answers GET and HEAD of one path."""

    def __init__(self, page: Page, pace: _Pace, stream: _Stream) -> None:
        self._page, self._pace, self._stream = page, pace, stream

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
            return
        if scope["type"] != "http":
            return
        if not await _is_asked(receive):
            self._stream.hang_up()
            return
        await self._pace.wait()
        status, body, kind, more = 200, b"", _TEXT, list[tuple[bytes, bytes]]()
        if scope["path"] != PATH:
            status, body = 404, f"gpud has its metrics at {PATH}\n".encode()
        elif scope["method"] not in ("GET", "HEAD"):
            status, body, more = 405, b"metrics are only read\n", [(b"allow", b"GET, HEAD")]
        else:
            try:
                accept = b",".join(value for name, value in scope["headers"] if name == b"accept")
                body, kind = await self._page(accept.decode("latin-1"))
            except Exception:
                log.exception("an error in gpud: a scrape is not answered")
                status, body = 500, b"an error in the daemon; look at its log\n"
        size = str(len(body)).encode()
        headers = [(b"content-type", kind.encode()), (b"content-length", size), *more]
        await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": body, "more_body": False})
        self._stream.answered()


async def _is_asked(receive: ASGIReceiveCallable) -> bool:
    """The request is whole; False: its body does not end. (What is left of it unread would be waited for, for ever.)"""
    with trio.move_on_after(SILENT_S):
        for _ in range(MOST_PIECES):
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                return True
    return False


class MetricsServer:
    """Made by `open_metrics_server`."""

    def __init__(self, page: Page) -> None:
        self._page, self._pace = page, _Pace()
        self._config = _config()
        self._streams: set[_Stream] = set()
        self._told = False

    @property
    def connections(self) -> int:
        return len(self._streams)

    async def accept(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        """Takes connections until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(listener)
            await self._pace.wait()
            try:
                raw, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    log.warning("cannot take a scrape: %s", error.strerror)
                    await trio.sleep(1.0)
                continue
            if len(self._streams) >= MOST_CONNECTIONS:
                if not self._told:
                    log.warning("%d connections ask for metrics: one more is closed", MOST_CONNECTIONS)
                self._told = True
                raw.close()
                continue
            raw.setblocking(False)
            nursery.start_soon(self._serve, _Stream(trio.socket.from_stdlib_socket(raw)))

    async def _serve(self, stream: _Stream) -> None:
        self._streams.add(stream)
        try:
            app = ASGIWrapper(_App(self._page, self._pace, stream))
            stream.life.deadline = trio.current_time() + LONGEST_S
            with stream.life:
                await TCPServer(app, self._config, WorkerContext(None), ConnectionState({}), stream)  # type: ignore[arg-type]
        except Exception:
            log.debug("a scraper's connection ends", exc_info=True)  # what it sends can be anything
        finally:
            self._streams.discard(stream)
            self._told = self._told and bool(self._streams)
            stream.hang_up()

    def hang_up(self) -> None:
        """On all."""
        for stream in list(self._streams):
            stream.hang_up()


def _config() -> Config:
    config = Config()
    config.errorlog = config.accesslog = None
    config.keep_alive_timeout = SILENT_S
    config.keep_alive_max_requests = MOST_REQUESTS
    config.include_server_header = False
    config.h11_max_incomplete_size = 8 * 1024
    config.max_app_queue_size = MOST_PIECES + 2
    config.h2_max_concurrent_streams = 4
    return config


@asynccontextmanager
async def open_metrics_server(listeners: Sequence[socket.socket], page: Page) -> AsyncIterator[MetricsServer]:
    """Serves listening sockets, which stay the caller's, until left; then all connections end at once."""
    server = MetricsServer(page)
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(server.accept, listener, nursery)
        try:
            yield server
        finally:
            server.hang_up()
            nursery.cancel_scope.cancel()


def listen_on(host: str, port: int) -> socket.socket:
    """A listening TCP socket. Raises OSError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
