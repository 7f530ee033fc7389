"""A daemon of one's own for tests and benches: a temporary runtime directory and, if asked, a simulated node.

with Node(profile="test-small") as node:
    job = node.run(["python", "serving.py"], labels={"tier": "online"})
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from gpud.config import load_config
from gpud.control.client import Client
from gpud.model.errors import GpudError
from gpud.native import shipped_policies, sim_dir

_T = TypeVar("_T")
STARTS_WITHIN_S = 60.0


def until(condition: Callable[[], _T], within: float, what: str, step: float = 0.005) -> _T:
    """Asks until the answer is true, and returns it. Raises TimeoutError, naming `what`, after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within:g} s: {what}")
        time.sleep(step)


class Node:
    """A running `gpud serve` with what belongs to it.

    `libraries` is the directory of the driver that programs load: the simulated one, or a stand-in's. `policy` is what
    every device gets, of the directory `policies`, by default the shipped ones; None: by its `apply` lines.
    """

    def __init__(
        self,
        *,
        profile: str | None = None,
        policy: str | None = "preempt-mix(quiet = 1ms)",
        policies: Path | None = None,
        options: Sequence[str] = (),
        libraries: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="gpud-node-"))
        self.runtime_dir = self.directory / "run"
        self.runtime_dir.mkdir(mode=0o700)
        self.name = f"node-{uuid.uuid4().hex[:12]}"
        self.log = self.directory / "daemon.log"
        self.device_log = self.directory / "device.jsonl"
        self._options = ["--policies", str(policies or shipped_policies()), *options]
        if policy is not None:
            self._options += ["--policy", policy]
        self._profile = profile
        ours = ("GPUD_SIM", "GPUD_POLICIES", "GPUD_STATE_DIR")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        self.environment["GPUD_RUNTIME_DIR"] = str(self.runtime_dir)
        self.environment["XDG_CONFIG_HOME"] = str(self.directory / "config")
        if profile is not None:
            self.environment |= {
                "GPUD_SIM_NODE": self.name,
                "GPUD_SIM_PROFILE": profile,
                "GPUD_SIM_LOG": str(self.device_log),
            }
        self._libraries = libraries or (sim_dir() if profile is not None else None)
        self.environment |= dict(environment or {})
        self.daemon: subprocess.Popen[bytes] | None = None
        self._programs: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Starts the daemon and returns once it answers."""
        command = [sys.executable, "-m", "gpud.cli.main", "serve", "--runtime-dir", str(self.runtime_dir)]
        if self._profile is not None:
            command += ["--sim", self._profile]
        with self.log.open("ab") as log:
            self.daemon = subprocess.Popen(
                [*command, *self._options], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            until(self._answers, STARTS_WITHIN_S, "the daemon answers")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; its log:\n{self.log.read_text()}") from None

    def client(self) -> Client:
        """A connection to the daemon's control socket."""
        return Client(load_config(self.environment))

    def run(
        self,
        program: Sequence[str | Path],
        *,
        managed: bool = True,
        labels: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[str] | None = subprocess.PIPE,
        stderr: int | IO[str] | None = None,
    ) -> subprocess.Popen[str]:
        """Starts a program on this node, under `gpud run` unless not `managed`."""
        command = [str(part) for part in program]
        environment = dict(self.environment)
        if self._libraries is not None:
            paths = [str(self._libraries), environment.get("LD_LIBRARY_PATH", "")]
            environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
        if managed:
            flags = [flag for key, value in (labels or {}).items() for flag in ("--label", f"{key}={value}")]
            command = [sys.executable, "-m", "gpud.cli.main", "run", *flags, *options, "--", *command]
        # In a process group of its own, so that the end of the node ends what is below `gpud run`, too.
        job = subprocess.Popen(
            command, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, text=True, start_new_session=True
        )
        self._programs.append(job)
        return job

    def close(self) -> None:
        """Ends what was started, and removes the directory."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop(self) -> None:
        """Ends what was started; the logs stay. The device log is whole once the device process has ended, too."""
        for job in self._programs:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            for pipe in (job.stdin, job.stdout, job.stderr):
                if pipe:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(10)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()

    def _answers(self) -> bool:
        assert self.daemon is not None
        if self.daemon.poll() is not None:
            raise RuntimeError(f"the daemon ended with {self.daemon.returncode}:\n{self.log.read_text()}")
        try:
            with self.client() as client:
                client.status()
        except GpudError:
            return False
        return True
