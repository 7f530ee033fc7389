import contextlib
import grp
import os
import pwd
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from gpud.config import Config, load_config
from gpud.control import server, wire
from gpud.control.authority import Peer
from gpud.control.client import Client
from gpud.control.peer import peer_of
from gpud.control.server import Identify, open_control
from gpud.hooks.sessions import listen
from gpud.model.errors import GpudError, NoDaemon, ProtocolError, Refused, SetupError, UsageError, VersionError
from gpud.model.views import UnmanagedView

V = wire.VERSION


def config_in(directory: Path) -> Config:
    directory.chmod(0o700)
    return load_config({"GPUD_RUNTIME_DIR": str(directory)})


class Daemon:
    """What the server asks."""

    def __init__(self) -> None:
        self.answer: wire.Answer = wire.PsAnswer(jobs=[])
        self.fail: Exception | None = None
        self.stopped = trio.Event()
        self.peers: list[Peer] = []

    async def ask(self, peer: Peer, ask: wire.Ask) -> wire.Answer:
        self.peers.append(peer)
        if self.fail:
            raise self.fail
        return wire.StopAnswer(opened=3) if isinstance(ask, wire.AskStop) else self.answer


@asynccontextmanager
async def serving(
    directory: Path, frame_s: float = 60.0, identify: Identify = peer_of
) -> AsyncIterator[tuple[Config, Daemon]]:
    config, daemon = config_in(directory), Daemon()
    await trio.to_thread.run_sync(lambda: None)
    before = len(os.listdir("/proc/self/fd"))
    with listen(config.control_socket, socket.SOCK_STREAM) as listener:
        async with open_control(listener, daemon.ask, daemon.stopped.set, identify=identify, frame_s=frame_s):
            yield config, daemon
    assert len(os.listdir("/proc/self/fd")) == before


async def in_thread(work: Callable[[], object]) -> object:
    return await trio.to_thread.run_sync(work)


def ask_ps(config: Config, timeout: float = 60.0) -> object:
    with Client(config, timeout) as client:
        return client.ps()


def ask_unmanaged(config: Config) -> object:
    with Client(config, 60) as client:
        return client.unmanaged()


async def test_questions_and_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as (config, daemon):
        assert config.control_socket.stat().st_mode & 0o777 == 0o600

        def several() -> None:
            with Client(config, 60) as client:
                assert client.ps() == []
                assert client.ps() == []
                daemon.answer = wire.StatsAnswer(stats=[])
                assert client.stats() == []

        await in_thread(several)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("unknown", UsageError), ("refused", Refused), ("version", VersionError), ("busy", ProtocolError)],
)
async def test_errors_keep_their_kind(tmp_path: Path, code: str, kind: type[GpudError]) -> None:
    async with serving(tmp_path) as (config, daemon):
        daemon.answer = wire.ErrorAnswer(code=code, text="because")
        with pytest.raises(kind, match="because"):
            await in_thread(lambda: ask_ps(config))


async def test_stop_is_answered_before_it_happens(tmp_path: Path) -> None:
    async with serving(tmp_path) as (config, daemon):

        def stop() -> int:
            with Client(config, 60) as client:
                return client.stop(wait=False)

        assert await in_thread(stop) == 3
        with trio.fail_after(60):
            await daemon.stopped.wait()


async def test_stop_happens_also_when_nobody_waits_for_the_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as (config, daemon):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(config.control_socket))
            connection.sendall(wire.encode(wire.Request(version=wire.VERSION, id=1, ask=wire.AskStop())))
        with trio.fail_after(60):
            await daemon.stopped.wait()


def send_raw(config: Config, data: bytes, close: bool = False) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(config.control_socket))
        with contextlib.suppress(OSError):  # it may have been refused and closed already
            connection.sendall(data)
            if close:
                connection.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while more := connection.recv(65536):
                got += more
        except ConnectionError:
            pass
        return got


