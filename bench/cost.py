"""GPU time that gpud charges against what the (simulated) device really gave, by its log: each tenant, over a second.

After 50 launches, of which costs are learned; three seconds in a row each. Kernels that are short, longer than a time
slice, of data-dependent length, that exit early now and then; graphs; several streams; alone, and two tenants at
once, taking turns under `arbitrate share` (clean samples) and under plain time slicing (none).
"""

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from bench import device_log
from bench.harness import policy_file
from bench.report import Row, arguments, emit
from bench.simulated import BASE, FULL, MOST_OVERRUN, Done, Load, Rig, doubt, load_program, rig, together
from gpud.cli.sim.devicelog import DeviceLog
from gpud.testing.node import until

KERNELS: Mapping[str, float | str] = {
    "short": 0.2,
    "other": 0.7,
    "two": 2.0,
    "long": 5.0,
    "varied": "0.1 0.2 0.4 0.8 1.6",
    "exits": "0.02 0.02 0.02 0.6",
    "step": 0.3,
}
WARM = 50
CLEAN_TARGET, SHARED_TARGET = 5.0, 15.0
CLEAN_SHARE = 0.10
"""Of samples; where fewer are clean, SHARED_TARGET holds."""
SHARE = policy_file("arbitrate share { period = 20ms }", "class all { match any  per = tenant  share = equal }")
CAPPED = policy_file(
    "arbitrate share { period = 20ms }",
    'class first { match label("unit") == "0"  share = fixed(50%) }\n  '
    'class second { match label("unit") == "1"  share = fixed(30%) }',
)
OPEN = policy_file("arbitrate open {}\n  when all.busy > 99% for 1h { all.max_inflight = 1000 }")


@frozen(kw_only=True)
class Case:
    """One device: the tenants on it, as options of `load`. The first `warm` rounds have WARM launches at least."""

    name: str
    tenants: Sequence[Mapping[str, object]]


def _tenant(kernels: str, **options: object) -> dict[str, object]:
    return {
        "kernels": ",".join(f"{name}:{FULL}:{n}" for name, _, n in (k.partition("*") for k in kernels.split())),
        **options,
    }


SHORT, LONG = _tenant("short*10"), _tenant("long*2", depth=4)
VARIED, EXITS = _tenant("varied*10", depth=8), _tenant("exits*25", depth=8)
GRAPH = _tenant("step*5 other*2", graph=1, depth=8)
ALONE = (
    Case(name="short", tenants=(SHORT,)),
    Case(name="long", tenants=(LONG,)),
    Case(name="varied", tenants=(VARIED,)),
    Case(name="exits", tenants=(EXITS,)),
    Case(name="graph", tenants=(GRAPH,)),
    Case(name="mixed", tenants=(_tenant("short*4 other*3 long*1"),)),
    Case(name="streams", tenants=(_tenant("short*8 other*4", streams=3),)),
    Case(name="idles", tenants=(_tenant("short*5 other*1", think_us=3000),)),
)
TOGETHER = (
    Case(name="short_long", tenants=(SHORT, LONG)),
    Case(name="varied_short", tenants=(VARIED, SHORT)),
    Case(name="exits_graph", tenants=(EXITS, GRAPH)),
)
CAPPED_TOGETHER = (
    Case(name="short_two", tenants=(SHORT, _tenant("two*4", depth=4))),
    Case(name="two_short", tenants=(_tenant("two*4", depth=4), SHORT)),
    *TOGETHER[1:],
)
PARTS = (
    ("", OPEN, ALONE),
    ("_shared", SHARE, TOGETHER),
    ("_capped", CAPPED, CAPPED_TOGETHER),
    ("_sliced", OPEN, TOGETHER),
)


@frozen(kw_only=True)
class Figures:
    """One tenant."""

    errors: tuple[float, ...]
    """Of each second: charged against true, 0.02: 2 % too much."""
    clean: float
    """Share of clean samples."""


