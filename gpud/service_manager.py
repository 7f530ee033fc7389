"""systemd, or whoever else starts the daemon as a service: the sockets that it has made already (sd_listen_fds(3)), and
what it is told (sd_notify(3))."""

import contextlib
import os
import socket
import time
from collections.abc import MutableMapping
from types import TracebackType
from typing import NamedTuple, Self

from gpud.config import Config
from gpud.model.errors import SetupError
from gpud.model.text import one_line

FIRST_FD = 3
STATUS_S = 30.0
"""Between two words to a service manager that watches for none."""
_KINDS = {socket.SOCK_SEQPACKET: "hook", socket.SOCK_STREAM: "control"}


class Passed(NamedTuple):
    """Listening sockets that this process was started with; None: it makes its own."""

    hook: socket.socket | None = None
    control: socket.socket | None = None


def take_sockets(config: Config, environ: MutableMapping[str, str]) -> Passed:
    """Takes them over, and takes the variables away, so that nobody below takes them for his. Which is which is in
    LISTEN_FDNAMES (`hook`, `control`), else in their types. Raises SetupError for one that is not as the daemon's must
    be, and for one without the other."""
    pid, count, names = (environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    if pid != str(os.getpid()) or not count.isdigit():
        return Passed()
    called = names.split(":")
    found: dict[str, socket.socket] = {}
    for index in range(int(count)):
        passed, kind = _one(FIRST_FD + index)
        name = called[index] if index < len(called) and called[index] in _KINDS.values() else kind
        path = config.runtime_dir / f"{name}.sock"
        at = passed.getsockname()
        if name != kind or name in found or at != str(path):
            raise SetupError(
                f"socket {index + 1} of {count}, from who started the daemon, is a {kind} socket at {at!r}; wanted are "
                f"ListenSequentialPacket={config.hook_socket} and ListenStream={config.control_socket}, one each "
                "(deploy/gpud.socket)"
            )
        found[name] = passed
    if len(found) == 1:
        raise SetupError(f"who started the daemon gave it a {next(iter(found))} socket only: give both, or none")
    return Passed(**found)


def _one(descriptor: int) -> tuple[socket.socket, str]:
    """A listening Unix socket and its kind. Raises SetupError."""
    try:
        passed = socket.socket(fileno=descriptor)
        listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise SetupError(f"descriptor {descriptor}, from who started the daemon, is no socket: {error}") from None
    if passed.family != socket.AF_UNIX or not listens or passed.type not in _KINDS:
        raise SetupError(f"descriptor {descriptor}, from who started the daemon, is no listening Unix socket")
    os.set_inheritable(descriptor, False)
    passed.setblocking(False)
    return passed, _KINDS[passed.type]


class Manager:
    """Tells it how the daemon is. Without one (no NOTIFY_SOCKET) nothing is told. Never waits."""

    def __init__(self) -> None:
        """Takes the variables away: what the daemon starts must not speak for it."""
        environ = os.environ
        self._socket = _connected(environ.get("NOTIFY_SOCKET", ""))
        watched, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        environ.pop("NOTIFY_SOCKET", None)
        ours = watched.isdigit() and int(watched) > 0 and pid in ("", str(os.getpid()))
        self.watchdog_s = int(watched) / 1e6 if ours else None
        """It ends the daemon when it has heard nothing for so long; None: it does not watch."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

    def __bool__(self) -> bool:
        return self._socket is not None

    @property
    def period_s(self) -> float:
        """How often `alive` is to be said."""
        return min(STATUS_S, self.watchdog_s / 3) if self.watchdog_s is not None else STATUS_S

    def ready(self, status: str) -> None:
        self._say("READY=1", _status(status), f"MAINPID={os.getpid()}")

    def reloading(self, busy: bool) -> None:
        """Policies are being looked at; or are not any more."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._say(*(("RELOADING=1", f"MONOTONIC_USEC={now}") if busy else ("READY=1",)))

    def alive(self, status: str) -> None:
        self._say("WATCHDOG=1", _status(status))

    def stopping(self) -> None:
        self._say("STOPPING=1", "STATUS=ending; programs go on")

    def _say(self, *lines: str) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it went away, or does not read: that is no matter of ours
                self._socket.send("\n".join(lines).encode())


def _connected(address: str) -> socket.socket | None:
    """To the socket of NOTIFY_SOCKET: a path, or `@` and a name. (The libraries for this have no wheels.)"""
    if not address:
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    made.setblocking(False)  # a manager that hangs must not hang its services
    try:
        made.connect("\0" + address[1:] if address.startswith("@") else address)
    except OSError:
        made.close()
        return None
    return made


def _status(text: str) -> str:
    """One line."""
    return f"STATUS={one_line(text)}"
