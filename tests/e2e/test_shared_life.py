"""Programs share the simulated GPU while the daemon or one of them comes to harm: the others get what is theirs. The
device log tells."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from bench import device_log as truth
from bench.device_log import Interval
from bench.harness import policy_file
from bench.simulated import FULL, Load, Rig, rig, together
from gpud.cli.sim.devicelog import DeviceLog
from gpud.control import wire
from gpud.hooks import layout
from gpud.model.views import JobView
from gpud.testing.measured import Bounds, measured
from gpud.testing.node import until

pytestmark = pytest.mark.e2e

KERNELS = {"k500": 0.5, "k1000": 1.0}
SECOND = 1_000_000_000
MS = 1_000_000
HAS = 1
"""GPUD_TURN_HAS."""
PERIOD_MS = 20
SCALE = 2.0
"""Wall time by model time: two cores keep up with it."""
SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 31))))
FIXED = policy_file(
    f"arbitrate share {{ period = {PERIOD_MS}ms  reclaim = 2ms }}",
    """class a { match label("unit") == "a"  share = fixed(50%) }
  class b { match label("unit") == "b"  share = fixed(30%) }
  class c { match label("unit") == "c"  share = fixed(10%) }
  class rest { match any  share = fixed(5%) }""",
)
LONG_S = 600
"""To the end of a test."""
VANDAL_S = 2.0
DRAW_NS = 20_000_000
"""A client that goes idle gives back what it has drawn."""
DEBT_NS = 1_100_000_000
"""More than a second, and a little that is under way, is never owed."""
EQUAL = policy_file(
    f"arbitrate share {{ period = {PERIOD_MS}ms  reclaim = 2ms }}",
    "class all { match any  per = tenant  share = equal }",
)


def busy(node: Rig, name: str) -> Load:
    """A program that always has more to do than it gets."""
    return node.load({"unit": name}, kernels=f"k1000:{FULL}:2", depth=6)


def jobs(node: Rig) -> dict[str, JobView]:
    with node.node.client() as client:
        return {job.labels["unit"]: job for job in client.ps()}


def spans(log: DeviceLog, loads: Sequence[Load]) -> list[list[Interval]]:
    return [truth.intervals(truth.work_of(log, [load.pid])) for load in loads]


def parts(times: Sequence[Sequence[Interval]], first: int, last: int) -> list[float]:
    """Of the time between: what each had."""
    return [truth.within(one, first, last) / (last - first) for one in times]


def longest_gap(times: Sequence[Interval], first: int, last: int) -> int:
    """The longest time in [first, last) in which nobody in `times` ran."""
    at, longest = first, 0
    for begin, end in sorted(times):
        if begin >= last:
            break
        longest, at = max(longest, begin - at), max(at, end)
    return max(longest, last - at)


def test_a_new_daemon_adopts_those_who_share(binary: Path) -> None:
    """Classes, pins, caps and counters are kept; nobody gets more than its part while there is no daemon, nor from the
    new one."""
    measured(lambda bounds: _adoption(binary, bounds))


def _adoption(binary: Path, bounds: Bounds) -> None:
    with rig(KERNELS, binary=binary, policy="bench", policies=FIXED, scale=SCALE, switch_ms=0.1) as node:
        loads = [busy(node, name) for name in ("a", "b", "pinned")]
        with node.node.client() as client:
            client.set(wire.AskSet(job=jobs(node)["pinned"].id, job_class="c"))
        start = together(loads, LONG_S)
        time.sleep(1.2)
        before, stats = jobs(node), [load.stats() for load in loads]
        killed = time.monotonic_ns()
        assert node.node.daemon is not None
        node.node.daemon.kill()
        node.node.daemon.wait()
        time.sleep(0.7)
        node.node.start()
        with node.node.client() as client:
            until(lambda: client.status().clients == 3 and all(job.time for job in client.ps()), 60, "all are adopted")
        after, later = jobs(node), [load.stats() for load in loads]
        time.sleep(1.5)
        stopped, end = time.monotonic_ns(), [load.stats() for load in loads]
        for load in loads:
            os.kill(load.pid, signal.SIGKILL)
        node.loads.clear()
        log = node.log()
    for name, job in before.items():
        now = after[name]
        assert (now.id, now.job_class, now.pinned, now.pids) == (job.id, job.job_class, job.pinned, job.pids)
        assert [one.limit for one in now.time] == [one.limit for one in job.time]
        assert job.time[0].limit is not None
    assert after["pinned"].job_class == "c"
    assert after["pinned"].pinned
    for earlier, anew, last in zip(stats, later, end, strict=True):
        assert earlier.launches <= anew.launches < last.launches
        assert earlier.spent_ns - DRAW_NS <= anew.spent_ns < last.spent_ns + DRAW_NS
        assert anew.attaches == earlier.attaches + 1
        assert not last.hook_errors
        assert not last.launches_failed
    times, targets = spans(log, loads), (0.5, 0.3, 0.1)
    stop = log.model_ns(stopped)
    settled, down = log.model_ns(start + SECOND), log.model_ns(killed)
    for target, had in zip(targets, parts(times, settled, stop), strict=True):
        bounds.near(had, target, 0.07, "in all")  # without gates each has a third
    for begin in range(down - SECOND // 8, stop - SECOND // 4, SECOND // 20):
        for target, had in zip(targets, parts(times, begin, begin + SECOND // 4), strict=True):
            bounds.most(had, target + 0.12, f"{(begin - down) / 1e9:.2f} s after the kill")
            bounds.least(had, target / 4, f"{(begin - down) / 1e9:.2f} s after the kill")


def test_a_program_that_is_stopped_with_the_turn_keeps_nobody_off_for_long(binary: Path) -> None:
    """Four turns in which nothing of it moves; and it has its part again once it goes on."""
    measured(lambda bounds: _stops(binary, bounds))


def _stops(binary: Path, bounds: Bounds) -> None:
    turn_ns = PERIOD_MS * MS * 2 // 3
    patience = round((4 * turn_ns + 5 * MS) / SCALE)  # of the model's clock, as the log is
    stops: list[tuple[int, int]] = []
    with rig(KERNELS, binary=binary, policy="bench", policies=EQUAL, scale=SCALE, switch_ms=0.1) as node:
        loads = [busy(node, name) for name in ("a", "b", "c")]
        presence = Presence(loads[0].pid)
        start = together(loads, 3.6)
        time.sleep(1.3)
        for _ in range(4):
            until(lambda: presence.stop_with_turn(), 60, "it is stopped while it has the turn")
            began = time.monotonic_ns()
            time.sleep(0.2)
            stops.append((began, time.monotonic_ns()))
            assert presence.is_stopped
            os.kill(loads[0].pid, signal.SIGCONT)
            time.sleep(0.15)
        for load in loads:
            load.done()
        assert not any(load.stats().hook_errors for load in loads)
        log = node.log()
    stopped, second, third = spans(log, loads)
    others = sorted([*second, *third])
    for index, (began, ended) in enumerate(stops):
        first, last = log.model_ns(began), log.model_ns(ended)
        gap = longest_gap([*stopped, *others], first, last)
        bounds.most(gap / MS, 2 * patience / MS, f"stop {index}: ms in which nobody ran")  # else to its end
        bounds.least(
            truth.within(others, first + patience, last) / (last - first - patience), 0.5, "the others fill in"
        )
    resumed, end = log.model_ns(stops[-1][1]), log.model_ns(start + 36 * SECOND // 10)
    for had in parts(spans(log, loads), resumed + SECOND // 4, end):
        bounds.near(had, 1 / 3, 0.1, "it came back")


class Presence:
    """The presence page of a program, as it lies in its own memory."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        pages = [
            int(line.split("-")[0], 16) for line in maps if "memfd:gpud-page" in line and line.split()[1][1] == "w"
        ]
        self._memory = Path(f"/proc/{pid}/mem")
        heads = {self._read(at, layout.HEADER.size): at for at in pages}
        ((head, at),) = [(head, at) for head, at in heads.items() if layout.HEADER.unpack(head)[2] == layout.PRESENCE]
        self._line = at + layout.presence_device_offset(0, layout.HEADER.unpack(head)[7])

    def _read(self, at: int, size: int) -> bytes:
        with self._memory.open("rb", buffering=0) as memory:
            memory.seek(at)
            return memory.read(size)

    def _has_turn(self) -> bool:
        return layout.PRESENCE_DEVICE.unpack(self._read(self._line, layout.PRESENCE_DEVICE.size))[6] == HAS

    @property
    def is_stopped(self) -> bool:
        return psutil.Process(self._pid).status() == psutil.STATUS_STOPPED

    def stop_with_turn(self) -> bool:
        """SIGSTOP, if it has the turn, and still has it once it is stopped. Else it goes on."""
        if not self._has_turn():
            return False
        os.kill(self._pid, signal.SIGSTOP)
        until(lambda: self.is_stopped, 60, "it is stopped")
        if self._has_turn():
            return True
        os.kill(self._pid, signal.SIGCONT)
        return False


