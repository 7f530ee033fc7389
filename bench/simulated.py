"""A simulated node with load on it, with or without a daemon, and its device log afterwards."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from bench.device_log import Request
from bench.harness import NATIVE, own_policies, program
from gpud.cli.sim.devicelog import DeviceLog, read_log
from gpud.model.errors import GpudError
from gpud.model.views import JobStats
from gpud.native import sim_dir
from gpud.testing.node import Node, until

BASE = "a100-40gb"
FULL = 216
"""Blocks of 1024 threads that fill the device of the base in one wave."""
SWITCHES_MS = {"switch0": 0.0, "switch100us": 0.1, "fitted": 0.76}
"""What going from one context to another costs, in the variants that are shown; the last one is the profile's."""
QUICK_SWITCHES_MS = {"switch100us": 0.1}
"""In a rehearsal."""
PTX = ".version 7.0\n.target sm_70\n.address_size 64\n"
END_S = 30.0
MOST_OVERRUN = 0.01


@frozen(kw_only=True)
class Done:
    """What a program says of a command that it has carried out."""

    rounds: int
    begin_ns: int
    """CLOCK_MONOTONIC, as the other times."""
    end_ns: int
    requests: tuple[Request, ...]


class Load:
    """A running `load`, which has a context and waits for a command."""

    def __init__(self, node: Node, job: "subprocess.Popen[str]", managed: bool) -> None:
        self._node, self._job = node, job
        self.pid = int(self._words("ready")[0])
        """Of the program itself."""
        if managed:
            self._id = self._attached()

    def begin(self, command: str) -> None:
        """`go ROUNDS` or `for SECONDS [AT]`."""
        assert self._job.stdin is not None
        self._job.stdin.write(command + "\n")
        self._job.stdin.flush()

    def done(self) -> Done:
        """Waits for the end of the command."""
        requests = []
        while True:
            words = self._words()
            match words:
                case ["request", arrival, begin, end]:
                    requests.append(Request(arrival_ns=int(arrival), begin_ns=int(begin), end_ns=int(end)))
                case ["done", rounds, begin, end]:
                    return Done(rounds=int(rounds), begin_ns=int(begin), end_ns=int(end), requests=tuple(requests))
                case _:
                    raise RuntimeError(f"load said {words}")

    def stats(self) -> JobStats:
        """What the daemon knows of it."""
        with self._node.client() as client:
            return client.stats(self._id)[0]

    def finish(self) -> None:
        """It ends."""
        assert self._job.stdin is not None
        self._job.stdin.close()
        self._job.wait(END_S)

    def _attached(self) -> int:
        """Its job: whoever is not under gpud measures nothing."""
        try:
            with self._node.client() as client:
                return client.job_of(self.pid).id
        except GpudError as error:
            raise RuntimeError(f"{error}\n{self._daemon_log()}") from error

    def _daemon_log(self) -> str:
        log = self._node.log
        return f"the daemon's log:\n{log.read_text()[-4000:]}" if log.exists() else "there is no daemon"

    def _words(self, first: str | None = None) -> list[str]:
        assert self._job.stdout is not None
        words = self._job.stdout.readline().split()
        if not words or (first is not None and words.pop(0) != first):
            raise RuntimeError(f"load ended; {self._daemon_log()}")
        return words


class Rig:
    """One simulated node, from its first program to its log."""

    def __init__(self, node: Node, binary: Path, ptx: Path, devices: int) -> None:
        self.node = node
        self._binary, self._ptx, self._devices = binary, ptx, devices
        self.loads: list[Load] = []

    def load(self, labels: Mapping[str, str] | None = None, **options: object) -> Load:
        """A program with these options of `load`; without labels it is not under gpud."""
        command = [self._binary, self._ptx, *(f"{key}={value}" for key, value in options.items())]
        managed = labels is not None
        job = self.node.run([str(part) for part in command], managed=managed, labels=labels, stdin=subprocess.PIPE)
        self.loads.append(Load(self.node, job, managed))
        return self.loads[-1]

    def log(self) -> DeviceLog:
        """Ends everything, and reads what was on the devices. Raises RuntimeError when that is no measurement."""
        for load in self.loads:
            load.finish()
        self.node.stop()
        until(lambda: _whole(self.node.device_log, self._devices), END_S, "the device log is whole")
        return read_log(self.node.device_log)


@contextmanager
def rig(
    kernels: Mapping[str, float | str],
    *,
    binary: Path,
    policy: str | None,
    policies: Mapping[str, str] | None = None,
    scale: float = 1.0,
    switch_ms: float | None = None,
    devices: int = 1,
) -> Iterator[Rig]:
    """A node whose devices take so long for kernels of these names (model ms; or several in a text; "": by blocks).

    `policies`: file names and texts, in place of the shipped ones; `policy` applies to every device, else those that
    `policies` says. Without both there is no daemon. `binary` is what `load_program` has compiled.
    """
    with tempfile.TemporaryDirectory(prefix="gpud-bench-") as name, own_policies(policies) as own:
        directory = Path(name)
        profile = _write_profile(directory, kernels, scale, switch_ms)
        ptx = directory / "kernels.ptx"
        ptx.write_text(PTX + "".join(f".visible .entry {kernel}()\n{{\n    ret;\n}}\n" for kernel in kernels))
        environment = {"GPUD_SIM_DEVICES": str(devices), "GPUD_SIM_PYTHON": sys.executable}
        node = Node(profile=str(profile), policy=policy, policies=own, environment=environment)
        try:
            if policy is not None or policies is not None:
                node.start()
            yield Rig(node, binary, ptx, devices)
        finally:
            node.close()


@contextmanager
def load_program() -> Iterator[Path]:
    """`native/load.c`, compiled."""
    with program(NATIVE / "load.c") as binary:
        yield binary


def costs_of(switches: Mapping[str, float]) -> str:
    """`0, 0.1, 0.76`"""
    return ", ".join(f"{ms:g}" for ms in switches.values())


def doubt(log: DeviceLog) -> float:
    """The share of device time that was waiting for late computations; above MOST_OVERRUN a run is no measurement."""
    busy = sum(counters.busy_ns for counters in log.counters)
    return sum(counters.overrun_ns for counters in log.counters) / busy if busy else 0.0


def together(loads: Sequence[Load], seconds: float, delay_s: float = 0.3) -> int:
    """Begins all of them at the same time, for so long; returns that time, CLOCK_MONOTONIC ns."""
    at = time.monotonic_ns() + int(delay_s * 1e9)
    for load in loads:
        load.begin(f"for {seconds} {at}")
    return at


def _write_profile(directory: Path, kernels: Mapping[str, float | str], scale: float, switch_ms: float | None) -> Path:
    (directory / f"{BASE}.toml").write_text((sim_dir() / "profiles" / f"{BASE}.toml").read_text())
    lines = [f'base = "{BASE}"', "[timing]", f"time_scale = {scale}"]
    lines += [f"switch_ms = {switch_ms}"] if switch_ms is not None else []
    lines += ["[kernels]", *(f'"{name}" = "{took}"' for name, took in kernels.items() if took)]
    profile = directory / "bench.toml"
    profile.write_text("\n".join(lines) + "\n")
    return profile


def _whole(log: Path, devices: int) -> bool:
    """The device process has said its last word of each."""
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - 16384, 0))
        return file.read().count(b'"type":"end"') >= devices
