"""A control socket that answers from a script: what is behind a screen in tests and measurements."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from gpud.control import wire
from gpud.model.errors import GpudError
from gpud.model.live_views import Feed

Answers = Callable[[wire.Ask], wire.Answer | None]


class ScriptedDaemon:
    """Listens on control.sock of a runtime directory while the context lasts; a thread for each connection."""

    def __init__(
        self, runtime_dir: Path, feed: Callable[[], Iterable[Feed]], answers: Answers | None = None, pace_s: float = 0.0
    ) -> None:
        """`feed` makes the steps of one subscription; between two of them `pace_s` pass. After the last one it is
        silent until the context ends. What `answers` has no answer for is refused."""
        self.path = runtime_dir / "control.sock"
        self.asked: list[wire.Ask] = []
        """All requests, in the order in which they came."""
        self._feed = feed
        self._answers = answers
        self._pace_s = pace_s
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []

    def __enter__(self) -> "ScriptedDaemon":
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        """All connections are closed, as when a daemon dies."""
        self._ended.set()
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
        for one in (self._listener, *self._open):
            one.close()
        self.path.unlink(missing_ok=True)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, GpudError):
            while True:
                request = _read(connection)
                if request is None:
                    return
                self.asked.append(request.ask)
                if isinstance(request.ask, wire.AskFeed):
                    self._stream(connection, request.id)
                    return
                answer = self._answers(request.ask) if self._answers is not None else None
                if answer is None:
                    answer = wire.ErrorAnswer(code="refused", text="this daemon is a script")
                connection.sendall(wire.encode(wire.Reply(version=wire.VERSION, id=request.id, answer=answer)))

    def _stream(self, connection: socket.socket, number: int) -> None:
        for feed in self._feed():
            reply = wire.Reply(version=wire.VERSION, id=number, answer=wire.FeedAnswer(feed=feed), more=True)
            connection.sendall(wire.encode(reply))
            if self._ended.wait(self._pace_s):
                return
        self._ended.wait()


def _read(connection: socket.socket) -> wire.Request | None:
    prefix = connection.recv(wire.LENGTH.size, socket.MSG_WAITALL)
    if len(prefix) < wire.LENGTH.size:
        return None
    return wire.decode_request(connection.recv(wire.body_size(prefix), socket.MSG_WAITALL))
