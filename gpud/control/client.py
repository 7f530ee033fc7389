"""Asks the daemon. Synchronous: a socket of the standard library, and msgspec.

with Client(config) as client:
    print(client.status())
"""

import contextlib
import errno
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from attrs import evolve

from gpud.config import Config, check_runtime_dir
from gpud.control import wire
from gpud.model.errors import GpudError, NoDaemon, ProtocolError, Refused, SetupError, UsageError, VersionError
from gpud.model.live_views import Feed
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

    def abort(self) -> None:
        """From another thread: whatever waits for an answer here ends with NoDaemon. The connection is of no more
        use."""
        with contextlib.suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

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

    def set(self, change: wire.AskSet) -> JobView:
        """Changes a running job. Raises Refused, UsageError when there is no such job."""
        return self._ask(change, wire.SetAnswer).job

    def pause(self, job: int) -> wire.DoneAnswer:
        """Holds every launch of a job until `resume`. Raises Refused, UsageError; likewise the three below."""
        return self._ask(wire.AskPause(job=job), wire.DoneAnswer)

    def resume(self, job: int) -> wire.DoneAnswer:
        return self._ask(wire.AskResume(job=job), wire.DoneAnswer)

    def evict(self, job: int) -> wire.DoneAnswer:
        """Takes the device from a job."""
        return self._ask(wire.AskEvict(job=job), wire.DoneAnswer)

    def kill(self, job: int, signal: str = "TERM", pids: tuple[int, ...] = ()) -> wire.DoneAnswer:
        """Signals all processes of a job; with `pids`, only if it still has exactly these."""
        return self._ask(wire.AskKill(job=job, signal=signal, pids=pids), wire.DoneAnswer)

    def past(self, at_ns: int) -> Feed:
        """The node as it was. Raises UsageError when the journal does not go back so far."""
        number, deadline = self._send(wire.AskPast(at_ns=at_ns)), time.monotonic() + self._timeout
        found: Feed | None = None
        while True:  # of many jobs it comes in several parts
            reply = self._frame(number, deadline)
            part = _as(reply, wire.FeedAnswer, self._path).feed
            found = part if found is None else _together(found, part)
            if not reply.more:
                return found

    def journal(self, ask: wire.AskJournal) -> wire.JournalAnswer:
        return self._ask(ask, wire.JournalAnswer)

    def feed(self, interval_ms: int = 500) -> Iterator[Feed]:
        """Subscribes: the first is full, the others hold what changed. This connection does nothing else from then on.
        Ends only by an error: NoDaemon when the daemon goes away, or after `abort` from another thread."""
        number = self._send(wire.AskFeed(interval_ms=interval_ms))
        patience = self._timeout + interval_ms / 1000
        while True:
            yield self._reply(number, wire.FeedAnswer, time.monotonic() + patience).feed

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
        return self._reply(self._send(ask), kind, deadline)

    def _send(self, ask: wire.Ask) -> int:
        """Its number."""
        number, self._next_id = self._next_id, self._next_id + 1
        try:
            frame = wire.encode(wire.Request(version=wire.VERSION, id=number, ask=ask))
        except ProtocolError as error:
            raise UsageError(f"this cannot be asked: {error}") from None
        try:
            self._socket.settimeout(self._timeout)
            with contextlib.suppress(ConnectionError):  # closed already: why is in what is still to be read
                self._socket.sendall(frame)
        except TimeoutError:
            raise self._silent() from None
        except OSError as error:
            raise self._closed(error) from error
        return number

    def _reply(self, number: int, kind: type[_A], deadline: float) -> _A:
        return _as(self._frame(number, deadline), kind, self._path)

    def _frame(self, number: int, deadline: float) -> wire.Reply:
        """Raises what an ErrorAnswer says."""
        try:
            body = self._receive(wire.body_size(self._receive(wire.LENGTH.size, deadline)), deadline)
        except TimeoutError:
            raise self._silent() from None
        except OSError as error:
            raise self._closed(error) from error
        reply = wire.decode_reply(body)
        if isinstance(reply.answer, wire.ErrorAnswer):
            raise _error(reply.answer)
        if reply.id != number:
            raise ProtocolError(f"the daemon at {self._path} answered another question than was asked")
        return reply

    def _closed(self, error: OSError) -> NoDaemon:
        return NoDaemon(f"the daemon at {self._path} closed the connection ({error.strerror}); look at its log")

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


def _as(reply: wire.Reply, kind: type[_A], path: Path) -> _A:
    if not isinstance(reply.answer, kind):
        raise ProtocolError(f"the daemon at {path} answered another question than was asked")
    return reply.answer


def _together(one: Feed, other: Feed) -> Feed:
    """Two parts of the same step, rows in the order they came."""
    return evolve(
        one,
        number=other.number,
        node=other.node or one.node,
        devices=one.devices + other.devices,
        jobs=one.jobs + other.jobs,
        classes=one.classes if other.classes is None else other.classes,
        decisions=one.decisions + other.decisions,
    )


def _error(answer: wire.ErrorAnswer) -> GpudError:
    kinds: dict[str, type[GpudError]] = {"unknown": UsageError, "refused": Refused, "version": VersionError}
    return kinds.get(answer.code, ProtocolError)(answer.text)
