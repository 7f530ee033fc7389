"""What lets low through while high works without end: `pass` each `max_pause`, and `rise_after`. On the simulated GPU,
whose log tells."""

import itertools
import os
import signal
import time
from pathlib import Path

import pytest

from bench.harness import HIGH_AND_LOW, policy_file
from bench.simulated import FULL, Load, rig
from gpud.testing.measured import Bounds, measured
from gpud.testing.node import until

pytestmark = pytest.mark.e2e

KERNELS = {"k500": 0.5, "k1000": 1.0}
SECOND = 1_000_000_000
PATIENCE_S = 60
"""What is waited for comes in seconds, or never."""
PAUSE_MS, PASS_MS, KERNEL_MS = 400, 10, 0.5
PASSES = policy_file(
    "arbitrate preempt { order = [high, low]  resume_after = 1ms  "
    f"max_inflight_time = 20ms  max_pause = {PAUSE_MS}ms  pass = {PASS_MS}ms }}",
    HIGH_AND_LOW,
)
RISES_S = 3
RISES = policy_file(
    "arbitrate preempt { order = [high, low]  resume_after = 1ms  max_pause = unlimited }",
    f'class high {{ match label("tier") == "online" }}  class low {{ match any  rise_after = {RISES_S}s }}',
)


def launched(load: Load, by: int) -> None:
    before = load.stats().launches
    until(lambda: load.stats().launches >= before + by, PATIENCE_S, "it launches")


def end(*loads: Load) -> None:
    for load in loads:
        os.kill(load.pid, signal.SIGKILL)


def test_a_pause_ends_with_as_much_gpu_time_as_the_policy_says(binary: Path) -> None:
    """Ten milliseconds of kernels that take half a one: some twenty, each time. Without `pass` it would be one."""
    measured(lambda bounds: _passes(binary, bounds))


def _passes(binary: Path, bounds: Bounds) -> None:
    with rig(KERNELS, binary=binary, policy="bench", policies=PASSES, switch_ms=0.0) as node:
        high = node.load({"tier": "online"}, kernels=f"k1000:{FULL}:4", depth=4)
        low = node.load({"tier": "batch"}, kernels=f"k500:{FULL}:1", depth=64, warm=100)
        high.begin("for 600")
        launched(high, 100)
        low.begin("for 600")
        until(lambda: low.stats().passed > 0, PATIENCE_S, "the first pause is over")
        since, passed = time.monotonic_ns(), low.stats().launches
        until(lambda: low.stats().launches > passed + 4 * PASS_MS / KERNEL_MS, PATIENCE_S, "and three more")
        assert not any(load.stats().hook_errors for load in (high, low))
        end(high, low)
        node.loads.clear()
        log = node.log()
    first = log.model_ns(since)
    submitted = sorted(
        kernel.submit_ns for kernel in log.kernels if kernel.pid == low.pid and kernel.submit_ns >= first
    )
    groups: list[list[int]] = []
    for at in submitted:
        if groups and at - groups[-1][-1] < PAUSE_MS / 2 * 1e6:
            groups[-1].append(at)
        else:
            groups.append([at])
    print([len(group) for group in groups])
    for group in groups[1:-1]:
        bounds.near(len(group) * KERNEL_MS, PASS_MS, PASS_MS / 2, "ms that get through")
    for one, later in itertools.pairwise(groups):
        bounds.least((later[0] - one[0]) / 1e6, PAUSE_MS * 0.9, "ms from one to the next")


def test_who_is_there_for_long_enough_rises(binary: Path) -> None:
    """To the rank of high, which then holds it no more; a low that has just come is held."""
    with rig(KERNELS, binary=binary, policy="bench", policies=RISES, switch_ms=0.1) as node:
        high = node.load({"tier": "online"}, kernels=f"k1000:{FULL}:4", depth=4)
        high.begin("for 600")
        launched(high, 100)
        began = time.monotonic_ns()
        low = node.load({"tier": "batch"}, kernels=f"k500:{FULL}:1", depth=1, warm=0)
        low.begin("for 600")
        launched(low, 1)
        waited_ns = (
            time.monotonic_ns() - began
        )  # the policy's clock: that of the device stands while it is computed late
        launched(low, 50)
        launched(high, 50)
        fresh = node.load({"tier": "batch"}, kernels=f"k500:{FULL}:1", depth=1, warm=0)
        fresh.begin("for 600")
        until(lambda: fresh.stats().job.state == "held", PATIENCE_S, "who has just come is held")
        with node.node.client() as client:
            ranks = [client.why(load.stats().job.id).devices[0].rank for load in (high, low)]
        assert not any(load.stats().hook_errors for load in (high, low))
        end(high, low, fresh)
        node.loads.clear()
    assert ranks[0] == ranks[1]
    assert waited_ns / SECOND >= RISES_S
