"""How soon `aimd` lets low have what high leaves, and whether high keeps its pace; TGS as published beside it.

High is a steady service: requests of 5 ms at even distances that fill 60 % of the device, then half as many, then as
many as at first. Low trains without end. What high leaves is measured in the same run without gpud: low is let in at
higher and higher fixed rates until high falls below 97 % of its pace. Settled: over the three seconds from then on high
has 97 % of its pace and low 90 % of what is left. A phase that never settles counts with its length.

By the log of a (simulated) device; rows without a switch cost in their name are the worst of three.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attrs import frozen

from bench import device_log
from bench.report import Row, arguments, emit
from bench.simulated import (
    BASE,
    FULL,
    MOST_OVERRUN,
    QUICK_SWITCHES_MS,
    SWITCHES_MS,
    costs_of,
    doubt,
    load_program,
    rig,
    together,
)

KERNEL_MS, REQUEST_KERNELS = 0.5, 10
KERNELS = {"high": KERNEL_MS, "low": KERNEL_MS}
PHASES = {"cold": 120.0, "halved": 60.0, "doubled": 120.0}
"""Requests of high a second."""
STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Of the time that high leaves: rates of low that are tried."""
KEPT, HAD, PACE = 0.97, 0.90, 0.95
TARGET_S = 8.0
WINDOW_S, LOOK_S, REST_S = 0.5, 0.1, 3.0
TGS_SWITCH = "switch100us"


def pace(requests: float) -> float:
    """Kernels of high a second."""
    return requests * REQUEST_KERNELS


def idle(requests: float) -> float:
    """Kernels of low a second that fit beside high if switches cost nothing."""
    return (1 - pace(requests) * KERNEL_MS / 1e3) / KERNEL_MS * 1e3


def left(binary: Path, requests: float, switch_ms: float, step_s: float) -> float:
    """Kernels of low a second at which high still has 97 % of its pace, without gpud."""
    rates = ",".join(f"{idle(requests) * step:g}@{number * step_s}" for number, step in enumerate(STEPS))
    with rig(KERNELS, binary=binary, policy=None, switch_ms=switch_ms) as node:
        high = node.load(kernels=f"high:{FULL}:{REQUEST_KERNELS}", rate=f"{requests:g}")
        low = node.load(kernels=f"low:{FULL}:1", rate=rates, nowait=1)
        at = together([high, low], step_s * len(STEPS))
        high.done()
        low.done()
        log = node.log()
    first, width = log.model_ns(at), round(step_s * 1e9)
    ends = {pid: [k for k in log.kernels if k.pid == pid] for pid in (high.pid, low.pid)}
    highs = [rate / pace(requests) for rate in device_log.rates(ends[high.pid], first, width, len(STEPS))]
    lows = device_log.rates(ends[low.pid], first, width, len(STEPS))
    return crossing(highs, lows)


def crossing(highs: Sequence[float], lows: Sequence[float]) -> float:
    """Low's rate where high falls below KEPT, between two steps as on a line; the highest one if it never does. (The
    first step begins with an empty device, and is not looked at.)"""
    for number in range(1, len(highs)):
        if highs[number] < KEPT:
            above, below = max(highs[number - 1], KEPT), highs[number]
            part = (above - KEPT) / (above - below)
            return lows[number - 1] + part * (lows[number] - lows[number - 1])
    return max(lows)


@frozen(kw_only=True)
class Figures:
    """One run of all phases. Parts are of high's pace alone, and of what is left for low."""

    settled_s: dict[str, float]
    """Phase → seconds after its begin."""
    below_s: float
    """How long high was below 95 % at the longest, after the first second."""
    high: float
    """Per cent, the mean over the last seconds of all phases."""
    low: float
    overrun: float


