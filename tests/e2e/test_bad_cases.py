"""What programs and drivers seldom do, under gates that hold: everything is counted right, and nobody stands for ever.

On the simulated GPU, whose log says what ran.
"""

import itertools
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from bench import device_log as truth
from bench.harness import HIGH_AND_LOW, policy_file
from bench.simulated import FULL, Load, Rig, rig
from gpud.cli.sim.devicelog import DeviceLog
from gpud.model.views import JobStats, JobView
from gpud.native import sim_dir
from gpud.testing.measured import Bounds, measured
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

PROGRAMS = Path(__file__).parent / "programs"
KERNELS = {"k500": 0.5}
MS = 1_000_000
PTX = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k500()\n{\n    ret;\n}\n"
PREEMPT = policy_file(
    "arbitrate preempt { order = [high, low]  resume_after = 1ms  max_pause = unlimited }", HIGH_AND_LOW
)
ENDLESS = "100000000"
ENDS_S = 60
SAVED_S = 0.1
"""Who is limited and late saves up so much of its time, and no more."""


@pytest.fixture
def ptx(tmp_path: Path) -> Path:
    path = tmp_path / "odd.ptx"
    path.write_text(PTX)
    return path


class Odd:
    """A running `odd`, under gpud."""

    def __init__(self, node: Rig, command: Sequence[str | Path], *, tier: str = "batch") -> None:
        self._node = node.node
        self._job = self._node.run(command, labels={"tier": tier, "odd": "1"}, stdin=subprocess.PIPE)

    def said(self) -> tuple[int, int]:
        """Once it is done."""
        assert self._job.stdout is not None
        words = self._job.stdout.readline().split()
        assert words[:1] == ["done"], words
        return int(words[1]), int(words[2])

    def stats(self) -> JobStats:
        with self._node.client() as client:
            found = client.stats()
        return next(one for one in found if "odd" in one.job.labels)

    def end(self) -> None:
        assert self._job.stdin is not None
        self._job.stdin.close()
        assert self._job.wait(ENDS_S) == 0


def limited(*limits: str) -> dict[str, str]:
    """A policy for each device, which gives each tenant so much of its time."""
    body = """policy "p{0}" {{
  class all {{ match any  limit {{ compute = {1} }} }}
  arbitrate open {{}}
}}
apply "p{0}" to gpu {0}
"""
    rows = "".join(body.format(device, limit) for device, limit in enumerate(limits))
    return {"p.gpol": f"gpol 1\n{rows}"}


def kept(bounds: Bounds, log: DeviceLog, limit: float, device: int = 0) -> None:
    """What the only program had between its first and its last work there is what the limit gives it, whatever it had
    saved up. Without a limit it has all of that time; whoever is charged twice has half of what it may have."""
    times = truth.intervals(truth.work_of(log, [log.kernels[0].pid], device))
    used_s, lasted_s = sum(end - begin for begin, end in times) / 1e9, (times[-1][1] - times[0][0]) / 1e9
    bounds.most(used_s, 1.05 * limit * (lasted_s + SAVED_S), f"s of work in {lasted_s:.3g} s on device {device}")
    bounds.least(used_s, 0.7 * limit * lasted_s, f"s of work in {lasted_s:.3g} s on device {device}")


def charged(bounds: Bounds, stats: JobStats, kernels: int) -> None:
    """So many of half a millisecond. Whoever is charged twice, or once for a graph, is far from it."""
    bounds.near(stats.spent_ns / MS, kernels * 0.5, kernels * 0.5 * 0.15, "ms charged")


def test_a_graph_is_relaunched_while_another_stream_captures(binary: Path, odd: str, ptx: Path) -> None:
    """Graphs are counted and charged as one launch each, and limited; what is captured is neither."""
    measured(lambda bounds: _captures(binary, [odd, "captures", ptx, "k500", str(GRAPHS)], bounds))


GRAPHS, IN_GRAPH = 200, 5


def _captures(binary: Path, command: Sequence[str | Path], bounds: Bounds) -> None:
    with rig(KERNELS, binary=binary, policy=None, policies=limited("50%")) as node:
        program = Odd(node, command)
        launched, captured = program.said()
        found = until(lambda: one if (one := program.stats()).job.state == "idle" else None, ENDS_S, "it is idle")
        program.end()
        log = node.log()
    assert launched == GRAPHS
    bounds.least(captured, IN_GRAPH * 20, "captured meanwhile")
    assert (found.launches, found.launches_failed, found.unfinished, found.hook_errors) == (GRAPHS, 0, 0, 0)
    assert len(log.kernels) == GRAPHS * IN_GRAPH
    kept(bounds, log, 0.5)
    charged(bounds, found, GRAPHS * IN_GRAPH)


