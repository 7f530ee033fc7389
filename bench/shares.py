"""Shares of GPU time against what the policy says, by the log of a (simulated) device: all modes, 2 to 8 units.

All units have more work than they get, in kernels of 2, 1, 0.5 and 0.1 ms. A share is of what all of them had together
(time that switches take is nobody's), for `fixed` of the whole time. The error is the mean over units and windows, in
points. Return of lent time: from the moment when a unit that was idle asks, to when it runs, while another one borrows
the whole device. Contrast: plain time slicing, without gpud.
"""

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attrs import frozen

from bench import device_log
from bench.device_log import Interval
from bench.harness import policy_file
from bench.report import Row, arguments, emit, row_of_runs
from bench.simulated import BASE, FULL, MOST_OVERRUN, SWITCHES_MS, doubt, load_program, rig, together

KERNELS = {"k2000": 2.0, "k1000": 1.0, "k500": 0.5, "k100": 0.1}
ROUND = {"k2000": 2, "k1000": 4, "k500": 8, "k100": 40}
"""Kernels of a round of 4 ms."""
SCALE = 2.0
PERIOD_MS, RECLAIM_MS = 20.0, 2.0
SWITCH_MS = SWITCHES_MS["switch100us"]
SETTLE_S = 1.5
"""Model time, as all below: costs are learned, levels are in balance."""


@frozen(kw_only=True)
class Division:
    """Units and what each should get."""

    mode: str
    shares: Sequence[str]
    """As the policy says it; unit by unit."""
    targets: Sequence[float]
    of_used: bool = True
    backlogged: bool = True
    """The shares add up to the whole device."""

    @property
    def name(self) -> str:
        return f"{self.mode}{len(self.shares)}"

    def policy(self) -> Mapping[str, str]:
        classes = "\n  ".join(
            f'class u{unit} {{ match label("unit") == "{unit}"  share = {share} }}'
            for unit, share in enumerate(self.shares)
        )
        rules = f"arbitrate share {{ period = {_wall(PERIOD_MS)}  reclaim = {_wall(RECLAIM_MS)} }}"
        return policy_file(rules, classes)


def _wall(model_ms: float) -> str:
    return f"{round(model_ms * SCALE * 1000)}us"


def _weighed(mode: str, template: str, weights: Sequence[int]) -> Division:
    targets = [weight / sum(weights) for weight in weights]
    return Division(mode=mode, shares=[template.format(weight) for weight in weights], targets=targets)


def _fixed(*percent: int) -> Division:
    return Division(
        mode="fixed",
        shares=[f"fixed({one}%)" for one in percent],
        targets=[one / 100 for one in percent],
        of_used=False,
        backlogged=sum(percent) == 100,
    )


WEIGHTS = ((3, 1), (4, 3, 2, 1), (8, 7, 6, 5, 4, 3, 2, 1))
DIVISIONS = (
    *(Division(mode="equal", shares=["equal"] * n, targets=[1 / n] * n) for n in (2, 4, 8)),
    *(_weighed("weight", "weight({})", weights) for weights in WEIGHTS),
    *(_weighed("burst", "burst(weight = {})", weights) for weights in WEIGHTS),
    _fixed(60, 30),
    _fixed(40, 30, 20, 10),
    _fixed(20, 20, 15, 15, 10, 10, 5, 5),
    Division(
        mode="mixed",
        shares=["fixed(30%)", "weight(2)", "weight(1)", "burst(weight = 1, max = 50%)"],
        targets=[0.3, 0.35, 0.175, 0.175],
    ),
)


@frozen(kw_only=True)
class Figures:
    """One run."""

    times: Mapping[str, Sequence[Interval]]
    """When each unit had the device."""
    first: int
    last: int
    overrun: float

    def error(self, division: Division, width_s: float) -> float:
        """In points."""
        found = device_log.shares(self.times, self.first, self.last, round(width_s * 1e9), of_used=division.of_used)
        return device_log.mean_error(found, {str(unit): target for unit, target in enumerate(division.targets)})

    def line(self, division: Division) -> str:
        """What each unit had, and the median length of its turns."""
        turns = device_log.turns(self.times, self.first, self.last)
        had = []
        for unit, target in enumerate(division.targets):
            part = device_log.within(self.times[str(unit)], self.first, self.last) / (self.last - self.first)
            lengths = [ns / 1e6 for who, ns in turns if who == str(unit)]
            turn = f"{statistics.median(lengths):.1f} ms" if lengths else "none"
            had.append(f"{100 * part:.1f} of {100 * target:.1f} % in turns of {turn}")
        return f"  {division.name}: {'; '.join(had)}"

    @property
    def used(self) -> float:
        """Per cent of the device."""
        had = sum(device_log.within(times, self.first, self.last) for times in self.times.values())
        return 100 * had / (self.last - self.first)


