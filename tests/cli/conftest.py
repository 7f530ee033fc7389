"""A daemon made of a script, and small programs to run under it."""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HEAD = struct.Struct("<HHI")
ROOT = Path(__file__).resolve().parents[2]


def message(kind: int, body: bytes) -> bytes:
    """One packet of the session protocol."""
    return HEAD.pack(0x4447, kind, HEAD.size + len(body)) + body


def text(code: int, sentence: str) -> bytes:
    """The body of a message with text."""
    data = sentence.encode()
    return struct.pack("<II", code, len(data)) + data


class FakeDaemon:
    """Speaks the launcher's half of the protocol on `hook.sock` and remembers what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.launches: list[list[str]] = []
        self.hellos: list[tuple[int, ...]] = []
        self.answer = message(70, text(7, ""))
        self.instead_of_ping: bytes | None = None
        self.before_answer: list[bytes] = []
        self.go_on = threading.Event()
        """Waited for before the answer, where something comes before it."""
        self.floods = 0
        self.flooded = threading.Event()
        self.connections: list[socket.socket] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(directory / "hook.sock"))
        self._socket.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            try:
                self._session(connection)
            except OSError:
                continue

    def _session(self, connection: socket.socket) -> None:
        hello = connection.recv(65536)
        self.hellos.append(struct.unpack("<HHIHHHHIIQ", hello))
        if self.instead_of_ping is not None:
            connection.send(self.instead_of_ping)
            return
        connection.send(message(64, struct.pack("<Q", 42)))
        pong = connection.recv(65536)
        if pong != message(2, struct.pack("<Q", 42)):
            return
        launch = connection.recv(65536)
        if len(launch) < 16:
            return
        self.launches.append(launch[16:].decode().split("\n"))
        for packet in self.before_answer:
            connection.send(packet)
        if self.before_answer:
            self.go_on.wait(20)
        connection.send(self.answer)
        for pid in range(1, self.floods + 1):
            connection.send(message(71, text(pid, "")))
        self.flooded.set()

    def close(self) -> None:
        """Hangs up on everybody."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture(scope="session", autouse=True)
def no_signal_is_ignored() -> None:
    """Where the tests were started by nohup or in the background, what they start would ignore these, too."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A runtime directory with a short path, as sockets need."""
    directory = Path(tempfile.mkdtemp(prefix="gpud-t-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def daemon(runtime: Path) -> Iterator[FakeDaemon]:
    fake = FakeDaemon(runtime)
    yield fake
    fake.close()


@pytest.fixture(scope="session")
def cc() -> str:
    """The C compiler; building gpud needs one, so it is there wherever these tests run."""
    found = shutil.which("cc") or shutil.which("gcc")
    assert found, "no C compiler on PATH"
    return found


@pytest.fixture(scope="session")
def natives(tmp_path_factory: pytest.TempPathFactory, cc: str) -> Path:
    """A directory with a hook library that does nothing but say, by a variable, that it was loaded."""
    directory = tmp_path_factory.mktemp("natives")
    source = directory / "hook.c"
    source.write_text(
        '#include <stdlib.h>\n__attribute__((constructor)) static void loaded(void){setenv("HOOK_LOADED","1",1);}\n'
    )
    compile_c(cc, source, directory / "libgpud_hook.so", "-shared", "-fPIC")
    return directory


def compile_c(cc: str, source: Path, target: Path, *flags: str) -> None:
    subprocess.run([cc, str(source), "-o", str(target), *flags], check=True, timeout=60)


@pytest.fixture
def environment(runtime: Path, natives: Path) -> dict[str, str]:
    """What a user's shell would have, without anything of gpud's, plus the two directories."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("GPUD_", "LD_", "XDG_RUNTIME"))}
    return kept | {"GPUD_RUNTIME_DIR": str(runtime), "GPUD_NATIVE_DIR": str(natives), "PYTHONPATH": str(ROOT)}


Gpud = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def gpud(environment: dict[str, str]) -> Gpud:
    """Runs `gpud` with these arguments, as a user would."""

    def call(*arguments: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "gpud.cli.main", *arguments],
            env={key: value for key, value in (environment | changes).items() if value != "-unset-"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return call
