"""A daemon's control socket made of a script: one answer for each kind of question; it remembers what it was asked."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from gpud.control import wire
from gpud.model.policy_views import SetView
from gpud.model.views import AppliedView, JobStats, JobView, PolicyView, StatusView

Script = Callable[[wire.Ask], wire.Answer]


def job(number: int, name: str = "train", user: str = "ann", job_class: str = "low") -> JobView:
    return JobView(
        id=number, name=name, user=user, job_class=job_class, state="active", pids=(100 + number,), launcher_pid=None,
        command=name, labels={}, devices=(0,), age_ns=5_000_000_000, used_bytes=3 << 30, why=None,
    )  # fmt: skip


def stats_of(view: JobView) -> JobStats:
    """Of a job that was held eight times, and once for long."""
    return JobStats(
        job=view, launches=12_345, launches_failed=2, unfinished=1, held=9, held_ns=70_000_000, passed=3, allocations=4,
        held_histogram=(0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 1), hook_errors=0, attaches=1, spent_ns=12_000_000_000,
        samples=90, clean=60, calls=180, inflight=5,
    )  # fmt: skip


def status(classes: tuple[str, ...] = ("high", "low")) -> StatusView:
    applied = AppliedView(
        name="preempt-mix", arguments=(), mode="preempt", classes=classes, digest="d", steps=1,
        ranks=(("high",), ("low",)),
    )  # fmt: skip
    limiter = AppliedView(name="quotas", arguments=(), mode="", classes=("gold",), digest="e", steps=1)
    running = SetView(
        number=1, digest="f4d5" * 16, directory="/p", applied=None, since_ns=1, how="start", probation_ns=0, differs=""
    )
    return StatusView(
        version="0", pid=1, uptime_ns=1, runtime_dir="/r", simulated=None, driver="ok", devices=(), jobs=2, clients=2,
        adopted=0, attach_ns=None, policies=(PolicyView(device=0, uuid="GPU-1", policies=(applied, limiter)),),
        policy_set=running, generation=1,
    )  # fmt: skip


class Control:
    """Listens at `control.sock` of a runtime directory until `close`. `script` may be changed at any time."""

    def __init__(self, directory: Path, script: Script) -> None:
        self.asked: list[wire.Ask] = []
        self.script = script
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        directory.chmod(0o700)
        self._socket.bind(str(directory / "control.sock"))
        self._socket.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
                while prefix := stream.read(wire.LENGTH.size):
                    body = stream.read(wire.body_size(prefix))
                    request = wire.decode_request(body)
                    self.asked.append(request.ask)
                    reply = wire.Reply(version=wire.VERSION, id=request.id, answer=self.script(request.ask))
                    connection.sendall(wire.encode(reply))
