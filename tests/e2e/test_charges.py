"""What is charged for GPU time is what the device gave, by its log: all kinds of kernels, alone and beside another."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import device_log as truth
from bench.harness import HIGH_AND_LOW, policy_file
from bench.simulated import FULL, Done, Load, Rig, rig
from gpud.model.views import JobStats
from gpud.testing.measured import Bounds, measured
from gpud.testing.node import until

pytestmark = pytest.mark.e2e

CHARGED = policy_file("arbitrate open {}\n  when all.busy > 99% for 1h { all.max_inflight = 1000 }")
"""Holds nothing; but launches are charged, since a rule asks for it."""
KERNELS: Mapping[str, float | str] = {
    "tiny": 0.02,
    "short": 0.2,
    "long": 5.0,
    "varied": "0.1 0.2 0.4 0.8",
    "grid": "",
    "step": 0.3,
}
CASES: Mapping[str, Mapping[str, object]] = {
    "small kernels": {"kernels": f"tiny:{FULL}:50", "depth": 8},
    "longer than a slice": {"kernels": f"long:{FULL}:2", "depth": 4},
    "by their data": {"kernels": f"varied:{FULL}:20", "depth": 16},
    "several grids of one function": {"kernels": f"grid:{FULL}:5,grid:{8 * FULL}:5,grid:{40 * FULL}:2", "depth": 8},
    "graphs": {"kernels": f"step:{FULL}:5,short:{FULL}:2", "graph": 1, "depth": 8},
    "several streams": {"kernels": f"short:{FULL}:8", "streams": 3, "depth": 16},
    "each waited for": {"kernels": f"short:{FULL}:5,long:{FULL}:1", "think_us": 2000},
}


def windowed(launches: int) -> Mapping[str, str]:
    arbiter = f"arbitrate preempt {{ order = [high, low]  resume_after = 1ms  max_inflight = {launches} }}"
    return policy_file(arbiter, HIGH_AND_LOW)


def settled(load: Load) -> JobStats:
    """Once all is finished, and what was drawn in advance is given back."""
    until(lambda: load.stats().job.state == "idle", 60, "the tenant is idle")
    spent = [-1, load.stats().spent_ns]
    while spent[-1] != spent[-2]:
        time.sleep(0.06)  # the keeper reads what was measured last
        spent.append(load.stats().spent_ns)
    return load.stats()


class Charged:
    """One tenant, from here on."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self._before = settled(load)

    def end(self) -> None:
        self._after = settled(self.load)
        self.samples = self._after.samples - self._before.samples
        self.clean = self._after.clean - self._before.clean

    def judge(self, node: Rig, done: Done, bounds: Bounds) -> None:
        """Charged is what was true; for launches, for waiting or for another's time it would be far from it. Ends the
        node."""
        log = node.log()
        work = truth.intervals(truth.work_of(log, [self.load.pid]))
        begin, end = log.model_ns(done.begin_ns), log.model_ns(done.end_ns)
        true = truth.within(work, begin, end) * log.header.time_scale
        bounds.near((self._after.spent_ns - self._before.spent_ns) / true, 1, 0.1, "charged ÷ true")


@pytest.mark.parametrize(("case", "scale"), [*((case, 1.0) for case in CASES), ("small kernels", 5.0), ("graphs", 0.5)])
def test_alone(case: str, scale: float, binary: Path) -> None:
    """GPU time is wall time, whatever the device's clock is: the driver says what its events' times are worth."""

    def attempt(bounds: Bounds) -> None:
        with rig(KERNELS, binary=binary, policy="bench", policies=CHARGED, switch_ms=0.1, scale=scale) as node:
            load = node.load({"unit": "a"}, **CASES[case], warm=0)
            load.begin("for 0.3")
            load.done()
            charged = Charged(load)
            load.begin("for 0.7")
            done = load.done()
            charged.end()
            assert charged.clean == charged.samples, "nobody else is there"
            charged.judge(node, done, bounds)

    measured(attempt)


def test_another_tenant_part_of_the_time(binary: Path) -> None:
    """Both in slices of 2 ms while both are at work; costs are learned while one is alone, or told apart."""

    def attempt(bounds: Bounds) -> None:
        with rig(KERNELS, binary=binary, policy="bench", policies=CHARGED, switch_ms=0.1) as node:
            load = node.load({"unit": "a"}, **CASES["by their data"], warm=0)
            other = node.load({"unit": "b"}, kernels=f"short:{FULL}:10,long:{FULL}:1", depth=4, warm=0)
            charged = Charged(load)
            load.begin("for 2")
            for _ in range(3):
                time.sleep(0.3)  # alone
                other.begin("for 0.3")
                other.done()
            done = load.done()
            charged.end()
            bounds.least(charged.clean, 1, "measured alone")
            bounds.least(charged.samples - charged.clean, 1, "measured beside the other")
            charged.judge(node, done, bounds)

    measured(attempt)


@pytest.mark.parametrize(
    ("policies", "most"),
    [(CHARGED, 100), (windowed(64), 400), (windowed(16), 500)],
    ids=["charged", "window of 64", "window of 16"],
)
def test_driver_calls(policies: Mapping[str, str], most: float, binary: Path) -> None:
    """Per 1,000 launches, once costs are known: one for each or two would be 1,000 or 2,000."""

    def attempt(bounds: Bounds) -> None:
        with rig(KERNELS, binary=binary, policy="bench", policies=policies, switch_ms=0.1) as node:
            load = node.load({"unit": "a"}, kernels=f"short:{FULL}:50", depth=40, warm=0)
            load.begin("for 0.3")
            load.done()
            before = settled(load)
            load.begin("for 0.7")
            load.done()
            after = settled(load)
            assert after.calls > before.calls
            calls = (after.calls - before.calls) * 1000 / (after.launches - before.launches)
            bounds.most(calls, most, "calls per 1,000 launches")

    measured(attempt)