def frame(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame({"version": 9, "id": 4, "ask": {"type": "ps"}}), "version"),
        (frame({"version": V, "id": 4, "ask": {"type": "dance"}}), "protocol"),
        (frame([1, 2]), "protocol"),
        (frame(None), "protocol"),
        (struct.pack("<I", 5) + b"\xc1" * 5, "protocol"),
    ],
)
async def test_bad_requests_are_answered_and_closed(tmp_path: Path, data: bytes, code: str) -> None:
    async with serving(tmp_path) as (config, _):
        got = await in_thread(lambda: send_raw(config, data))
        assert isinstance(got, bytes)
        reply = wire.decode_reply(got[4:])
        assert isinstance(reply.answer, wire.ErrorAnswer)
        assert reply.answer.code == code
        assert await in_thread(lambda: ask_ps(config)) == []


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x10\x00\x00\x00abc", b"\xff\xff\xff\xff"])
async def test_broken_frames_are_told_of_and_closed(tmp_path: Path, data: bytes) -> None:
    async with serving(tmp_path) as (config, _):
        got = await in_thread(lambda: send_raw(config, data, close=True))
        assert isinstance(got, bytes)
        if data:
            reply = wire.decode_reply(got[4:])
            assert isinstance(reply.answer, wire.ErrorAnswer)
            assert (reply.id, reply.answer.code) == (0, "protocol")
            assert "frame" in reply.answer.text
        else:
            assert got == b""
        assert await in_thread(lambda: ask_ps(config)) == []


async def test_who_never_ends_a_frame_is_closed_in_time(tmp_path: Path) -> None:
    async with serving(tmp_path, frame_s=0.1) as (config, _):
        assert await in_thread(lambda: send_raw(config, b"\x10\x00\x00\x00abc")) == b""


async def test_an_answer_that_is_too_long_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as (config, daemon):
        view = UnmanagedView(pid=1, user="", command="y" * wire.MAX_BYTES, device=0, uuid="", used_bytes=None)
        daemon.answer = wire.UnmanagedAnswer(processes=[view])
        with pytest.raises(ProtocolError, match="too long"):
            await in_thread(lambda: ask_unmanaged(config))


async def test_an_error_is_a_sentence_whatever_it_repeats(tmp_path: Path) -> None:
    async with serving(tmp_path) as (config, daemon):
        daemon.answer = wire.ErrorAnswer(code="unknown", text="no class \x1b[2J\nis called " + "y" * 100_000)
        with pytest.raises(UsageError) as error:
            await in_thread(lambda: ask_ps(config))
        assert str(error.value).startswith("no class \\x1b[2J\\nis called yyy")
        assert len(str(error.value)) == server.LONGEST_TEXT


async def test_an_error_of_the_daemon_is_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path) as (config, daemon):
        daemon.fail = RuntimeError("a bug")
        with pytest.raises(ProtocolError, match=r"an error in the daemon \(RuntimeError\); look at its log"):
            await in_thread(lambda: ask_ps(config))
        assert "a bug" in caplog.text
        daemon.fail = None
        assert await in_thread(lambda: ask_ps(config)) == []


async def test_who_asks_is_the_kernels_word(tmp_path: Path) -> None:
    async with serving(tmp_path) as (config, daemon):
        await in_thread(lambda: ask_ps(config))
        (peer,) = daemon.peers
        assert (peer.pid, peer.uid, peer.gid) == (os.getpid(), os.geteuid(), os.getegid())
        assert peer.user == pwd.getpwuid(os.geteuid()).pw_name
        names = {grp.getgrgid(gid).gr_name for gid in (os.getegid(), *os.getgroups())}
        assert set(peer.groups) == names


async def test_a_user_database_that_hangs(tmp_path: Path) -> None:
    """Who asks is told so, in time, and nobody else waits."""
    hangs, release = {"on": True}, threading.Event()

    def identify(connection: socket.socket) -> Peer:
        if hangs["on"]:
            release.wait(60)
        return peer_of(connection)

    try:
        async with serving(tmp_path, frame_s=0.2, identify=identify) as (config, _):
            with pytest.raises(Refused, match="the user database did not say in time who you are"):
                await in_thread(lambda: ask_ps(config))
            hangs["on"] = False
            assert await in_thread(lambda: ask_ps(config)) == []
    finally:
        release.set()