PTX = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k500()\n{\n    ret;\n}\n"


@pytest.mark.parametrize(("policies", "due"), [(FIXED, (0.5, 0.3)), (EQUAL, (1 / 3, 1 / 3))], ids=["fixed", "equal"])
@pytest.mark.parametrize("mode", ["lies", "scribble"])
def test_random_bytes_in_its_own_pages(
    mode: str, policies: dict[str, str], due: Sequence[float], binary: Path, life: str, tmp_path: Path
) -> None:
    """The others have what is theirs, whether it launches or not: three quarters at least, since it takes a processor
    from them, too. The daemon goes on and shows nonsense within bounds."""
    print(f"seed {SEED}")
    ptx = tmp_path / "life.ptx"
    ptx.write_text(PTX)
    vandal = [life, mode, ptx, "k500", str(SEED)]
    measured(lambda bounds: _vandal(vandal, policies, due, binary, bounds))


def _vandal(
    command: Sequence[str | Path], policies: dict[str, str], due: Sequence[float], binary: Path, bounds: Bounds
) -> None:
    with rig(KERNELS, binary=binary, policy="bench", policies=policies, scale=SCALE, switch_ms=0.1) as node:
        loads = [busy(node, name) for name in ("a", "b")]
        vandal = node.node.run(command, labels={"unit": "v"}, stdin=subprocess.PIPE)
        assert vandal.stdout is not None
        assert vandal.stdout.readline().split() == ["pages", "2"]
        start = together(loads, VANDAL_S)
        looks = 0
        while time.monotonic_ns() < start + VANDAL_S * SECOND:
            _look(node)
            looks += 1
            time.sleep(0.02)
        assert looks > 2
        for load in loads:
            load.done()
        for stats in (load.stats() for load in loads):
            assert not stats.hook_errors
            assert not stats.launches_failed
        assert node.node.daemon is not None
        assert node.node.daemon.poll() is None
        print("the vandal lives" if vandal.poll() is None else f"the vandal ended with {vandal.returncode}")
        text = node.node.log.read_text()
        log = node.log()
    assert "Traceback" not in text
    first, last = log.model_ns(start + SECOND // 2), log.model_ns(start + round(VANDAL_S * SECOND))
    pids = {load.pid for load in loads}
    others = truth.intervals(truth.work_of(log, {kernel.pid for kernel in log.kernels} - pids))
    had, (its,) = parts(spans(log, loads), first, last), parts([others], first, last)
    print(f"beside it: {had}; it: {its}")
    for mine, part in zip(had, due, strict=True):
        bounds.least(mine, 0.75 * part, "beside it")  # less where it takes more, or keeps others off


def _look(node: Rig) -> None:
    """What is shown of it is within bounds."""
    with node.node.client() as client:
        shown = client.stats()
        client.why(next(one.job.id for one in shown if one.job.labels["unit"] == "v"))
        client.status()
    for one in (part for stats in shown for part in stats.job.time):
        assert one.busy is None or 0 <= one.busy <= 1
        assert one.share is None or 0 <= one.share <= 1
        assert abs(one.lag_ns) * (one.share or 0) <= DEBT_NS
        assert abs(one.left_ns) <= DEBT_NS