class Tenant:
    """One program, from second to second."""

    def __init__(self, load: Load, warm_rounds: int) -> None:
        self.load = load
        self._warm_rounds = warm_rounds
        self.charged: list[int] = []
        self.said: list[Done] = []
        self.clean = 0.0

    def begin_warm(self) -> None:
        self.load.begin(f"go {self._warm_rounds}")

    def end_warm(self) -> None:
        self.load.done()
        self._before = self._settled()

    def measured(self) -> None:
        """A second that was begun is over."""
        self.said.append(self.load.done())
        after = self._settled()
        self.charged.append(after - self._before)
        self._before = after

    def _settled(self) -> int:
        """What is charged once all is finished and what was drawn in advance is given back."""
        until(lambda: self.load.stats().job.state == "idle", 10, "the tenant is idle")
        time.sleep(0.05)  # what is given back is given back by the keeper, if by nobody else
        stats = self.load.stats()
        if not stats.samples:
            raise RuntimeError(f"cost: of {stats.launches} launches none was sampled: nothing is charged")
        self.clean = stats.clean / stats.samples
        return stats.spent_ns

    def figures(self, log: DeviceLog) -> Figures:
        work = device_log.intervals(device_log.work_of(log, [self.load.pid]))
        errors = []
        for charged, said in zip(self.charged, self.said, strict=True):
            span = log.model_ns(said.begin_ns), log.model_ns(said.end_ns)
            true = device_log.within(work, *span) * log.header.time_scale
            errors.append(charged / true - 1)
        return Figures(errors=tuple(errors), clean=self.clean)


def measure(node: Rig, cases: Sequence[Case], seconds: int, *, at_once: bool) -> tuple[dict[str, list[Figures]], float]:
    """All cases at once, each on a device of its own. `at_once`: no tenant is alone for its first launches."""
    tenants: dict[str, list[Tenant]] = {}
    for device, case in enumerate(cases):
        for number, options in enumerate(case.tenants):
            launches = sum(int(one.rpartition(":")[2]) for one in str(options["kernels"]).split(","))
            rounds = WARM if options.get("graph") else -(-WARM // launches)
            load = node.load({"unit": str(number)}, **options, device=device, warm=0)
            tenants.setdefault(case.name, []).append(Tenant(load, rounds))
    every = [tenant for some in tenants.values() for tenant in some]
    for tenant in every:
        tenant.begin_warm()
        if not at_once:
            tenant.end_warm()
    for tenant in every if at_once else ():
        tenant.end_warm()
    for _ in range(seconds):
        together([tenant.load for tenant in every], 1.0)
        for tenant in every:
            tenant.measured()
    log = node.log()
    return {name: [tenant.figures(log) for tenant in some] for name, some in tenants.items()}, doubt(log)


def rows_of(name: str, tenants: Sequence[Figures]) -> Iterator[Row]:
    """Of one case: the tenant that is charged worst."""
    for number, one in enumerate(tenants):
        seconds = " ".join(f"{100 * error:+.1f}" for error in one.errors)
        print(f"  {name}, tenant {number}: {seconds} %, {100 * one.clean:.0f} % of its samples clean")
    worst = max(tenants, key=lambda one: statistics.median(abs(error) for error in one.errors))
    errors = [100 * abs(error) for error in worst.errors]
    yield Row(
        name=f"cost_{name}_error_percent",
        value=statistics.median(errors),
        unit="%",
        target=CLEAN_TARGET if worst.clean >= CLEAN_SHARE else SHARED_TARGET,
        runs=len(errors),
        spread=(min(errors), max(errors)),
    )
    yield Row(name=f"cost_{name}_clean_percent", value=100 * worst.clean, unit="% of its samples", better="higher")


def all_rows(binary: Path, seconds: int) -> Iterator[Row]:
    """Alone, taking turns, taking turns under hard caps, time-sliced."""
    overrun = 0.0
    for suffix, files, cases in PARTS:
        with rig(KERNELS, binary=binary, policy="bench", policies=files, devices=len(cases), switch_ms=0.1) as node:
            found, disturbed = measure(node, cases, seconds, at_once=suffix == "_capped")
        overrun = max(overrun, disturbed)
        for name, tenants in found.items():
            yield from rows_of(name + suffix, tenants)
    yield Row(name="cost_overrun_percent", value=100 * overrun, unit="% of device time", target=100 * MOST_OVERRUN)


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    with load_program() as binary:
        rows = list(all_rows(binary, 1 if options.quick else 5))
    emit("cost", f"simulated, profile {BASE}", rows, options.json, rehearsal=options.quick)
    if not rows[-1].met:
        print("cost: not valid: kernels were computed too late for their modelled times", file=sys.stderr)
    sys.exit(0 if rows[-1].met or options.quick else 1)


if __name__ == "__main__":
    main()
