"""What a serving job feels of others on its device: p50 and p99 of its requests, as multiples of alone.

Beside it: training of small kernels, of kernels of 5 ms, replay of graphs, a second service, four low services. Under
plain time slicing, preempt-mix, aimd, and tgs as published. What a switch between contexts costs is the simulator's
least certain value and flatters whoever avoids switches, so everything is run with three of them, and a row without one
in its name is the least favourable for gpud. Requests arrive at the same times in all runs, also where what a policy
learns has been learned before; p99 of fewer than 100 is the slowest one. Null contender: those beside high on other
devices, everything else the same; above 1.05 × alone the figures are not valid. It takes eight to nine minutes.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from bench.device_log import Unusable
from bench.isolation_cases import CASES, KERNELS, Case, Figures, run
from bench.report import Row, arguments, emit
from bench.simulated import BASE, MOST_OVERRUN, QUICK_SWITCHES_MS, SWITCHES_MS, costs_of, load_program, rig
from gpud.cli.demo.figures import MOST_NULL, percentile
from gpud.native import shipped_policies

TARGET_RATIO, TARGET_LOW = 1.10, 85.0
P = {"p50": 50, "p99": 99}


@frozen(kw_only=True)
class Regime:
    """What decides who runs."""

    name: str
    policy: str | None
    """For all devices; None: there is no gpud."""
    settle_s: float = 0.0
    """Until what it learns is learned; not counted."""
    windows: bool = False
    """The policy is told each case's window."""
    beside: int = 0
    cases: int = len(CASES)
    """So many of them, the first."""


ALONE = Regime(name="alone", policy=None, beside=-1)
NULL = Regime(name="null", policy=None, beside=4, cases=4)
SLICING = Regime(name="slicing", policy=None)
REGIMES = (
    SLICING,
    Regime(name="preempt", policy="preempt-mix", windows=True),
    Regime(name="aimd", policy="aimd", settle_s=8.0),
    Regime(name="tgs", policy="tgs", settle_s=45.0),
)
Found = Mapping[str, Mapping[str, Figures]]
"""Switch → case → what it came to."""


def measure(binary: Path, regime: Regime, switch_ms: float, seconds: float) -> dict[str, Figures]:
    """One run of the regime's cases on one node."""
    cases = CASES[: regime.cases]
    policy, files = regime.policy, None
    if policy is not None and regime.windows:
        lines = (f'apply "{policy}"(work = {case.window}) to gpu {device}' for device, case in enumerate(cases))
        shipped = (shipped_policies() / f"{policy}.gpol").read_text()
        policy, files = None, {f"{policy}.gpol": shipped, "site.gpol": "gpol 1\n" + "\n".join(lines) + "\n"}
    with rig(KERNELS, binary=binary, policy=policy, policies=files, switch_ms=switch_ms, devices=8) as node:
        managed = regime.policy is not None
        return run(node, cases, seconds, managed=managed, settle_s=regime.settle_s, beside=regime.beside)


def at_all_switches(binary: Path, regime: Regime, switches: Mapping[str, float], seconds: float) -> Found:
    """The same on nodes with different costs of switches, one after the other: several at once would measure this
    machine's processors."""
    return {name: measure(binary, regime, cost, seconds) for name, cost in switches.items()}


def undisturbed(binary: Path, switches: Mapping[str, float], seconds: float) -> tuple[dict[str, Figures], Found]:
    """Alone, and the null contender."""
    return measure(binary, ALONE, SWITCHES_MS["fitted"], seconds), at_all_switches(binary, NULL, switches, seconds)


def ratio(found: Figures, alone: Figures, percent: int) -> float:
    if len(found.latencies_ms) != len(alone.latencies_ms):
        raise Unusable(f"{len(found.latencies_ms)} requests are compared with {len(alone.latencies_ms)}")
    return percentile(found.latencies_ms, percent) / percentile(alone.latencies_ms, percent)


def of_idle(found: Figures, alone: Figures) -> float:
    """Per cent of what high, alone, leaves."""
    return 100 * found.low_busy / (1 - alone.high_busy)


