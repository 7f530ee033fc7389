"""From device log and programs' lines to figures. Pure.

Device figures are in model time: arrivals are wall-clock stamps, which the log's header maps to the model clock, and a
request ends when its last kernel ends on the device, however late the program woke.
"""

import math
from collections.abc import Iterable, Sequence

from attrs import frozen

from gpud.cli.sim.devicelog import DeviceLog, Kernel

MOST_OVERRUN = 0.01
"""Share of device time that may be lost to kernels not computed in time."""
MOST_NULL = 1.05
"""A second program on another device may not slow the first one more than this."""
LEAST_CONTRAST = 2.0
"""Without gpud the p99 must be worse by this, or there is nothing to show."""


class Unusable(Exception):
    """The log and the program's lines do not belong together; says where."""


@frozen(kw_only=True)
class Request:
    """One request as the serving program saw it. CLOCK_MONOTONIC nanoseconds."""

    number: int
    arrival_ns: int
    begin_ns: int
    end_ns: int


@frozen(kw_only=True)
class Sample:
    """One request's arrival (model seconds since the window began) and latency (milliseconds)."""

    at_s: float
    latency_ms: float


@frozen(kw_only=True)
class RunFigures:
    """What one run came to. Times are model time on a simulated device, wall time on a real one."""

    name: str
    samples: tuple[Sample, ...]
    wall_ms: tuple[float, ...]
    """The same latencies by the program's own clock, wall time."""
    window_s: float
    training_steps_per_s: float | None
    training_step_ms: float | None
    """Mean device time of one step."""
    gpu_busy: float | None
    """Share of the window in which a kernel was on the device."""
    overrun: float
    """Share of device time waited for kernels that were not computed in time."""
    correct: bool
    lanes: tuple["Lane", ...] = ()

    @property
    def p50_ms(self) -> float:
        """Median latency."""
        return percentile([sample.latency_ms for sample in self.samples], 50)

    @property
    def p99_ms(self) -> float:
        """99th percentile of latency, nearest rank."""
        return percentile([sample.latency_ms for sample in self.samples], 99)


@frozen(kw_only=True)
class Lane:
    """When one program's kernels were on the device: pairs of model seconds since the window began."""

    who: str
    pieces: tuple[tuple[float, float], ...]