def measure(binary: Path, division: Division, seconds: float, *, switch_ms: float, managed: bool = True) -> Figures:
    """All units backlogged for so many seconds of model time."""
    policy, files = ("bench", division.policy()) if managed else (None, None)
    with rig(KERNELS, binary=binary, policy=policy, policies=files, scale=SCALE, switch_ms=switch_ms) as node:
        loads = []
        for unit in range(len(division.shares)):
            name = list(KERNELS)[unit % len(KERNELS)]
            labels = {"unit": str(unit)} if managed else None
            loads.append(node.load(labels, kernels=f"{name}:{FULL}:{ROUND[name]}", depth=6))
        at = together(loads, (SETTLE_S + seconds) * SCALE)
        for load in loads:
            load.done()
        log = node.log()
    first, last = (log.model_ns(at + round(s * SCALE * 1e9)) for s in (SETTLE_S, SETTLE_S + seconds))
    times = {str(unit): device_log.intervals(device_log.work_of(log, [load.pid])) for unit, load in enumerate(loads)}
    return Figures(times=times, first=first, last=last, overrun=doubt(log))


def returned_ms(binary: Path, seconds: float) -> list[float]:
    """Of each request of a unit that lends: from when it asks to when its first kernel runs."""
    division = _weighed("burst", "burst(weight = {})", (1, 1))
    with rig(
        KERNELS, binary=binary, policy="bench", policies=division.policy(), scale=SCALE, switch_ms=SWITCH_MS
    ) as node:
        lender = node.load({"unit": "0"}, kernels=f"k2000:{FULL}:5", rate=f"{4 / SCALE:g}", poisson=5)
        borrower = node.load({"unit": "1"}, kernels=f"k1000:{FULL}:4", depth=6)
        together([lender, borrower], seconds * SCALE)
        said = lender.done()
        borrower.done()
        log = node.log()
    starts = sorted(kernel.start_ns for kernel in log.kernels if kernel.pid == lender.pid)
    asked = [log.model_ns(request.begin_ns) for request in said.requests]
    return [(next(start for start in starts if start >= begin) - begin) / 1e6 for begin in asked[1:]]


def mode_rows(mode: str, found: Mapping[str, Figures]) -> Iterator[Row]:
    """Headlines of a mode, the worst number of units, then each."""
    divisions = [division for division in DIVISIONS if division.name in found and division.mode == mode]
    for division in divisions:
        print(found[division.name].line(division))
    for words, width_s, target in (("mean", 1.0, 1.0), ("100ms", 0.1, 3.0)):
        errors = {division.name: found[division.name].error(division, width_s) for division in divisions}
        yield Row(name=f"shares_{mode}_{words}_error_points", value=max(errors.values()), unit="points", target=target)
        for name, error in errors.items():
            yield Row(name=f"shares_{name}_{words}_error_points", value=error, unit="points")
    used = [found[division.name].used for division in divisions if division.backlogged]
    if used:
        name = f"shares_{mode}_used_percent"
        yield Row(name=name, value=min(used), unit="% of the device", target=97.0, better="higher")


CONTRAST = next(one for one in DIVISIONS if one.name == "weight4")


def contrasts(binary: Path, seconds: float) -> dict[str, Figures]:
    """The same units without gpud and with it, each cost of switches on a node of its own, at the same time."""
    found: dict[str, Figures] = {}
    for words, managed in (("slicing", False), ("share", True)):
        with ThreadPoolExecutor(len(SWITCHES_MS)) as pool:
            runs = {
                switch: pool.submit(measure, binary, CONTRAST, seconds, switch_ms=switch_ms, managed=managed)
                for switch, switch_ms in SWITCHES_MS.items()
            }
        found |= {f"shares_{words}_{switch}": run.result() for switch, run in runs.items()}
    return found


def contrast_rows(found: Mapping[str, Figures]) -> Iterator[Row]:
    """How far shares are off, and what of the device is used."""
    for name, figures in found.items():
        yield Row(name=f"{name}_error_points", value=figures.error(CONTRAST, 1.0), unit="points")
        yield Row(name=f"{name}_used_percent", value=figures.used, unit="% of the device", better="higher")


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    begin = time.monotonic()
    seconds = 1.0 if options.quick else 4.0
    divisions = [one for one in DIVISIONS if not options.quick or one.name in ("equal2", "weight4", "fixed2")]
    with load_program() as binary:
        found = {one.name: measure(binary, one, seconds, switch_ms=SWITCH_MS) for one in divisions}
        returned = returned_ms(binary, 2.0 if options.quick else 8.0)
        contrast = {} if options.quick else contrasts(binary, 3.0)
    rows = [row for mode in dict.fromkeys(one.mode for one in divisions) for row in mode_rows(mode, found)]
    target = RECLAIM_MS + SWITCH_MS
    rows.append(row_of_runs("shares_return_ms", returned, "ms", target))
    rows.append(
        Row(name="shares_return_worst_ms", value=max(returned), unit="ms", target=target + max(KERNELS.values()))
    )
    overrun = max(figures.overrun for figures in (*found.values(), *contrast.values()))
    rows += contrast_rows(contrast)
    rows.append(
        Row(name="shares_overrun_percent", value=100 * overrun, unit="% of device time", target=100 * MOST_OVERRUN)
    )
    emit(
        "shares",
        f"simulated, profile {BASE}, switches of {SWITCH_MS} ms, scale {SCALE:g}",
        rows,
        options.json,
        rehearsal=options.quick,
    )
    print(f"took {time.monotonic() - begin:.0f} s", file=sys.stderr)
    sys.exit(0 if rows[-1].met or options.quick else 1)


if __name__ == "__main__":
    main()
