"""Figures of a run on a real device: by the programs' own clocks, as there is no device log."""

from collections.abc import Sequence

from gpud.cli.demo import runs
from gpud.cli.demo.children import Line
from gpud.cli.demo.figures import Request, RunFigures, Sample


def real_run(
    run: runs.Run,
    requests: Sequence[Request],
    training: Sequence[Line] | None,
    *,
    window: tuple[int, int],
    correct: bool,
) -> RunFigures:
    """Latencies in wall time; steps between the first and the last progress line within `window`; GPU busy from the
    kernels' calibrated lengths, so it is an estimate."""
    first, last = window
    seconds = (last - first) / 1e9
    latencies = tuple((request.end_ns - request.arrival_ns) / 1e6 for request in requests)
    steps_per_s = _steps_per_s(training, first, last) if training is not None else None
    busy_ms = len(requests) * runs.KERNELS * run.kernel_ms + (steps_per_s or 0.0) * seconds * runs.KERNEL_MS
    return RunFigures(
        name=run.name,
        samples=tuple(
            Sample(at_s=(request.arrival_ns - first) / 1e9, latency_ms=latency)
            for request, latency in zip(requests, latencies, strict=True)
        ),
        wall_ms=latencies,
        window_s=seconds,
        training_steps_per_s=steps_per_s,
        training_step_ms=runs.KERNEL_MS if training is not None else None,
        gpu_busy=min(busy_ms / 1e3 / seconds, 1.0),
        overrun=0.0,
        correct=correct,
    )


def _steps_per_s(lines: Sequence[Line], first: int, last: int) -> float:
    """Steps per second between the progress lines that lie in the window."""
    inside = [line for line in lines if line.get("event") == "progress" and first <= line["time"] <= last]
    if len(inside) < 2:
        return 0.0
    return float((inside[-1]["steps"] - inside[0]["steps"]) / (inside[-1]["time"] - inside[0]["time"]) * 1e9)
