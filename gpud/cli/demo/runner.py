"""Runs the demo: fresh processes and a fresh simulated node for each run, in a directory of its own."""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen

from gpud.cli.demo import runs
from gpud.cli.demo.children import Child, Children, Line, Tick
from gpud.cli.demo.figures import (
    Possible,
    Request,
    RunFigures,
    Unusable,
    doubts,
    possible,
    simulated_run,
)
from gpud.cli.demo.real import real_run
from gpud.cli.demo.runs import RUNS, Run
from gpud.cli.failure import Failure
from gpud.cli.sim.devicelog import BadLog, DeviceLog, read_log
from gpud.config import load_config
from gpud.control.client import Client

READY_S = 90.0
"""A program must have compiled and warmed up by then."""
STOP_S = 30.0


@frozen(kw_only=True)
class Outcome:
    """All that the demo found out."""

    simulated: bool
    device: str
    profile: str | None
    time_scale: float | None
    runs: dict[str, RunFigures]
    null: RunFigures | None
    limits: Possible | None
    doubts: list[str]


class Demo:
    """One demo. `progress(done_s, of_s, words)` is called while it runs, in seconds of measured time. `inside`: a
    directory for all its files, where somebody watches its daemons; then runs that have one come first."""

    def __init__(
        self,
        *,
        simulated: bool,
        seconds: float,
        seed: int,
        progress: Callable[[float, float, str], None],
        inside: Path | None = None,
    ) -> None:
        self._simulated = simulated
        self._seconds = seconds
        self._seed = seed
        self._progress = progress
        self._logs: dict[str, DeviceLog] = {}
        self._rounds: dict[str, int] = {}
        self._overhead_s = 3.0
        self._inside = inside

    def run(self) -> Outcome:
        """All runs. Raises `Failure`. Leaves nothing behind, whatever happens."""
        chosen = [run for run in RUNS if self._simulated or not run.elsewhere]
        if self._inside is not None and self._simulated:  # a real device's first run finds out how long kernels take
            chosen.sort(key=lambda run: not run.managed)
        weights = {run.name: run.seconds(self._seconds) + self._overhead_s for run in chosen}
        total, done = sum(weights.values()), 0.0
        found: dict[str, RunFigures] = {}
        with contextlib.ExitStack() as stack:
            made = self._inside or stack.enter_context(tempfile.TemporaryDirectory(prefix="gpud-demo-"))
            directory = Path(made)
            with Children(directory) as children:
                if not self._simulated:
                    self._calibrate(children, directory)
                for run in chosen:
                    tick = _RunTick(self._progress, done, total, weights[run.name], run.words)
                    found[run.name] = self._one(run, children, directory, tick)
                    done += weights[run.name]
                    self._progress(done, total, run.words)
        return self._outcome({run.name: found[run.name] for run in RUNS if run.name in found})

    def _one(self, run: Run, children: Children, directory: Path, tick: Tick) -> RunFigures:
        node = f"demo-{os.getpid()}-{run.name}"
        environment = runs.environment(run, simulated=self._simulated, directory=directory, node=node)
        seconds = run.seconds(self._seconds)
        simulated = self._simulated
        daemon = training = None
        if run.managed:
            daemon = children.start("the daemon", runs.serve_command(run, simulated=simulated), environment)
            self._wait_for_daemon(daemon, Path(environment["GPUD_RUNTIME_DIR"]), tick)
        if run.training:
            command = runs.training_command(run, simulated=simulated, seconds=seconds + 300, rounds=self._rounds)
            training = children.start("training", command, environment)
        command = runs.serving_command(run, simulated=simulated, seconds=seconds, seed=self._seed, rounds=self._rounds)
        serving = children.start("serving", command, environment)
        if training is not None:
            training.wait_for("ready", READY_S, tick)
        ready = serving.wait_for("ready", READY_S, tick)
        if daemon is not None and training is not None:
            self._wait_until_managed(environment, {"high": _pid(serving), "low": _pid(training)}, tick)
        serving.go()
        start = int(serving.wait_for("start", STOP_S, tick)["start"])
        self._rounds.setdefault("short" if run.short else "serve", int(ready["rounds"]))
        summary = serving.finish(seconds * 5 + 60, tick)
        correct = bool(summary["correct"]) and serving.process.returncode == 0
        if training is not None:
            training.process.terminate()
            correct = bool(training.finish(STOP_S, tick)["correct"]) and training.process.returncode == 0 and correct
        if daemon is not None:
            if daemon.process.poll() is not None:
                raise Failure(f"the daemon ended during the run (exit code {daemon.process.returncode}){daemon.said()}")
            daemon.process.terminate()
        if not children.settle(STOP_S, tick):
            raise Failure(f"{run.words}: a process did not end within {STOP_S:.0f} s; it was killed")
        return self._figures(run, directory, serving, training, (start, start + int(seconds * 1e9)), correct)

    def _figures(
        self,
        run: Run,
        directory: Path,
        serving: Child,
        training: Child | None,
        window: tuple[int, int],
        correct: bool,
    ) -> RunFigures:
        requests = [_request(line) for line in serving.lines if line.get("event") == "request"]
        if not requests:
            raise Failure(f"{run.words}: no request arrived", "measure for longer: --seconds")
        if not self._simulated:
            return real_run(run, requests, training.lines if training else None, window=window, correct=correct)
        try:
            self._logs[run.name] = log = read_log(runs.log_file(run, directory))
            return simulated_run(
                run.name,
                log,
                requests,
                window=window,
                serving_kernels=runs.KERNELS,
                serving=_pid(serving),
                training=_pid(training) if training else None,
                correct=correct,
            )
        except (BadLog, Unusable) as error:
            raise Failure(f"the simulated device's log cannot be used: {error}") from None

    def _wait_for_daemon(self, daemon: Child, directory: Path, tick: Tick) -> None:
        """Until both sockets are there; the daemon makes them last."""
        deadline = time.monotonic() + STOP_S
        while not ((directory / "hook.sock").exists() and (directory / "control.sock").exists()):
            tick()
            if daemon.process.poll() is not None:
                raise Failure(f"the daemon ended (exit code {daemon.process.returncode}){daemon.said()}")
            if time.monotonic() > deadline:
                raise Failure(f"the daemon did not listen within {STOP_S:.0f} s{daemon.said()}")
            time.sleep(0.01)

    def _wait_until_managed(self, environment: Mapping[str, str], expected: Mapping[str, int], tick: Tick) -> None:
        """Until the daemon has both programs in their classes: figures of an unmanaged run would mean nothing."""
        deadline = time.monotonic() + STOP_S
        with Client(load_config(environment)) as client:
            while True:
                found = {(job.job_class, pid) for job in client.ps() for pid in job.pids}
                if found >= set(expected.items()):
                    return
                if time.monotonic() > deadline:
                    raise Failure(
                        f"the hook did not attach to the daemon: of class and pid it has {sorted(found)}, "
                        f"not {sorted(expected.items())}",
                        "see: gpud doctor",
                    )
                tick()
                time.sleep(0.02)

    def _calibrate(self, children: Children, directory: Path) -> None:
        """On a real device: how many rounds make a training step last 2 ms, found while nothing else runs."""
        run = Run(name="calibrate", words="calibrating", training=True)
        environment = runs.environment(run, simulated=False, directory=directory, node="")
        command = runs.training_command(run, simulated=False, seconds=0.2, rounds={})
        training = children.start("training", command, environment)
        tick = Tick()
        self._rounds["train"] = int(training.wait_for("ready", READY_S, tick)["rounds"])
        training.finish(STOP_S, tick)

    def _outcome(self, found: dict[str, RunFigures]) -> Outcome:
        null = found.pop("null", None)
        run = next(run for run in RUNS if run.name == "alone")
        log = self._logs.get("preempt-mix")
        step_ms = found["preempt-mix"].training_step_ms or runs.KERNEL_MS
        limits = None
        if found["alone"].gpu_busy is not None:
            limits = possible(
                found["alone"],
                step_ms=step_ms,
                rate_per_s=1e3 / run.gap_ms,
                resume_after_ms=runs.RESUME_AFTER_MS,
                window_ms=step_ms * runs.MAX_INFLIGHT,
                switch_ms=log.header.switch_ns / 1e6 if log else 0.0,
            )
        return Outcome(
            simulated=self._simulated,
            device="simulated" if self._simulated else "real",
            profile=log.header.profile if log else None,
            time_scale=log.header.time_scale if log else None,
            runs=found,
            null=null,
            limits=limits,
            doubts=doubts(found, null),
        )


class _RunTick(Tick):
    """Turns the time since a run began into progress, never past the run's share of the whole."""

    def __init__(
        self, progress: Callable[[float, float, str], None], done: float, total: float, weight: float, words: str
    ) -> None:
        self._progress = progress
        self._done = done
        self._total = total
        self._weight = weight
        self._words = words
        self._begin = time.monotonic()
        progress(done, total, words)

    def __call__(self) -> None:
        passed = min(time.monotonic() - self._begin, self._weight)
        self._progress(self._done + passed, self._total, self._words)


def _pid(child: Child) -> int:
    """Of the program itself, which may be a child of `gpud run`."""
    return int(next(line["pid"] for line in child.lines if line.get("event") == "ready"))


def _request(line: Line) -> Request:
    return Request(
        number=int(line["number"]),
        arrival_ns=int(line["arrival"]),
        begin_ns=int(line["begin"]),
        end_ns=int(line["end"]),
    )


def write_picture(path: Path, document: str) -> None:
    """Writes the picture, replacing what was there. Raises `Failure`."""
    try:
        path.write_text(document, encoding="utf-8")
    except OSError as error:
        raise Failure(
            f"cannot write the picture {path}: {(error.strerror or str(error)).lower()}", "name another file with --out"
        ) from None
