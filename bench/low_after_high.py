"""How long `low` still holds the (simulated) GPU after `high` has sent work: read from the device log."""

import statistics
from pathlib import Path

from bench.harness import ROOT, program
from bench.report import Row, row_of_runs
from gpud.cli.sim.devicelog import DeviceLog, Kernel, read_log
from gpud.testing.node import Node, until

PROFILE = "a100-40gb-demo"
KERNEL_MS = 2.0  # the profile's duration of both kernels; the window is one launch of low
POLICY = "preempt-mix(quiet = 2.5ms, window = 1)"
PROGRAMS = ROOT / "tests" / "e2e" / "programs"


def low_gpu_after_high_ms(runs: int) -> list[Row]:
    """Rows of so many runs: the median and the worst of all of high's bursts, model time. Target: the window (a kernel)
    and a slice."""
    logs = [_run() for _ in range(runs)]
    slice_ms = logs[0].header.slice_ns / 1e6
    after = [low_after_high(log) for log in logs]
    return [
        row_of_runs("low_gpu_after_high_ms", [statistics.median(run) for run in after], "ms", KERNEL_MS + slice_ms),
        row_of_runs("low_gpu_after_high_worst_ms", [max(run) for run in after], "ms", KERNEL_MS + slice_ms),
    ]


def low_after_high(log: DeviceLog) -> list[float]:
    """For each burst of high: model ms in which low ran between its first submission and its last end."""
    high = [kernel for kernel in log.kernels if kernel.name.startswith("serve")]
    low = [kernel for kernel in log.kernels if kernel.name.startswith("train")]
    bursts: list[list[Kernel]] = []
    for kernel in sorted(high, key=lambda kernel: kernel.submit_ns):
        if bursts and kernel.submit_ns <= bursts[-1][-1].end_ns:
            bursts[-1].append(kernel)
        else:
            bursts.append([kernel])
    return [_overlap(low, burst[0].submit_ns, max(kernel.end_ns for kernel in burst)) / 1e6 for burst in bursts[5:]]


def _overlap(kernels: list[Kernel], first: int, last: int) -> int:
    """ns of the kernels' pieces inside [first, last]."""
    pieces = (piece for kernel in kernels for piece in kernel.pieces)
    return sum(max(min(end, last) - max(start, first), 0) for start, end in pieces)


def _run() -> DeviceLog:
    with program(PROGRAMS / "counter.c") as counter, Node(profile=PROFILE, policy=POLICY) as node:
        high, low = ([counter, _ptx(node.directory, name), name] for name in ("serve_add", "train_add"))
        background = node.run([*low, "50"], labels={"tier": "batch"})
        assert background.stdout is not None
        background.stdout.readline()
        node.run([*high, "10", "60", "40000"], labels={"tier": "online"}).communicate(timeout=120)
        node.stop()
        until(lambda: '"type":"end"' in node.device_log.read_text().replace(" ", ""), 10, "the device log is whole")
        return read_log(node.device_log)


def _ptx(directory: Path, kernel: str) -> Path:
    """The counter's kernel under another name, for which the profile has a duration."""
    ptx = directory / f"{kernel}.ptx"
    ptx.write_text((PROGRAMS / "counter.ptx").read_text().replace("add_amount", kernel))
    return ptx
