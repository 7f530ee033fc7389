"""Tenants that are nothing alike share the simulated GPU by what they use, not by how: kernels longer than a turn, tiny
ones without number, a tree of processes; launches larger than a budget, limits that fall, work that never ends."""

import itertools
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench import device_log as truth
from bench.device_log import Interval
from bench.harness import HIGH_AND_LOW, policy_file
from bench.simulated import FULL, PTX, Load, Rig, rig, together
from gpud.cli.sim.devicelog import DeviceLog
from gpud.model.views import JobStats
from gpud.testing.measured import Bounds, measured
from gpud.testing.node import until

pytestmark = pytest.mark.e2e

PROGRAMS = Path(__file__).parent / "programs"
SECOND = 1_000_000_000
MS = 1_000_000
KERNELS = {"tiny": 0.01, "k500": 0.5, "k1000": 1.0, "long": 15.0, "huge": 60.0, "endless": 100_000.0}
EQUAL = policy_file(
    "arbitrate share { period = 20ms  reclaim = 2ms }", "class all { match any  per = tenant  share = equal }"
)


def stats(node: Rig) -> dict[str, JobStats]:
    with node.node.client() as client:
        return {one.job.labels["unit"]: one for one in client.stats()}


def spans(log: DeviceLog, pids: Sequence[int], device: int | None = None) -> list[Interval]:
    return truth.intervals(truth.work_of(log, pids, device))


def tree(node: Rig, binary: Path, ptx: Path, order: Path) -> tuple[int, ...]:
    """One job of two processes, which a shell has made; they do what is in the file `order`, once it is there. Their
    pids."""
    ptx.write_text(PTX + ".visible .entry k500()\n{\n    ret;\n}\n")
    load = shlex.join([str(binary), str(ptx), f"kernels=k500:{FULL}:4", "depth=4"])
    waits = f"until cat {shlex.quote(str(order))} 2>/dev/null; do sleep 0.05; done; sleep 60"
    script = f"go() {{ ({waits}) | {load}; }}; go & go"
    node.node.run(["sh", "-c", script], labels={"unit": "tree"}, stdout=subprocess.DEVNULL)

    def both() -> tuple[int, ...] | None:
        found = stats(node).get("tree")
        return found.job.pids if found and len(found.job.pids) == 2 else None

    return until(both, 60, "both are there")


