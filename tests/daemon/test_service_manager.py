"""The daemon under a service manager: sockets that it is given, and what it tells. The manager is made of a script."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from gpud import daemon as daemon_module
from gpud import service_manager
from gpud.control.client import Client
from gpud.model.errors import SetupError
from gpud.service_manager import Manager, take_sockets
from gpud.testing.node import until
from tests.daemon.conftest import PATIENCE_S, Daemon

STARTER = """
import fcntl, os, sys
given = [int(number) for number in sys.argv[1].split(",") if number]
kept = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 100) for number in given]
for number in set(given):
    os.close(number)
for index, number in enumerate(kept):
    os.dup2(number, 3 + index, inheritable=True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = str(len(kept))
os.execv(sys.executable, [sys.executable, "-m", "gpud.cli.main", "serve", "--policy", "preempt-mix", *sys.argv[2:]])
"""


class Service:
    """What systemd is for a daemon: its sockets, made before it, and the socket that it tells."""

    def __init__(self, fresh: Daemon) -> None:
        self.daemon = fresh
        directory = fresh.config.runtime_dir
        directory.mkdir(mode=0o700, exist_ok=True)
        self.hook = listening(fresh.config.hook_socket, socket.SOCK_SEQPACKET)
        self.control = listening(fresh.config.control_socket, socket.SOCK_STREAM)
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(str(directory / "notify"))
        self.told.settimeout(PATIENCE_S)
        self.process: subprocess.Popen[str] | None = None

    def start(self, sockets: list[socket.socket] | None = None, **environment: str) -> None:
        given = [one.fileno() for one in ([self.hook, self.control] if sockets is None else sockets)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", STARTER, ",".join(map(str, given))],
            env=self.daemon.environment | {"NOTIFY_SOCKET": self.told.getsockname()} | environment,
            pass_fds=given,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hears(self) -> dict[str, str]:
        """The next word of it."""
        return dict(line.split("=", 1) for line in self.told.recv(65536).decode().split("\n"))

    def hears_until(self, key: str, value: str) -> dict[str, str]:
        while True:
            word = self.hears()
            if word.get(key) == value:
                return word

    def ends(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        assert self.process is not None
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        assert self.process is not None
        _, said = self.process.communicate(timeout=PATIENCE_S)
        code, self.process = self.process.returncode, None
        return code, said

    def client(self) -> Client:
        """Of somebody who does not mind how long the daemon takes to start."""
        return Client(self.daemon.config, PATIENCE_S)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.ended()
        for one in (self.hook, self.control, self.told):
            one.close()


def listening(path: Path, kind: socket.SocketKind) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(str(path))
    made.listen(8)
    return made


@pytest.fixture
def service(fresh: Daemon) -> Iterator[Service]:
    made = Service(fresh)
    yield made
    made.close()


def test_sockets_outlive_the_daemon_and_nobody_who_comes_between_is_lost(service: Service) -> None:
    config = service.daemon.config
    before = [path.stat().st_ino for path in (config.hook_socket, config.control_socket)]
    program = service.daemon.program("online")  # connects before anybody serves
    early = service.client()
    with early:
        service.start()
        assert early.status().runtime_dir == str(config.runtime_dir)
    program.attach()
    with service.client() as client:
        assert [job.job_class for job in client.ps()] == ["high"]
    assert service.ends()[0] == 0
    assert [path.stat().st_ino for path in (config.hook_socket, config.control_socket)] == before
    with service.client() as between:
        service.start()
        until(lambda: between.status().adopted == 0 and between.ps(), PATIENCE_S, "the next daemon took the job over")


def test_stop_leaves_the_sockets_to_whoever_made_them(service: Service) -> None:
    service.start()
    with service.client() as client:
        assert client.stop() == 0
    assert service.ended()[0] == 0
    assert service.daemon.config.control_socket.exists()
    assert service.daemon.config.hook_socket.exists()


def test_it_tells_when_it_is_ready_reloads_and_ends(service: Service) -> None:
    service.start()
    word = service.hears()
    assert word["READY"] == "1"
    assert word["STATUS"].startswith("0 jobs, 0 processes; set ")
    assert service.process is not None
    assert word["MAINPID"] == str(service.process.pid)
    assert "WATCHDOG" in service.hears()
    service.process.send_signal(signal.SIGHUP)
    assert int(service.hears_until("RELOADING", "1")["MONOTONIC_USEC"]) > 0
    assert service.hears_until("READY", "1") == {"READY": "1"}
    assert service.ends()[0] == 0
    assert service.hears_until("STOPPING", "1")["STATUS"] == "ending; programs go on"


def test_its_life_is_told_in_time_and_a_stopped_daemon_tells_nothing(service: Service) -> None:
    service.start(WATCHDOG_USEC="300000")
    for _ in range(4):
        service.hears_until("WATCHDOG", "1")
    assert service.process is not None
    service.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, service.process.pid, os.WSTOPPED)
    while select.select([service.told], [], [], 0)[0]:
        service.hears()
    assert not select.select([service.told], [], [], 0.9)[0]
    service.process.send_signal(signal.SIGCONT)
    service.hears_until("WATCHDOG", "1")


def test_a_watchdog_of_somebody_else_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    for pid, period in (("1", service_manager.STATUS_S), (str(os.getpid()), 1.0), ("", 1.0)):
        monkeypatch.setenv("WATCHDOG_USEC", "3000000")
        monkeypatch.setenv("WATCHDOG_PID", pid)
        with Manager() as manager:
            assert manager.period_s == period
            assert not manager
            manager.alive("nobody hears this, and nothing fails")
        assert not {"WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)


def test_whatever_a_status_holds_the_word_of_life_arrives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A character that the library cannot encode, or a line break, would lose it or forge another one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with Manager() as manager:
            manager.alive("policy → ünïcode 漢\nREADY=1")
        assert "NOTIFY_SOCKET" not in os.environ
        assert told.recv(4096).decode() == "WATCHDOG=1\nSTATUS=policy → ünïcode 漢\\nREADY=1"


def test_a_manager_that_does_not_read_holds_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with Manager() as manager:
            for _ in range(10_000):  # far more than a socket holds
                manager.alive("x" * 1000)
        assert told.recv(4096).startswith(b"WATCHDOG=1")


@pytest.mark.parametrize(
    ("names", "given", "says"),
    [
        ("", ["hook"], "gave it a hook socket only: give both, or none"),
        ("", ["control"], "gave it a control socket only"),
        ("control:hook", ["hook", "control"], "socket 1 of 2, from who started the daemon, is a hook socket"),
        ("", ["hook", "hook"], "socket 2 of 2"),
        ("", ["hook", "other"], "wanted are ListenSequentialPacket="),
        ("", ["told"], "is no listening Unix socket"),
    ],
)
def test_sockets_that_are_not_as_they_must_be(service: Service, names: str, given: list[str], says: str) -> None:
    other = listening(service.daemon.config.runtime_dir / "elsewhere.sock", socket.SOCK_STREAM)
    known = {"hook": service.hook, "control": service.control, "told": service.told, "other": other}
    with other:
        service.start([known[name] for name in given], LISTEN_FDNAMES=names)
        code, said = service.ended()
    assert code == 125
    assert says in said
    assert "Traceback" not in said


def test_names_of_sockets_are_heeded_where_they_are_ours(service: Service) -> None:
    service.start([service.control, service.hook], LISTEN_FDNAMES="control:gpud.socket")
    with service.client() as client:
        assert client.ps() == []


def test_sockets_for_another_process_are_left_alone(monkeypatch: pytest.MonkeyPatch, fresh: Daemon) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid() + 1))
    monkeypatch.setenv("LISTEN_FDS", "2")
    assert take_sockets(fresh.config, os.environ) == (None, None)
    assert "LISTEN_FDS" not in os.environ


def test_a_descriptor_that_is_not_there(monkeypatch: pytest.MonkeyPatch, fresh: Daemon) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setattr(service_manager, "FIRST_FD", 1_000_000)
    with pytest.raises(SetupError, match="descriptor 1000000, from who started the daemon, is no socket"):
        take_sockets(fresh.config, os.environ)


class Told(Manager):
    """Counts."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.watchdog_s = 3.0

    def _say(self, *lines: str) -> None:
        self.words.append(lines[0])


async def test_an_engine_that_hangs_is_not_called_alive(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop comes round four times and then never again, while everything else goes on."""

    class Stuck:
        rounds = 0
        state = None

        async def go_round(self) -> None:
            self.rounds += 1
            if self.rounds > 4:
                await trio.sleep_forever()

    class Reloads:
        changing = None

    manager = Told()
    monkeypatch.setattr(daemon_module, "_in_short", lambda state, reloader: "")
    with trio.move_on_after(3600):
        await daemon_module._tell(manager, Stuck(), Reloads())  # type: ignore[arg-type]
    assert manager.words == ["READY=1", *["WATCHDOG=1"] * 4]
