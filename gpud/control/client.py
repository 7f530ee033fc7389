"""Asks the daemon. Synchronous: a socket of the standard library, and msgspec.

with Client(config) as client:
    print(client.status())
"""

import contextlib
import errno
import socket
import time
from types import TracebackType
from typing import Self, TypeVar

from gpud.config import Config, check_runtime_dir
from gpud.control import wire
from gpud.model.errors import GpudError, NoDaemon, ProtocolError, Refused, SetupError, UsageError, VersionError
from gpud.model.policy_views import HistoryView, ReloadView
from gpud.model.views import JobStats, JobView, StatusView, UnmanagedView, WhyView

_A = TypeVar("_A", bound=wire.Answer)
RELOAD_S = 60.0
"""Of patience, for what reads, checks and tests policies."""


class Client:
    """One connection to control.sock. Not thread-safe.

    All methods raise NoDaemon (nobody listens), SetupError (somebody listens and does not answer within `timeout`
    seconds, or the runtime directory is not safe), VersionError (a daemon of another version), ProtocolError (an
    answer that cannot be read).
    """

    def __init__(self, config: Config, timeout: float = 5.0) -> None:
        self._path = config.control_socket
        self._timeout = timeout
        self._next_id = 1
        check_runtime_dir(config.runtime_dir)
        self._socket = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def status(self) -> StatusView:
        return self._ask(wire.AskStatus(), wire.StatusAnswer).status

    def ps(self) -> list[JobView]:
        return self._ask(wire.AskPs(), wire.PsAnswer).jobs

    def stats(self, job: int | None = None) -> list[JobStats]:
        """Of one job, or of all. Raises UsageError when there is no such job."""
        return self._ask(wire.AskStats(job=job), wire.StatsAnswer).stats

    def unmanaged(self) -> list[UnmanagedView]:
        """Processes on the node's devices that no hook of this daemon is in."""
        return self._ask(wire.AskUnmanaged(), wire.UnmanagedAnswer).processes

    def job_of(self, pid: int) -> JobView:
        """The job that a process belongs to. Raises UsageError when it belongs to none."""
        return self._ask(wire.AskJobOf(pid=pid), wire.JobOfAnswer).job

    def why(self, job: int) -> WhyView:
        """What holds for a job, and what set it. Raises UsageError when there is no such job."""
        return self._ask(wire.AskWhy(job=job), wire.WhyAnswer).why

    def set_class(self, job: int, job_class: str | None) -> JobView:
        """Pins a job; None: its labels decide again. Raises Refused."""
        return self._ask(wire.AskSet(job=job, job_class=job_class), wire.SetAnswer).job

    def reload(self) -> ReloadView:
        """Reads the policies again and waits for what comes of it."""
        return self._ask(wire.AskReload(), wire.ReloadAnswer).reload

    def rollback(self, number: int | None = None) -> ReloadView:
        """Runs an earlier set of policies. Raises UsageError when there is none of that number."""
        return self._ask(wire.AskRollback(number=number), wire.ReloadAnswer).reload

    def history(self) -> list[HistoryView]:
        return self._ask(wire.AskHistory(), wire.HistoryAnswer).sets

    def show(self, file: str | None = None) -> wire.ShowAnswer:
        """The running set. Raises UsageError when it has no such file."""
        return self._ask(wire.AskShow(file=file), wire.ShowAnswer)

    def diff(self) -> wire.DiffAnswer:
        return self._ask(wire.AskDiff(), wire.DiffAnswer)

    def stop(self, wait: bool = True) -> int:
        """Ends the daemon, every gate open. Returns how many clients' gates were opened, after the daemon has closed
        its socket when `wait`."""
        opened = self._ask(wire.AskStop(), wire.StopAnswer).opened
        if wait:
            self._wait_for_end(time.monotonic() + self._timeout)
        return opened

    def _ask(self, ask: wire.Ask, kind: type[_A]) -> _A:
        deadline = time.monotonic() + self._timeout
        number, self._next_id = self._next_id, self._next_id + 1
        try:
            frame = wire.encode(wire.Request(version=wire.VERSION, id=number, ask=ask))
        except ProtocolError as error:
            raise UsageError(f"this cannot be asked: {error}") from None
        try:
            self._socket.settimeout(self._timeout)
            with contextlib.suppress(ConnectionError):  # closed already: why is in what is still to be read
                self._socket.sendall(frame)
            body = self._receive(wire.body_size(self._receive(wire.LENGTH.size, deadline)), deadline)
        except TimeoutError:
            raise self._silent() from None
        except OSError as error:
            raise NoDaemon(
                f"the daemon at {self._path} closed the connection ({error.strerror}); look at its log"
            ) from error
        reply = wire.decode_reply(body)
        if isinstance(reply.answer, wire.ErrorAnswer):
            raise _error(reply.answer)
        if reply.id != number or not isinstance(reply.answer, kind):
            raise ProtocolError(f"the daemon at {self._path} answered another question than was asked")
        return reply.answer

    def _receive(self, size: int, deadline: float) -> bytes:
        got = bytearray()
        while len(got) < size:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            more = self._socket.recv(size - len(got))
            if not more:
                raise NoDaemon(f"the daemon at {self._path} ended before it answered; look at its log")
            got += more
        return bytes(got)

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + self._timeout
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.settimeout(self._timeout)
                connection.connect(str(self._path))
                return connection
            except OSError as error:
                connection.close()
                if error.errno == errno.EAGAIN and time.monotonic() < deadline:
                    time.sleep(0.01)  # its backlog is full: try again until it has been silent for too long
                    continue
                raise self._unreachable(error) from error

    def _unreachable(self, error: OSError) -> GpudError:
        if isinstance(error, TimeoutError) or error.errno == errno.EAGAIN:
            return self._silent()
        if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
            return NoDaemon(
                f"no gpud daemon listens at {self._path}; "
                "start one with `gpud serve` (or `gpud serve --sim` without a GPU)"
            )
        if error.errno in (errno.EACCES, errno.EPERM):
            return SetupError(f"you may not talk to the daemon at {self._path}; ask who started it, or start your own")
        return SetupError(f"cannot connect to {self._path}: {error.strerror or error}")

    def _silent(self) -> SetupError:
        holder = ""
        with contextlib.suppress(OSError, ValueError):
            holder = f" (pid {int(self._path.with_name('daemon.lock').read_text().split()[0])})"
        return SetupError(
            f"the daemon{holder} at {self._path} does not answer within {self._timeout:g} s; "
            "look at its log, end it if it hangs (programs go on), and start it again"
        )

    def _wait_for_end(self, deadline: float) -> None:
        try:
            self._receive(1, deadline)
        except (NoDaemon, ConnectionError):
            return
        except TimeoutError:
            raise SetupError(
                f"the daemon at {self._path} opened the gates, but has not ended within {self._timeout:g} s; "
                "look at its log"
            ) from None


def _error(answer: wire.ErrorAnswer) -> GpudError:
    kinds: dict[str, type[GpudError]] = {"unknown": UsageError, "refused": Refused, "version": VersionError}
    return kinds.get(answer.code, ProtocolError)(answer.text)
