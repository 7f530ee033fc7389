"""A scraper by hand: what it sends and takes is up to the test."""

import socket
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Scraper:
    """A connection. `where`: a Unix socket, or an address."""

    def __init__(self, where: Path | tuple[str, int], timeout_s: float = 30.0) -> None:
        if isinstance(where, Path):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout_s)
            self.socket.connect(str(where))
        else:
            self.socket = socket.create_connection(where, timeout_s)
        self._got = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, method: str = "GET", path: str = "/metrics", body: bytes = b"", **headers: str) -> None:
        """A request; `headers` with `_` for `-`."""
        lines = [f"{method} {path} HTTP/1.1", "Host: node"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def answer(self, *, has_body: bool = True) -> Answer:
        """The next one, whole."""
        while b"\r\n\r\n" not in self._got:
            self._more()
        head, _, rest = self._got.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size = int(headers.get("content-length", "0")) if has_body else 0
        body = bytearray(rest)
        while len(body) < size:
            self._got = b""
            self._more()
            body += self._got
        self._got = bytes(body[size:])
        return Answer(int(first.split()[1]), headers, bytes(body[:size]))

    def is_closed(self) -> bool:
        """By the other end; waits for it."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def _more(self) -> None:
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("closed by the other end")
        self._got += more


def scrape(where: Path | tuple[str, int], accept: str = "text/plain") -> str:
    """The metrics now."""
    with Scraper(where) as scraper:
        scraper.send(Accept=accept, Connection="close")
        answer = scraper.answer()
    assert answer.status == 200
    return answer.body.decode()
