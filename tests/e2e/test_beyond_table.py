"""More tenants on one device than a hook looks at by itself (16): ranks and shares hold for those beyond, too. On the
simulated GPU; its device log tells."""

import os
import signal
import time
from pathlib import Path

import pytest

from bench import device_log as truth
from bench.harness import HIGH_AND_LOW, policy_file
from bench.simulated import FULL, Load, rig, together
from gpud.testing.measured import Bounds, measured
from gpud.testing.node import until

pytestmark = pytest.mark.e2e

KERNELS = {"k500": 0.5, "endless": 100_000.0}
HIGHS = 20
TENANTS = 20
SCALE = 2.0
"""Wall time by model time: two cores keep up with it."""
SECONDS = 3.0
SECOND = 1_000_000_000
PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""
LOOKS = 10
"""So many of the daemon's at the low one, while it is held."""
RANKS = policy_file(
    "arbitrate preempt { order = [high, low]  resume_after = 1ms  max_pause = unlimited }", HIGH_AND_LOW
)
WEIGHTS = (1, 3)
"""By turns: a device that is sliced gives all of them the same."""
SHARES = policy_file(
    "arbitrate share { period = 20ms  reclaim = 2ms }",
    """class light { match label("weight") == "1"  per = tenant  share = burst(weight = 1) }
  class heavy { match any  per = tenant  share = burst(weight = 3) }""",
)


def held_by(high: Load, low: Load) -> tuple[int, int]:
    """`high` has work without end; `low` stands until `high` is killed. Between the two times it had to stand."""
    high.begin("go 1")
    until(lambda: low.stats().job.state == "held", PATIENCE_S, "low is held")
    since = time.monotonic_ns()
    entered = low.stats().launches
    for _ in range(LOOKS):
        assert low.stats().job.state == "held"
    ended = time.monotonic_ns()
    os.kill(high.pid, signal.SIGKILL)
    until(lambda: low.stats().launches > entered, PATIENCE_S, "low goes on")
    return since, ended


def test_each_of_twenty_high_ones_holds_low(binary: Path) -> None:
    """Whichever of them it is that works; the others are there, and idle."""
    with rig(KERNELS, binary=binary, policy="bench", policies=RANKS, switch_ms=0.1) as node:
        highs = [
            node.load({"tier": "online", "unit": str(n)}, kernels=f"endless:{FULL}:1", warm=0) for n in range(HIGHS)
        ]
        low = node.load({"tier": "batch"}, kernels=f"k500:{FULL}:1", depth=1)
        low.begin("for 600")
        until(lambda: low.stats().launches > 10, PATIENCE_S, "low works beside idle ones")
        stood = [held_by(high, low) for high in reversed(highs)]  # the oldest are in the table; who ends makes room
        assert not low.stats().hook_errors
        os.kill(low.pid, signal.SIGKILL)
        node.loads.clear()
        log = node.log()
    submitted = [kernel.submit_ns for kernel in log.kernels if kernel.pid == low.pid]
    for number, (since, ended) in enumerate(stood):
        first, last = log.model_ns(since), log.model_ns(ended)
        assert not [at for at in submitted if first <= at < last], f"high {number} from the last"


def test_twenty_share(binary: Path) -> None:
    """Each knows what its kernels take from before: while more than a table are at work nothing is measured alone."""
    measured(lambda bounds: _shares(binary, bounds))


def _shares(binary: Path, bounds: Bounds) -> None:
    with rig(KERNELS, binary=binary, policy="bench", policies=SHARES, scale=SCALE, switch_ms=0.0) as node:
        node.load({"weight": "1"}, kernels=f"k500:{FULL}:1", warm=0)  # it stays idle; who is alone is not measured
        weights = [WEIGHTS[number % 2] for number in range(TENANTS)]
        loads = [node.load({"weight": str(w)}, kernels=f"k500:{FULL}:2", depth=4, warm=50) for w in weights]
        start = together(loads, SECONDS)
        for load in loads:
            load.done()
        assert not any(load.stats().hook_errors for load in loads)
        log = node.log()
    first, last = log.model_ns(start + SECOND), log.model_ns(start + round(SECONDS * SECOND))
    had = [
        truth.within(truth.intervals(truth.work_of(log, [load.pid])), first, last) / (last - first) for load in loads
    ]
    print(had, sum(had))
    bounds.least(sum(had), 0.5, "of the device")
    for part, weight in zip(had, weights, strict=True):
        due = weight / sum(weights)
        bounds.near(part / sum(had), due, due / 2, "of what was used")
