"""A program of a higher rank is stopped (SIGSTOP) with work on the device: what it says of itself stays as it was, and
nobody can ask it. On the simulated GPU, whose log tells."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from bench.harness import HIGH_AND_LOW, policy_file
from bench.simulated import FULL, Load, rig
from gpud.testing.node import until

pytestmark = pytest.mark.e2e

KERNELS = {"k500": 0.5, "k1000": 1.0}
PAUSE_S = 0.3
SECOND = 1_000_000_000
PATIENCE_S = 60
"""What is waited for comes in seconds, or never."""
MANY = 200
"""Launches of low; one each PAUSE_S, they would take a minute."""
RANKS = policy_file(
    f"arbitrate preempt {{ order = [high, low]  resume_after = 50ms  max_pause = {PAUSE_S * 1000:.0f}ms }}",
    HIGH_AND_LOW,
)


def send(load: Load, number: signal.Signals, status: str | None = None) -> int:
    """Returns when it was so, CLOCK_MONOTONIC ns."""
    os.kill(load.pid, number)
    if status:
        until(lambda: psutil.Process(load.pid).status() == status, PATIENCE_S, status)
    return time.monotonic_ns()


def goes_on(load: Load, by: int) -> None:
    before = load.stats().launches
    until(lambda: load.stats().launches >= before + by, PATIENCE_S, "it launches")


def held(load: Load) -> None:
    until(lambda: load.stats().job.state == "held", PATIENCE_S, "it is held")


def test_low_goes_on_by_the_policy_then_by_the_watchdog_and_high_has_its_rank_again(binary: Path) -> None:
    """While high stands, low has a kernel each `max_pause`; after ten seconds in which high has used nothing it has the
    device. A high that goes on holds it as before, each time."""
    with rig(KERNELS, binary=binary, policy="bench", policies=RANKS, switch_ms=0.1) as node:
        high = node.load({"tier": "online"}, kernels=f"k1000:{FULL}:4", depth=4)
        low = node.load({"tier": "batch"}, kernels=f"k500:{FULL}:1", depth=1)
        high.begin("for 600")
        goes_on(high, 100)
        low.begin("for 600")
        held(low)
        stopped = send(high, signal.SIGSTOP, psutil.STATUS_STOPPED)
        passed = low.stats().passed
        until(lambda: low.stats().passed >= passed + 4, PATIENCE_S, "one after another gets through")
        ended = send(high, signal.SIGCONT)
        goes_on(high, 100)
        held(low)
        launches = high.stats().launches
        send(high, signal.SIGSTOP, psutil.STATUS_STOPPED)
        goes_on(low, MANY)
        assert high.stats().launches <= launches + 1000, "it stands"
        assert "used nothing of it and finished nothing" in node.node.log.read_text()
        send(high, signal.SIGCONT)
        goes_on(high, 100)
        held(low)
        again = time.monotonic_ns()
        goes_on(high, 500)
        later = time.monotonic_ns()
        assert not any(load.stats().hook_errors or load.stats().launches_failed for load in (high, low))
        for load in (high, low):
            os.kill(load.pid, signal.SIGKILL)
        node.loads.clear()
        log = node.log()
    submitted = [kernel.submit_ns for kernel in log.kernels if kernel.pid == low.pid]
    for since, until_ns, least in ((stopped, ended, 3), (again, later, 0)):
        first, last = log.model_ns(since), log.model_ns(until_ns)
        count = sum(first <= at < last for at in submitted)
        assert least <= count <= (last - first) / SECOND / PAUSE_S + 2