async def test_others_do_not_take_the_daemon_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each user that is not the daemon's own has a few connections, all of them together not all."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(server, "MOST_OF_OTHERS", 3)
    monkeypatch.setattr(server, "MOST_OF_ONE", 2)
    users = iter([7, 7, 7, 8, 8, 0, 0, 0])
    monkeypatch.setattr(server, "uid_of", lambda _: next(users))
    monkeypatch.setattr(server, "privileged", lambda uid: uid == 0)
    async with serving(tmp_path) as (config, _):

        def connect() -> Client | None:
            client = Client(config, 60)
            try:
                client.ps()
            except NoDaemon:
                client.close()
                return None
            return client

        clients = [await trio.to_thread.run_sync(connect) for _ in range(8)]
        assert [client is not None for client in clients] == [True, True, False, True, False, True, True, False]
        for client in clients:
            if client is not None:
                client.close()


async def test_too_many_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    async with serving(tmp_path) as (config, _):

        def connect() -> Client:
            client = Client(config, 60)
            client.ps()
            return client

        clients = [await trio.to_thread.run_sync(connect) for _ in range(3)]
        with pytest.raises(NoDaemon):
            await in_thread(lambda: ask_ps(config))
        clients.pop().close()
        with trio.fail_after(60):
            while True:
                try:
                    await in_thread(lambda: ask_ps(config))
                    break
                except NoDaemon:
                    await trio.sleep(0.01)
        for client in clients:
            client.close()


def test_no_daemon(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with pytest.raises(NoDaemon, match=r"no gpud daemon listens at .*control.sock; start one with `gpud serve`"):
        Client(config)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(config.control_socket))
    with pytest.raises(NoDaemon, match="no gpud daemon listens"):
        Client(config)
    absent = load_config({"GPUD_RUNTIME_DIR": str(tmp_path / "absent")})
    with pytest.raises(NoDaemon, match="no gpud daemon listens"):
        Client(absent)


def test_a_socket_that_nobody_reads(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    config.lock_file.write_text("4711\n")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(config.control_socket))
        listener.listen(1)
        says = r"the daemon \(pid 4711\) at .* does not answer within 0.2 s"
        with Client(config, timeout=0.2) as client, pytest.raises(SetupError, match=says):
            client.ps()
        waiting: list[Client] = []

        def one_too_many() -> None:
            for _ in range(5):
                waiting.append(Client(config, timeout=0.2))

        with pytest.raises(SetupError, match=says):  # its backlog is full
            one_too_many()
        for client in waiting:
            client.close()


@pytest.mark.parametrize(
    ("said", "kind", "says"),
    [
        (frame({"version": 9, "id": 1, "answer": {"type": "ps", "jobs": []}}), VersionError, "speaks version 9"),
        (
            frame({"version": V, "id": 5, "answer": {"type": "ps", "jobs": []}}),
            ProtocolError,
            "another question",
        ),
        (
            frame({"version": V, "id": 1, "answer": {"type": "stop", "opened": 1}}),
            ProtocolError,
            "another question",
        ),
        (
            frame({"version": V, "id": 1, "answer": {"type": "ps", "jobs": 5}}),
            ProtocolError,
            "cannot be read",
        ),
        (b"\xff\xff\xff\xff", ProtocolError, "over the limit"),
        (b"\x08\x00", NoDaemon, "ended before it answered"),
        (b"", NoDaemon, "ended before it answered"),
    ],
)
def test_daemons_that_answer_nonsense(tmp_path: Path, said: bytes, kind: type[GpudError], says: str) -> None:
    config = config_in(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(config.control_socket))
        listener.listen(1)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with Client(config, 60) as client, pytest.raises(kind, match=says):
                client.ps()
        finally:
            thread.join(10)


def test_a_runtime_dir_that_others_may_write(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(SetupError, match="others may write"):
        Client(config)
    tmp_path.chmod(0o700)