def null_rows(found: Found, alone: Mapping[str, Figures]) -> Iterator[Row]:
    for case in CASES[: NULL.cases]:
        for p, percent in P.items():
            worst = max(ratio(one[case.name], alone[case.name], percent) for one in found.values())
            yield Row(name=f"isolation_{case.name}_null_{p}_ratio", value=worst, unit="× alone", target=MOST_NULL)


def alone_rows(alone: Mapping[str, Figures]) -> Iterator[Row]:
    for case in CASES:
        figures = alone[case.name]
        for p, percent in P.items():
            value, wall = percentile(figures.latencies_ms, percent), percentile(figures.wall_ms, percent)
            yield Row(name=f"isolation_{case.name}_alone_{p}_ms", value=value, unit="ms")
            yield Row(name=f"isolation_{case.name}_alone_{p}_wall_ms", value=wall, unit="ms by the wall clock")


def case_rows(case: Case, found: Mapping[str, Found], alone: Figures) -> Iterator[Row]:
    """Of one case, all regimes: headlines first."""
    requests = len(alone.latencies_ms)
    yield Row(name=f"isolation_{case.name}_requests", value=requests, unit="requests, in each run", better="higher")
    ratios = {
        (regime, p): {switch: ratio(one[case.name], alone, percent) for switch, one in of_regime.items()}
        for regime, of_regime in found.items()
        for p, percent in P.items()
    }
    for (regime, p), by_switch in ratios.items():
        value = min(by_switch.values()) if regime == SLICING.name else max(by_switch.values())
        target = TARGET_RATIO if regime == "preempt" else None
        yield Row(name=f"isolation_{case.name}_{regime}_{p}_ratio", value=value, unit="× alone", target=target)
    for p in P:
        gains = (of_slicing / ratios["preempt", p][switch] for switch, of_slicing in ratios[SLICING.name, p].items())
        yield Row(name=f"isolation_{case.name}_gain_{p}", value=min(gains), unit="× better", better="higher")
    for regime, of_regime in found.items():
        low = min(of_idle(one[case.name], alone) for one in of_regime.values())
        target = TARGET_LOW if regime == "preempt" and case.trains else None
        name = f"isolation_{case.name}_{regime}_low_percent"
        yield Row(name=name, value=low, unit="% of what is idle", target=target, better="higher")
        for switch, one in of_regime.items():
            each = f"isolation_{case.name}_{regime}_{switch}_low_percent"
            yield Row(name=each, value=of_idle(one[case.name], alone), unit="% of what is idle", better="higher")
    for (regime, p), by_switch in ratios.items():
        for switch, value in by_switch.items():
            yield Row(name=f"isolation_{case.name}_{regime}_{switch}_{p}_ratio", value=value, unit="× alone")


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    seconds = 2.0 if options.quick else 15.0
    regimes, switches = (REGIMES[:2], QUICK_SWITCHES_MS) if options.quick else (REGIMES, SWITCHES_MS)
    with load_program() as binary:
        alone, null = undisturbed(binary, switches, seconds)
        found = {regime.name: at_all_switches(binary, regime, switches, seconds) for regime in regimes}
    rows = [*null_rows(null, alone)]
    valid = all(row.met for row in rows)
    overrun = max(
        figures.overrun
        for run in (alone, *(run for one in (null, *found.values()) for run in one.values()))
        for figures in run.values()
    )
    for case in CASES:
        rows += case_rows(case, found, alone[case.name])
    rows += alone_rows(alone)
    rows.append(
        Row(name="isolation_overrun_percent", value=100 * overrun, unit="% of device time", target=100 * MOST_OVERRUN)
    )
    valid = valid and overrun <= MOST_OVERRUN
    emit(
        "isolation",
        f"simulated, profile {BASE}, switches of {costs_of(switches)} ms",
        rows,
        options.json,
        rehearsal=options.quick,
    )
    if not valid:
        print("isolation: not valid: this machine is too busy (null contender, overruns)", file=sys.stderr)
    sys.exit(0 if valid or options.quick else 1)


if __name__ == "__main__":
    main()