def test_a_host_function_waits_for_a_mutex_of_the_thread_at_the_gate(binary: Path, odd: str, ptx: Path) -> None:
    """The window can only come free when the thread that it holds goes on: max_pause lets it."""
    times, pause_ms = 4, 200
    settings = f"order = [high, low]  resume_after = 1ms  max_inflight = 1  max_pause = {pause_ms}ms"
    rules = f"arbitrate preempt {{ {settings} }}"
    with rig(KERNELS, binary=binary, policy="bench", policies=policy_file(rules, HIGH_AND_LOW)) as node:
        program = Odd(node, [odd, "waits", ptx, "k500", str(times)])
        made, longest_ms = program.said()  # without max_pause it never says it
        found = program.stats()
        program.end()
    assert made == times
    assert longest_ms >= pause_ms
    assert (found.launches, found.passed, found.held) == (2 * times, times, times)
    assert found.held_ns >= times * pause_ms * MS
    assert (found.launches_failed, found.hook_errors) == (0, 0)


def test_two_threads_on_two_devices(binary: Path, odd: str, ptx: Path) -> None:
    """Each device's limit holds there, and for nobody on the other."""
    measured(lambda bounds: _two_threads(binary, [odd, "threads", ptx, "k500"], bounds))


def _two_threads(binary: Path, command: Sequence[str | Path], bounds: Bounds) -> None:
    count = 600
    with rig(KERNELS, binary=binary, policy=None, policies=limited("20%", "60%"), devices=2) as node:
        program = Odd(node, [*command, str(count)])
        launched, _ = program.said()
        found = program.stats()
        program.end()
        log = node.log()
    assert launched == found.launches == 2 * count
    assert (found.launches_failed, found.unfinished, found.hook_errors) == (0, 0, 0)
    assert [sum(kernel.device == device for kernel in log.kernels) for device in (0, 1)] == [count, count]
    for device, limit in enumerate((0.2, 0.6)):
        kept(bounds, log, limit, device)


def test_a_job_of_two_devices_beside_high_on_each(binary: Path, odd: str, ptx: Path) -> None:
    """Its two threads wait for each other: it stands on both devices while one is claimed, and goes on when both are
    free."""
    measured(lambda bounds: _two_devices(binary, [odd, "ranks", ptx, "k500"], bounds))


IN_REQUEST = 40


def _two_devices(binary: Path, command: Sequence[str | Path], bounds: Bounds) -> None:
    seconds = 3
    with rig(KERNELS, binary=binary, policy="bench", policies=PREEMPT, devices=2) as node:
        highs = [
            node.load({"tier": "online"}, kernels=f"k500:{FULL}:{IN_REQUEST}", rate=rate, device=device)
            for device, rate in enumerate((9, 13))
        ]
        program = Odd(node, [*command, str(seconds)])
        for high in highs:
            high.begin(f"for {seconds}")
        for high in highs:
            high.done()
        meetings, _ = program.said()
        found = program.stats()
        program.end()
        log = node.log()
    own = [kernel for kernel in log.kernels if kernel.pid not in {high.pid for high in highs}]
    assert len({kernel.pid for kernel in own}) == 1
    assert len(own) == found.launches == 2 * meetings
    assert (found.launches_failed, found.passed, found.hook_errors) == (0, 0, 0)
    bounds.least(found.held, 20, "times held")
    claimed = [_claimed(log, high) for high in highs]
    intruders = sum(any(a + 2 * MS < one.submit_ns < b for a, b in claimed[one.device]) for one in own)
    bounds.most(intruders, 2, "launches where high was at work")  # without the gate hundreds
    taken = _merged(claimed[0] + claimed[1])
    first, last = min(one.submit_ns for one in own), max(one.submit_ns for one in own)
    free = [(a, b) for (_, a), (b, _) in itertools.pairwise(taken) if first < a and b < last and b - a > 30 * MS]
    bounds.least(len(free), 5, "times that both were free")
    used = sum(any(a < one.submit_ns < b for one in own) for a, b in free)
    bounds.least(used, 0.9 * len(free), "of them it went on in")