def test_each_has_its_part_while_the_wall_clock_jumps(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with kernels longer than a period, one with kernels of microseconds, one of two processes, and an even
    one. In each process, the daemon among them, the wall clock jumps by an hour each time it is asked."""
    steps, says = tmp_path / "steps.so", tmp_path / "says"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(PROGRAMS / "steps.c"), "-o", str(steps)], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(steps))
    monkeypatch.setenv("STEPS_SAYS", str(says))
    measured(lambda bounds: _uneven(binary, tmp_path, says, bounds))


def _uneven(binary: Path, tmp_path: Path, says: Path, bounds: Bounds) -> None:
    seconds = 3.0
    with rig(KERNELS, binary=binary, policy="bench", policies=EQUAL, scale=2.0, switch_ms=0.1) as node:
        kinds: Mapping[str, str] = {"even": f"k1000:{FULL}:2", "long": f"long:{FULL}:1", "tiny": f"tiny:{FULL}:50"}
        loads = {name: node.load({"unit": name}, kernels=kernels, depth=6) for name, kernels in kinds.items()}
        order = tmp_path / "order"
        order.unlink(missing_ok=True)
        pids = {"tree": tree(node, binary, tmp_path / "tree.ptx", order)}
        start = together([*loads.values()], seconds, delay_s=0.5)
        (tmp_path / "written").write_text(f"for {seconds} {start}\n")
        (tmp_path / "written").rename(order)
        for load in loads.values():
            load.done()
        found = stats(node)
        assert node.node.daemon is not None
        assert Path(f"{says}.{node.node.daemon.pid}").exists()
        log = node.log()
    pids |= {name: (load.pid,) for name, load in loads.items()}
    first, last = log.model_ns(start + SECOND), log.model_ns(start + int((seconds - 0.1) * SECOND))
    had = {name: truth.within(spans(log, own), first, last) for name, own in pids.items()}
    parts = {name: one / sum(had.values()) for name, one in had.items()}
    used = sum(had.values()) / (last - first)
    print(parts, used, {name: (one.launches, one.spent_ns, one.clean) for name, one in found.items()})
    for name, part in parts.items():
        bounds.near(part, 0.25, 0.07, name)  # shares by process: 0.4 for the tree; by launches: nearly all for the long
    bounds.least(used, 0.7, "of the device")
    assert not any(one.hook_errors or one.launches_failed for one in found.values())


PAID = 6
"""After so many launches. The first ones pass until what they cost is known; it is charged then."""
LIMITS = policy_file(
    """arbitrate open {}
  falls.max_compute = 50%
  when other.active until other.idle_for > 1min { falls.max_compute = 10% }""",
    """class falls { match label("unit") == "falls" }
  class other { match label("unit") == "other" }
  class rest  { match any  limit { compute = 20% } }""",
)


def test_a_launch_larger_than_its_budget_and_a_limit_that_falls(binary: Path) -> None:
    """The launch passes, and is paid back to the last of it. Who has used more than the new limit allows goes on
    at that limit."""
    measured(lambda bounds: _larger_and_falling(binary, bounds))


def _larger_and_falling(binary: Path, bounds: Bounds) -> None:
    with rig(KERNELS, binary=binary, policy="bench", policies=LIMITS, devices=2, switch_ms=0.1) as node:
        falls = node.load({"unit": "falls"}, kernels=f"k500:{FULL}:2", depth=8)
        other = node.load({"unit": "other"}, kernels=f"k500:{FULL}:1", think_us=20000, warm=0)
        huge = node.load({"unit": "rest"}, kernels=f"huge:{FULL}:1", depth=1, device=1, warm=0)
        start = together([falls, huge], 3.6)
        lowered = start + SECOND * 8 // 5
        other.begin(f"for 2.0 {lowered}")
        for load in (falls, other, huge):
            load.done()
        found = stats(node)
        log = node.log()
    own = spans(log, [falls.pid])

    def part(first: int, last: int) -> float:
        return truth.within(own, first, last) / (last - first)

    came = min(kernel.submit_ns for kernel in log.kernels if kernel.pid == other.pid)
    bounds.near(part(log.model_ns(start + SECOND // 2), came), 0.5, 0.1, "before")
    bounds.near(part(came + SECOND * 3 // 10, log.model_ns(start + SECOND * 7 // 2)), 0.1, 0.05, "lowered")
    begins = sorted(kernel.start_ns for kernel in log.kernels if kernel.pid == huge.pid)
    gaps = [(b - a) / SECOND for a, b in itertools.pairwise(begins)]
    bounds.least(sum(gaps[:PAID]), PAID * 0.3 * 0.95, "60 ms at 20 %: all is paid back")
    later = gaps[PAID:]
    bounds.least(len(later), 3, "launches after that")
    bounds.near(sum(later) / max(len(later), 1), 0.3, 0.05, "60 ms at 20 %")
    assert not any(one.hook_errors or one.launches_failed for one in found.values())


RANKS = policy_file(
    "arbitrate preempt { order = [high, low]  resume_after = 1ms  max_inflight = 2  max_pause = 300ms }", HIGH_AND_LOW
)


@pytest.mark.parametrize("policies", [RANKS, EQUAL], ids=["preempt", "share"])
def test_low_never_finishes(policies: Mapping[str, str], binary: Path) -> None:
    """Its kernel cannot be taken off the device, which slices between the two; but it holds nobody, and its end gives
    everything back."""
    measured(lambda bounds: _endless(policies, binary, bounds))


def _endless(policies: Mapping[str, str], binary: Path, bounds: Bounds) -> None:
    with rig(KERNELS, binary=binary, policy="bench", policies=policies, switch_ms=0.1) as node:
        high = node.load({"unit": "high", "tier": "online"}, kernels=f"k500:{FULL}:4", depth=4)
        low = node.load({"unit": "low", "tier": "batch"}, kernels=f"endless:{FULL}:1", depth=64, warm=0)
        low.begin("go 50")
        until(lambda: stats(node)["low"].job.state in ("active", "held"), 60, "low launches")
        start = together([high], 1.5)
        high.done()
        found = stats(node)
        assert found["low"].job.state in ("active", "held")
        ended = time.monotonic_ns()
        _kill(low)
        with node.node.client() as client:
            until(lambda: len(client.ps()) == 1, 60, "low is gone")
        again = together([high], 0.8)
        high.done()
        node.loads.remove(low)
        log = node.log()
    assert ended > start
    own = spans(log, [high.pid])

    def part(begin: int, seconds: float) -> float:
        first, last = log.model_ns(begin), log.model_ns(begin + int(seconds * SECOND))
        return truth.within(own, first, last) / (last - first)

    bounds.least(part(start + SECOND // 2, 0.9), 0.35, "half of what the device slices")
    bounds.least(part(again + SECOND // 10, 0.6), 0.75, "alone")
    assert (found["high"].passed, found["high"].hook_errors, found["low"].hook_errors) == (0, 0, 0)


def _kill(load: Load) -> None:
    subprocess.run(["kill", "-9", str(load.pid)], check=True)
