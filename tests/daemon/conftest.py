import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gpud.config import Config, load_config
from gpud.control.client import Client
from gpud.model.errors import GpudError
from gpud.native import shipped_policies
from gpud.testing import node

_T = TypeVar("_T")
UUID = bytes(range(16))
GIB = 1 << 30
PATIENCE_S = 60.0

_SERVE = """
import json, sys
from gpud.config import load_config
from gpud.daemon import serve
from gpud.model.errors import GpudError
try:
    sys.exit(serve(load_config(**json.loads(sys.argv[1]))))
except GpudError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def until(condition: Callable[[], _T], what: str) -> _T:
    """Waits for a condition, with a deadline; returns what it answered."""
    return node.until(condition, PATIENCE_S, what)


class Program:
    """A process with a client in it: gpud.testing.fake_hook, told what to do."""

    def __init__(self, config: Config, command: list[str] | None = None) -> None:
        command = command or [sys.executable, "-m", "gpud.testing.fake_hook", str(config.hook_socket)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, name: str, *rest: object) -> Any:
        """Calls a method of its FakeHook."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([name, *rest]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def attach(self, again: bool = False) -> None:
        self.do("attach", again)
        self.do("report_devices", [(UUID.hex(), GIB)])

    def gate(self) -> list[int]:
        """The first fields of gpud.testing.fake_hook.Gate, of device 0."""
        self.do("pump_all")
        return list(self.do("gate", 0))

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()
        self.process.wait(PATIENCE_S)


class Launcher(Program):
    """`gpud run` with a client as its program: its own process connects as the launcher, its child as the hook."""

    CODE = """
import subprocess, sys
from pathlib import Path
from gpud.testing.fake_hook import launch
connection, job = launch(Path(sys.argv[1]), [("label.tier", sys.argv[2]), ("name", sys.argv[2])])
sys.exit(subprocess.run([sys.executable, "-m", "gpud.testing.fake_hook", sys.argv[1]]).returncode)
"""

    def __init__(self, config: Config, tier: str) -> None:
        super().__init__(config, [sys.executable, "-c", self.CODE, str(config.hook_socket), tier])


class Daemon:
    """`gpud serve` in a process and a directory of its own, with the shipped policies unless `policies` names others.
    `policy`: what applies to every device; None: by the `apply` lines."""

    def __init__(
        self,
        directory: Path,
        *,
        sim: str | None = None,
        policy: str | None = "preempt-mix(quiet = 1ms)",
        policies: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.flags = {"sim": sim, "policy": policy, "policies": str(policies or shipped_policies())}
        ours = ("GPUD_SIM", "GPUD_POLICIES", "GPUD_STATE_DIR")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        inherited["XDG_CONFIG_HOME"] = str(directory.parent / "config")
        self.environment = inherited | {"GPUD_RUNTIME_DIR": str(directory), "GPUD_LOG": "info"} | (environment or {})
        self.config = load_config(self.environment)
        self.process: subprocess.Popen[str] | None = None
        self.programs: list[Program] = []

    def start(self) -> None:
        self.process = self.spawn()
        until(self.answers, "the daemon answers")

    def spawn(self, limits: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        """Only starts it. Its messages go to a pipe when there is one already, or it has `limits`."""
        command = [sys.executable, "-c", _SERVE, json.dumps(self.flags)]
        piped = limits is not None or self.process is not None
        log = subprocess.PIPE if piped else (self.directory.parent / "daemon.log").open("w")
        try:
            return subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stderr=log, text=True, preexec_fn=limits
            )
        finally:
            if not isinstance(log, int):
                log.close()

    def log(self) -> str:
        return (self.directory.parent / "daemon.log").read_text()

    def answers(self) -> bool:
        assert self.process
        assert self.process.poll() is None, self.log()
        try:
            with Client(self.config) as client:
                client.status()
        except GpudError:
            return False
        return True

    def client(self) -> Client:
        return Client(self.config)

    def program(self, tier: str | None = None) -> Program:
        """A new process: alone, or of a launched job with that tier."""
        program = Launcher(self.config, tier) if tier else Program(self.config)
        self.programs.append(program)
        return program

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._close()

    def ends(self) -> int:
        assert self.process
        code = self.process.wait(PATIENCE_S)
        self._close()
        return code

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process
        self.process.send_signal(number)
        return self.ends()

    def _close(self) -> None:
        if self.process and self.process.stderr:
            self.process.stderr.close()
        self.process = None

    def close(self) -> None:
        for program in self.programs:
            program.kill()
        if self.process:
            self.kill()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Daemon]:
    """Not started."""
    daemon = Daemon(tmp_path / "run")
    yield daemon
    daemon.close()


@pytest.fixture
def daemon(fresh: Daemon) -> Daemon:
    fresh.start()
    return fresh