def _claimed(log: DeviceLog, high: Load) -> list[tuple[int, int]]:
    """From the first submission of each of its requests to the end of the last kernel."""
    own = sorted((one for one in log.kernels if one.pid == high.pid), key=lambda one: one.submit_ns)
    assert len(own) % IN_REQUEST == 0
    return [(own[n].submit_ns, own[n + IN_REQUEST - 1].end_ns) for n in range(0, len(own), IN_REQUEST)]


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def test_a_device_is_lost(binary: Path, counter: list[str]) -> None:
    """Who uses it is told by the driver, and not held; on the other device all goes on, and gpud with it."""
    with rig(KERNELS, binary=binary, policy="bench", policies=PREEMPT, devices=2) as node:
        elsewhere = node.load({"tier": "batch"}, kernels=f"k500:{FULL}:4", device=1)
        elsewhere.begin("for 1000")  # to the end of the test
        low = node.node.run([*counter, "1", "0"], labels={"tier": "batch"}, stderr=subprocess.PIPE)
        assert low.stdout is not None
        assert low.stdout.readline() == "round 1 ok\n"
        faults = "GPUD_SIM_FAULTS=cuLaunchKernel: lose at 2000"
        high = node.node.run(["env", faults, *counter, ENDLESS], labels={"tier": "online"}, stderr=subprocess.PIPE)
        for job in (high, low):
            _, said = job.communicate(timeout=ENDS_S)
            assert job.returncode == 1
            assert "answered 999" in said, "UNKNOWN: what the driver says of a device that is gone"
        with node.node.client() as client:
            until(lambda: len(client.ps()) == 1, ENDS_S, "the two are gone")
        before = elsewhere.stats().launches
        until(lambda: elsewhere.stats().launches > before + 100, ENDS_S, "the other device works")
        later = node.node.run([*counter, "3", "2"], labels={"tier": "online"})
        assert later.communicate(timeout=ENDS_S)[0] == "round 1 ok\nround 2 ok\n"
        stats = elsewhere.stats()
        assert (stats.launches_failed, stats.hook_errors) == (0, 0)
        assert stats.held >= 1, "by the one that came later"
        before = stats.launches
        until(lambda: elsewhere.stats().launches > before + 100, ENDS_S, "and goes on")
        assert node.node.daemon is not None
        assert node.node.daemon.poll() is None
        assert "Traceback" not in node.node.log.read_text()


def test_a_profiler_beside_the_hook(binary: Path, ptx: Path, tmp_path: Path) -> None:
    """A second interposer, which finds the next one by RTLD_NEXT: each sees every launch once."""
    program, profiler, says = tmp_path / "linked", tmp_path / "profiler.so", tmp_path / "says"
    flags = ["-O1", f"-I{PROGRAMS.parents[2] / 'bench' / 'native'}"]
    linked = [str(sim_dir() / "libcuda.so.1"), "-ldl", "-lpthread", "-Wl,--allow-shlib-undefined"]
    subprocess.run(["cc", *flags, "-DLINKED", str(PROGRAMS / "odd.c"), "-o", str(program), *linked], check=True)
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", str(PROGRAMS / "profiler.c"), "-o", str(profiler), "-ldl"], check=True
    )
    environment = {"LD_PRELOAD": str(profiler), "PROFILER_SAYS": str(says)}
    measured(lambda bounds: _profiled(binary, [program, "threads", ptx, "k500"], environment, bounds))


def _profiled(binary: Path, command: Sequence[str | Path], environment: dict[str, str], bounds: Bounds) -> None:
    count = 600
    with rig(KERNELS, binary=binary, policy=None, policies=limited("50%", "50%"), devices=2) as node:
        node.node.environment |= environment
        job = Odd(node, [*command, str(count)])
        assert job.said() == (2 * count, 0)
        found = job.stats()
        job.end()
        log = node.log()
    assert int(Path(environment["PROFILER_SAYS"]).read_text()) == found.launches == len(log.kernels) == 2 * count
    assert (found.launches_failed, found.unfinished, found.hook_errors) == (0, 0, 0)
    kept(bounds, log, 0.5)
    charged(bounds, found, 2 * count)


def only(node: Node, job_class: str) -> JobView:
    with node.client() as client:
        (found,) = [job for job in client.ps() if job.job_class == job_class]
    return found


def test_a_program_in_a_pid_namespace_of_its_own(binary: Path, counter: list[str], tmp_path: Path) -> None:
    """As in a container: it is known by its number outside, adopted by it, and its end is seen."""
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("PID namespaces are not allowed here")
    with rig(KERNELS, binary=binary, policy="bench", policies=PREEMPT) as held:
        node, lines = held.node, tmp_path / "low.txt"
        with lines.open("w") as out:
            low = node.run([*counter, "1", "0"], labels={"tier": "batch"}, stdout=out)
        until(lambda: "ok" in lines.read_text(), ENDS_S, "low computes")
        job = node.run([*inside, *counter, ENDLESS], labels={"tier": "online"}, stdout=subprocess.DEVNULL)
        until(lambda: only(node, "low").state == "held", ENDS_S, "high holds low")
        before = only(node, "high")
        (pid,) = before.pids
        assert psutil.Process(pid).exe() == counter[0]
        assert job.pid in {parent.pid for parent in psutil.Process(pid).parents()}
        names = Path(f"/proc/{pid}/status").read_text().split("NSpid:")[1].splitlines()[0].split()
        assert names == [str(pid), "1"]
        assert node.daemon is not None
        node.daemon.kill()
        node.daemon.wait()
        node.start()
        with node.client() as client:
            until(lambda: client.status().clients == 2, ENDS_S, "both are adopted")
        after = only(node, "high")
        assert (after.id, after.pids, after.launcher_pid) == (before.id, before.pids, before.launcher_pid)
        until(lambda: only(node, "low").state == "held", ENDS_S, "high still holds low")
        rounds = lines.read_text().count("ok")
        os.kill(pid, signal.SIGKILL)
        until(lambda: lines.read_text().count("ok") > rounds + 3, ENDS_S, "low goes on")
        assert low.poll() is None
        job.wait(ENDS_S)
