"""The server of metrics, and all that a scraper can do to it."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import define, field

from gpud.telemetry import metrics_server
from gpud.telemetry.metrics_server import MOST_CONNECTIONS, MetricsServer, listen_on, open_metrics_server
from tests.telemetry.scraper import Answer, Scraper

PATIENCE_S = 60.0
LARGE = b"x" * (16 << 20)
"""More than any socket takes at once."""


@define(eq=False)
class Served:
    """`body`: what pages have; `scrapers`: are there longer than the server."""

    path: Path
    server: MetricsServer
    scrapers: ExitStack
    body: bytes = b"gpud_jobs 1\n"
    asked: list[str] = field(factory=list)

    async def page(self, accept: str) -> tuple[bytes, str]:
        self.asked.append(accept)
        if accept == "trouble":
            raise ValueError("no rows")
        await trio.lowlevel.checkpoint()
        return self.body, "text/plain"

    def connect(self) -> Scraper:
        return self.scrapers.enter_context(Scraper(self.path))

    async def answer(self, scraper: Scraper, *, has_body: bool = True) -> Answer:
        return await trio.to_thread.run_sync(lambda: scraper.answer(has_body=has_body))

    async def ask(self, method: str = "GET", path: str = "/metrics", **headers: str) -> Answer:
        scraper = self.connect()
        scraper.send(method, path, **headers)
        return await self.answer(scraper, has_body=method != "HEAD")

    async def is_closed(self, scraper: Scraper) -> bool:
        return await trio.to_thread.run_sync(scraper.is_closed)

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - what it waits for is another program's
                await trio.sleep(0.005)


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[Served]:
    """Leaving it takes no time, whatever scrapers do."""
    path = directory / "metrics.sock"
    pages: list[Served] = []
    with ExitStack() as scrapers, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(128)
        listener.setblocking(False)
        async with open_metrics_server([listener], lambda accept: pages[0].page(accept)) as server:
            one = Served(path, server, scrapers)
            pages.append(one)
            yield one
            left = trio.current_time()
        took = trio.current_time() - left
        assert server.connections == 0
        assert took < metrics_server.SILENT_S / 2


async def test_a_scrape(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        answer = await it.ask(Accept="application/openmetrics-text", Accept_Encoding="gzip")
        assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"gpud_jobs 1\n", "text/plain")
        assert it.asked == ["application/openmetrics-text"]


async def test_one_connection_for_many_but_not_for_ever(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        scraper = it.connect()
        last = False
        while not last:
            it.body = b"%d" % len(it.asked)
            scraper.send()
            answer = await it.answer(scraper)
            assert answer.body == it.body
            last = answer.headers.get("connection") == "close"
        assert await it.is_closed(scraper)
        assert len(it.asked) in (metrics_server.MOST_REQUESTS, metrics_server.MOST_REQUESTS + 1)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/metrics", 200),
        ("GET", "/metrics?x=%00", 200),
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/%2e%2e/etc/passwd", 404),
        ("DELETE", "/metrics", 405),
        ("OPTIONS", "/metrics", 405),
    ],
)
async def test_what_else_is_asked(tmp_path: Path, method: str, path: str, status: int) -> None:
    async with served(tmp_path) as it:
        answer = await it.ask(method, path)
        assert answer.status == status
        assert bool(answer.body) == (method != "HEAD")
        assert len(it.asked) == (status == 200)


async def test_an_error_of_ours_is_the_scrapers_and_nobody_elses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as it:
        assert (await it.ask(Accept="trouble")).status == 500
        assert "ValueError: no rows" in caplog.text
        assert (await it.ask()).status == 200


@pytest.mark.parametrize(
    "said",
    [
        b"\x00" * 100,
        b"GET /metrics\r\n\r\n",
        b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: a\x00b\r\n\r\n",
        "GET /métrics HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    ],
    ids=["zeros", "no version", "long", "negative", "zero in a header", "not ascii"],
)
async def test_nonsense(tmp_path: Path, said: bytes) -> None:
    async with served(tmp_path) as it:
        scraper = it.connect()
        scraper.socket.sendall(said)
        assert await it.is_closed(scraper)
        await it.until(lambda: it.server.connections == 0)
        assert (await it.ask()).status == 200


@pytest.mark.parametrize("upgrade", [False, True])
async def test_whatever_a_connection_is_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upgrade: bool) -> None:
    """One of HTTP/2 that then says nothing."""
    monkeypatch.setattr(metrics_server, "LONGEST_S", 0.3)
    async with served(tmp_path) as it:
        scraper = it.connect()
        if upgrade:
            scraper.send(Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AAMAAABkAAQAAP__")
        else:
            scraper.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        assert await it.is_closed(scraper)
        await it.until(lambda: it.server.connections == 0)


async def test_a_websocket_is_not_to_be_had(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        scraper = it.connect()
        scraper.send(
            Upgrade="websocket",
            Connection="Upgrade",
            Sec_WebSocket_Version="13",
            Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==",
        )
        assert (await it.answer(scraper)).status == 403
        assert await it.is_closed(scraper)


async def test_two_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        it.body = LARGE
        found: list[bytes] = []

        async def ask() -> None:
            found.append((await it.ask()).body)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
        assert found == [LARGE, LARGE]


async def test_who_does_not_read_is_waited_for_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "SILENT_S", 0.3)
    async with served(tmp_path) as it:
        it.body = LARGE
        deaf = it.connect()
        deaf.send()
        await it.until(lambda: bool(it.asked))
        it.body = b"small"
        assert (await it.ask(Connection="close")).body == b"small"
        await it.until(lambda: it.server.connections == 0)
        with pytest.raises(ConnectionError):
            deaf.answer()


async def test_who_does_not_read_does_not_keep_the_daemon(tmp_path: Path) -> None:
    async with served(tmp_path) as it:  # it asserts how long its end takes
        it.body = LARGE
        deaf = it.connect()
        deaf.send()
        await it.until(lambda: bool(it.asked))
        await trio.testing.wait_all_tasks_blocked()


async def test_who_says_nothing_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "SILENT_S", 0.1)
    async with served(tmp_path) as it:
        for said in (b"", b"GET /metrics HT", b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123"):
            silent = it.connect()
            silent.socket.sendall(said)
            assert await it.is_closed(silent)
        assert it.asked == []


async def test_a_body_without_end_is_not_taken(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        scraper = it.connect()
        scraper.send("POST", body=b"", Content_Length=str(1 << 40))

        def pour() -> bool:
            try:
                while True:
                    scraper.socket.sendall(b"x" * 65536)
            except OSError:
                return True

        assert await trio.to_thread.run_sync(pour)
        await it.until(lambda: it.server.connections == 0)


async def test_many_connections(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path) as it:
        there = [it.connect() for _ in range(MOST_CONNECTIONS)]
        await it.until(lambda: it.server.connections == MOST_CONNECTIONS)
        for _ in range(3):
            assert await it.is_closed(it.connect())
        assert caplog.text.count("one more is closed") == 1
        there[0].send(Connection="close")
        assert (await it.answer(there[0])).status == 200
        await it.until(lambda: it.server.connections < MOST_CONNECTIONS)
        assert (await it.ask()).status == 200


async def test_who_has_its_answer_and_goes_leaves_its_place(tmp_path: Path) -> None:
    """At once, and not when it has been silent for long: more come and go than there are places."""
    async with served(tmp_path) as it:
        with trio.fail_after(metrics_server.SILENT_S / 2):
            for _ in range(3):
                scraper = it.connect()
                scraper.send()
                assert (await it.answer(scraper)).status == 200
                scraper.socket.close()
            await it.until(lambda: it.server.connections == 0)


async def test_who_says_that_it_asks_no_more_is_answered_first(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        scraper = it.connect()
        scraper.send()
        scraper.socket.shutdown(socket.SHUT_WR)
        with trio.fail_after(metrics_server.SILENT_S / 2):
            assert (await it.answer(scraper)).body == it.body
            await it.until(lambda: it.server.connections == 0)


async def test_who_asks_without_a_pause_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them a connection and a request."""
    monkeypatch.setattr(metrics_server, "AT_ONCE", 20)
    monkeypatch.setattr(metrics_server, "PER_S", 100.0)
    async with served(tmp_path) as it:
        began = trio.current_time()
        for _ in range(35):
            await it.ask(Connection="close")
        assert trio.current_time() - began >= (2 * 35 - 20) / 100 - 0.02


async def test_loopback() -> None:
    async def page(accept: str) -> tuple[bytes, str]:
        return b"by tcp", "text/plain"

    for host in ("127.0.0.1", "::1"):
        try:
            listener = listen_on(host, 0)
        except OSError:
            assert host == "::1", "every machine has 127.0.0.1"
            continue
        with listener:
            async with open_metrics_server([listener], page):
                with Scraper(listener.getsockname()[:2]) as scraper:
                    scraper.send()
                    answer = await trio.to_thread.run_sync(scraper.answer)
        assert answer.body == b"by tcp"


def test_a_port_that_is_taken() -> None:
    with listen_on("127.0.0.1", 0) as listener, pytest.raises(OSError, match="in use"):
        listen_on("127.0.0.1", listener.getsockname()[1])
