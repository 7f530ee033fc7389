"""The shipped policies that share the GPU, as shipped, on real programs: `share-equal`, `share-mix`, `quotas` above it,
and `tidal-mix` at its hours. On the simulated GPU, whose log tells."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from bench import device_log as truth
from bench.simulated import FULL, Load, Rig, rig, together
from gpud.cli.sim.devicelog import DeviceLog
from gpud.native import shipped_policies
from gpud.testing.measured import Bounds, measured
from gpud.testing.node import until

pytestmark = pytest.mark.e2e

PROGRAMS = Path(__file__).parent / "programs"
KERNELS = {"k500": 0.5, "k1000": 1.0}
SCALE = 2.0
"""Wall time by model time: two cores keep up with it."""
SECONDS = 3.0
SECOND = 1_000_000_000
PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""
GOLD, A, B, NOBODY = {"plan": "gold"}, {"team": "a"}, {"team": "b"}, {"who": "nobody"}
SILVER = {"plan": "silver"}
CASES: Mapping[str, tuple[Sequence[str], Sequence[tuple[Mapping[str, str], float]]]] = {
    "equal": (["share-equal"], [(GOLD, 1 / 3), (A, 1 / 3), (NOBODY, 1 / 3)]),
    "mix": (["share-mix"], [(GOLD, 0.3), (A, 0.35), (B, 0.175), (NOBODY, 0.175)]),
    "mix, a team idle": (["share-mix"], [(GOLD, 0.3), (A, 0.35), (NOBODY, 0.35)]),
    "quotas": (["share-equal", "quotas"], [(GOLD, 0.4), (SILVER, 0.15), (NOBODY, 0.05)]),
}
"""Policies; who works, and what part of the device is theirs."""


def shipped(*names: str) -> dict[str, str]:
    """Their files, as they are, on each GPU."""
    files = {f"{name}.gpol": (shipped_policies() / f"{name}.gpol").read_text() for name in names}
    applied = ", ".join(f'"{name}"' for name in names)
    return files | {"site.gpol": f"gpol 1\napply {applied} to gpu *\n"}


def busy(node: Rig, labels: Mapping[str, str], *, odd: bool = False) -> Load:
    """It always has more to do than it gets; the odd ones more at a time, and half as long."""
    return node.load(labels, kernels=f"k500:{FULL}:8" if odd else f"k1000:{FULL}:2", depth=6)


def part(log: DeviceLog, load: Load, first_ns: int, last_ns: int) -> float:
    """Of the device, between two times of CLOCK_MONOTONIC."""
    first, last = log.model_ns(first_ns), log.model_ns(last_ns)
    return truth.within(truth.intervals(truth.work_of(log, [load.pid])), first, last) / (last - first)


@pytest.mark.parametrize("case", CASES)
def test_each_has_its_part(case: str, binary: Path) -> None:
    """Of the whole device where shares are promised, of what was used where they all want it."""
    names, due = CASES[case]
    measured(lambda bounds: _parts(names, due, binary, bounds))


def _parts(names: Sequence[str], due: Sequence[tuple[Mapping[str, str], float]], binary: Path, bounds: Bounds) -> None:
    with rig(KERNELS, binary=binary, policy=None, policies=shipped(*names), scale=SCALE, switch_ms=0.0) as node:
        loads = [busy(node, labels, odd=bool(number % 2)) for number, (labels, _) in enumerate(due)]
        start = together(loads, SECONDS)
        for load in loads:
            load.done()
        assert not any(load.stats().hook_errors for load in loads)
        log = node.log()
    had = [part(log, load, start + SECOND, start + round(SECONDS * SECOND)) for load in loads]
    print(had)
    whole = sum(had) if sum(wanted for _, wanted in due) > 0.99 else 1
    for one, (labels, wanted) in zip(had, due, strict=True):
        bounds.near(one / whole, wanted, max(wanted / 4, 0.025), str(labels))
    bounds.least(sum(had), 0.75 * sum(wanted for _, wanted in due), "of the device")


class Hour:
    """The wall clock of all processes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def is_now(self, text: str) -> None:
        there = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Asia/Shanghai")).timestamp()
        fresh = self._path.with_suffix(".fresh")
        fresh.write_text(str(round(there - time.time())))
        fresh.rename(self._path)


def test_the_tide_turns(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more training is let in from a quarter to eight, and at eight it stands; at ten at night it goes on, and may
    have twice what serving may. (Serving leaves time, and hardly waits: else training stands at any hour.)"""
    clock = tmp_path / "hour.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(PROGRAMS / "hour.c"), "-o", str(clock)], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(clock))
    monkeypatch.setenv("HOUR_FILE", str(tmp_path / "hour"))
    measured(lambda bounds: _tide(binary, Hour(tmp_path / "hour"), bounds))


def _tide(binary: Path, hour: Hour, bounds: Bounds) -> None:
    hour.is_now("2026-03-02 07:30")  # a Monday
    with rig(KERNELS, binary=binary, policy=None, policies=shipped("tidal-mix"), scale=SCALE, switch_ms=0.0) as node:
        serving = node.load({"tier": "online"}, kernels=f"k500:{FULL}:1", think_us=4000)
        training = node.load({"tier": "batch"}, kernels=f"k500:{FULL}:1", depth=2)
        together([serving, training], 600)
        hour.is_now("2026-03-02 07:44:58")
        more(training, 20)
        another = until(lambda: _refused(node), PATIENCE_S, "no more training is let in")
        assert "training" in another
        more(training, 20)
        hour.is_now("2026-03-02 07:59:58")
        until(lambda: _paused(node, training), PATIENCE_S, "training stands")
        day, launches = time.monotonic_ns(), training.stats().launches
        more(serving, 300)
        night = time.monotonic_ns()
        assert training.stats().launches == launches
        hour.is_now("2026-03-02 21:59:58")
        more(training, 20)
        until(lambda: _share(training) == pytest.approx(2 / 3, abs=0.01), PATIENCE_S, "its share is of the night")
        assert _share(serving) == pytest.approx(1 / 3, abs=0.01)
        later, rounds = time.monotonic_ns(), serving.stats().launches
        until(lambda: serving.stats().launches > rounds + 200, PATIENCE_S, "a part of the night")
        ended = time.monotonic_ns()
        assert not any(load.stats().hook_errors for load in (serving, training))
        for load in (serving, training):
            os.kill(load.pid, signal.SIGKILL)
        node.loads.clear()
        log = node.log()
    assert part(log, training, day, night) == 0
    bounds.least(part(log, training, later, ended), 0.4, "of the device at night is training's")
    bounds.least(part(log, serving, later, ended), 0.03, "and serving goes on")


def _paused(node: Rig, load: Load) -> bool:
    """Does a rule of the policy pause it, and does it stand?"""
    job = load.stats().job
    with node.node.client() as client:
        (device,) = client.why(job.id).devices
    found = [(one.because.policy, one.because.value) for one in device.knobs if one.because.knob == "training.pause"]
    return found == [("tidal-mix", "true")] and job.state == "held"


def _share(load: Load) -> float | None:
    return load.stats().job.time[0].share


def more(load: Load, by: int) -> None:
    before = load.stats().launches
    until(lambda: load.stats().launches >= before + by, PATIENCE_S, "it launches")


def _refused(node: Rig) -> str:
    """What a new job of training is told, if it is not let in."""
    job = node.node.run(["true"], labels={"tier": "batch"}, stderr=subprocess.PIPE)
    _, said = job.communicate(timeout=PATIENCE_S)
    return said if job.returncode == 77 else ""