@frozen(kw_only=True)
class Possible:
    """What no policy of this kind can be better than."""

    idle: float
    """Share of the time that serving alone leaves."""
    training_steps_per_s: float
    delay_ms: float
    """What a request may wait for: the kernels in training's window, and the switch before and after them."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile; nan of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(math.ceil(percent / 100 * len(ordered)), 1) - 1]


def simulated_run(
    name: str,
    log: DeviceLog,
    requests: Sequence[Request],
    *,
    window: tuple[int, int],
    serving_kernels: int,
    serving: int,
    training: int | None,
    correct: bool,
    device: int = 0,
) -> RunFigures:
    """Figures of one run on the simulated device.

    `window`: first and last CLOCK_MONOTONIC nanosecond that is measured; `serving`, `training`: pids;
    `serving_kernels`: kernels of one request. Raises `Unusable` when a request's kernels are not in the log.
    """
    first, last = (log.model_ns(wall) for wall in window)
    by_serving = sorted((k for k in log.kernels if k.pid == serving), key=lambda k: k.start_ns)
    samples = []
    position = 0
    for request in requests:
        begin, end = log.model_ns(request.begin_ns), log.model_ns(request.end_ns)
        while position < len(by_serving) and by_serving[position].start_ns < begin:
            position += 1
        own = by_serving[position : position + serving_kernels]
        if len(own) < serving_kernels or own[-1].end_ns > end:
            raise Unusable(f"{name}: request {request.number} has no {serving_kernels} kernels in the device log")
        position += serving_kernels
        arrival = log.model_ns(request.arrival_ns)
        samples.append(Sample(at_s=(arrival - first) / 1e9, latency_ms=(own[-1].end_ns - arrival) / 1e6))
    seconds = (last - first) / 1e9
    on_device = [kernel for kernel in log.kernels if kernel.device == device]
    steps = [kernel for kernel in log.kernels if kernel.pid == training and first < kernel.end_ns <= last]
    measured = [kernel for kernel in log.kernels if first < kernel.end_ns]
    run_ns = sum(kernel.run_ns for kernel in measured)
    return RunFigures(
        name=name,
        samples=tuple(samples),
        wall_ms=tuple((request.end_ns - request.arrival_ns) / 1e6 for request in requests),
        window_s=seconds,
        training_steps_per_s=len(steps) / seconds if training is not None else None,
        training_step_ms=sum(step.run_ns for step in steps) / len(steps) / 1e6 if steps else None,
        gpu_busy=busy_ns(on_device, first, last) / (last - first),
        overrun=sum(kernel.overrun_ns for kernel in measured) / run_ns if run_ns else 0.0,
        correct=correct,
        lanes=tuple(
            Lane(who=who, pieces=_pieces((k for k in on_device if k.pid == pid), first))
            for who, pid in (("serving", serving), ("training", training))
            if pid is not None
        ),
    )


def busy_ns(kernels: Iterable[Kernel], first: int, last: int) -> int:
    """Model nanoseconds between `first` and `last` in which at least one of the kernels was on the device."""
    total, reached = 0, first
    for start, end in sorted(piece for kernel in kernels for piece in kernel.pieces):
        start, end = max(start, reached), min(end, last)
        if end > start:
            total += end - start
            reached = end
    return total


def _pieces(kernels: Iterable[Kernel], first: int) -> tuple[tuple[float, float], ...]:
    return tuple(
        ((start - first) / 1e9, (end - first) / 1e9)
        for start, end in sorted(piece for kernel in kernels for piece in kernel.pieces)
    )


def possible(
    alone: RunFigures, *, step_ms: float, rate_per_s: float, resume_after_ms: float, window_ms: float, switch_ms: float
) -> Possible:
    """Bounds for training and serving under preemption.

    Training may run only when serving has been idle for `resume_after`. In a Poisson process the time to the next
    arrival is exponential, so of idle time at most e^(−λ·resume_after) is left, λ being the arrivals' rate. Context
    switches are not taken off. Serving waits longest when training has just launched: for the switch to
    training, its window, and the switch back.
    """
    idle = max(1.0 - (alone.gpu_busy or 0.0), 0.0)
    usable = idle * math.exp(-rate_per_s * resume_after_ms / 1e3)
    return Possible(idle=idle, training_steps_per_s=usable / step_ms * 1e3, delay_ms=window_ms + 2 * switch_ms)


def doubts(runs: dict[str, RunFigures], null: RunFigures | None) -> list[str]:
    """Why the figures are not valid as a measurement: sentences; none when they are."""
    found = []
    alone, shared = runs["alone"], runs["shared"]
    if null is not None:
        for what, one, other in (("p50", null.p50_ms, alone.p50_ms), ("p99", null.p99_ms, alone.p99_ms)):
            if not one <= MOST_NULL * other:
                found.append(
                    f"with the second program on another device the {what} is {one / other:.2f} × alone "
                    f"(at most {MOST_NULL}): this machine is too busy"
                )
    for run in [*runs.values(), *([null] if null else [])]:
        if not run.correct:
            found.append(f"{run.name}: a program computed something wrong")
        if run.overrun > MOST_OVERRUN:
            found.append(
                f"{run.name}: {run.overrun:.1%} of device time was waiting for kernels not computed in time "
                f"(at most {MOST_OVERRUN:.0%}): this machine is too slow or too busy"
            )
    if not shared.p99_ms >= LEAST_CONTRAST * alone.p99_ms:
        found.append(
            f"shared without gpud the p99 is only {shared.p99_ms / alone.p99_ms:.2f} × alone "
            f"(at least {LEAST_CONTRAST:g} expected): there is nothing to compare with"
        )
    return found