def measure(binary: Path, policy: str, switch_ms: float, phase_s: float, lefts: Sequence[float]) -> Figures:
    """`lefts`: what is left for low, of each phase."""
    steps = [(rate, number * phase_s) for number, rate in enumerate(PHASES.values())]
    with rig(KERNELS, binary=binary, policy=policy, switch_ms=switch_ms) as node:
        rates = ",".join(f"{rate:g}@{since:g}" for rate, since in steps)
        high = node.load({"tier": "online"}, kernels=f"high:{FULL}:{REQUEST_KERNELS}", rate=rates)
        low = node.load({"tier": "batch"}, kernels=f"low:{FULL}:8", depth=4)
        at = together([high, low], phase_s * len(PHASES))
        high.done()
        low.done()
        log = node.log()
    first, look = log.model_ns(at), round(LOOK_S * 1e9)
    count = round(phase_s * len(PHASES) / LOOK_S)
    ends = {pid: [k for k in log.kernels if k.pid == pid] for pid in (high.pid, low.pid)}
    looks = [min(int(number * LOOK_S / phase_s), len(steps) - 1) for number in range(count)]
    wanted = [pace(steps[phase][0]) for phase in looks]
    fits = [lefts[phase] for phase in looks]
    highs = device_log.parts(device_log.rates(ends[high.pid], first, look, count), wanted, round(WINDOW_S / LOOK_S))
    lows = device_log.parts(device_log.rates(ends[low.pid], first, look, count), fits, round(WINDOW_S / LOOK_S))
    return Figures(
        settled_s={
            name: _settled(highs, lows, round(number * phase_s / LOOK_S), round(phase_s / LOOK_S))
            for number, name in enumerate(PHASES)
        },
        below_s=device_log.longest_below(highs[round(1 / LOOK_S) :], PACE) * LOOK_S,
        high=100 * _last(highs, phase_s),
        low=100 * _last(lows, phase_s),
        overrun=doubt(log),
    )


def _settled(highs: Sequence[float], lows: Sequence[float], begin: int, length: int) -> float:
    """Seconds from the begin of a phase until both have what they should."""
    rest = round(REST_S / LOOK_S)
    for at in range(begin, begin + length - rest):
        if sum(highs[at : at + rest]) >= KEPT * rest and sum(lows[at : at + rest]) >= HAD * rest:
            return (at - begin) * LOOK_S
    return length * LOOK_S


def _last(parts: Sequence[float], phase_s: float) -> float:
    """The mean over the last fifth of all phases."""
    phase = round(phase_s / LOOK_S)
    looked = [part for number, part in enumerate(parts) if number % phase >= phase * 4 // 5]
    return sum(looked) / len(looked)


def rows_of(who: str, found: dict[str, Figures], *, target: bool) -> Iterator[Row]:
    """Headlines, the worst of all switch costs, then each."""
    for phase in PHASES:
        worst = max(figures.settled_s[phase] for figures in found.values())
        yield Row(name=f"{who}_{phase}_settled_s", value=worst, unit="s", target=TARGET_S if target else None)
    below = max(figures.below_s for figures in found.values())
    yield Row(name=f"{who}_high_below95_s", value=below, unit="s in a row", target=1.0 if target else None)
    for switch, figures in found.items() if len(found) > 1 else ():
        for phase in PHASES:
            yield Row(name=f"{who}_{switch}_{phase}_settled_s", value=figures.settled_s[phase], unit="s")
        yield Row(name=f"{who}_{switch}_high_below95_s", value=figures.below_s, unit="s in a row")
    for switch, figures in found.items():
        name = f"{who}_{switch}" if len(found) > 1 else who
        yield Row(name=f"{name}_high_last_percent", value=figures.high, unit="% of its pace", better="higher")
        yield Row(name=f"{name}_low_last_percent", value=figures.low, unit="% of what is left", better="higher")


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    phase_s, step_s = (3.5, 0.3) if options.quick else (40.0, 1.0)
    switches = QUICK_SWITCHES_MS if options.quick else SWITCHES_MS
    with load_program() as binary, ThreadPoolExecutor(6) as pool:
        wanted = [(switch, requests) for requests in dict.fromkeys(PHASES.values()) for switch in switches]
        found = dict(
            zip(wanted, pool.map(lambda one: left(binary, one[1], switches[one[0]], step_s), wanted), strict=True)
        )
        runs = [("aimd", switch) for switch in switches] + [("tgs", TGS_SWITCH)]
        jobs = {
            (policy, switch): pool.submit(
                measure,
                binary,
                policy,
                switches[switch],
                phase_s,
                [found[switch, requests] for requests in PHASES.values()],
            )
            for policy, switch in runs
        }
        figures = {run: job.result() for run, job in jobs.items()}
    rows = list(rows_of("aimd", {switch: figures["aimd", switch] for switch in switches}, target=True))
    rows += rows_of("tgs", {TGS_SWITCH: figures["tgs", TGS_SWITCH]}, target=False)
    for switch, requests in wanted:
        name = f"aimd_{switch}_left_{requests:g}_per_s"
        rows.append(Row(name=name, value=found[switch, requests], unit="kernels of low a second", better="higher"))
    overrun = max(one.overrun for one in figures.values())
    rows.append(
        Row(name="aimd_overrun_percent", value=100 * overrun, unit="% of device time", target=100 * MOST_OVERRUN)
    )
    device = f"simulated, profile {BASE}, switches of {costs_of(switches)} ms"
    emit("aimd", device, rows, options.json, rehearsal=options.quick)
    sys.exit(0 if rows[-1].met or options.quick else 1)


if __name__ == "__main__":
    main()
