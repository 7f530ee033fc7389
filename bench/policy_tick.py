"""CPU time of a tick of each shipped policy, with what the daemon asks after it (when to tick again).

Signals move as they do on a busy device: rates and times at every tick, edges and missing values now and then; each
class with rules about one tenant has sixteen. The clock passes through a day, so that every rule has its turn.
"""

import random
import statistics
import time
from collections.abc import Iterator
from typing import Any

from bench.harness import ROOT
from bench.report import Row, arguments, emit, row_of_runs
from gpud.policies.compile import compile_policy
from gpud.policies.ir import SignalRef
from gpud.policies.library import read_directory
from gpud.policies.program import TENANT_CLASS, Now, Program
from gpud.policies.resolve.policy import resolve_policy
from gpud.policies.types import Type

RUNS = 9
TICKS = 2_000
BATCH = 100
"""Ticks between two looks at the clock, which are much dearer than a tick."""
TENANTS = 16
TICK_NS = 5_000_000
MONDAY_NS = 1_772_409_600_000_000_000
DAY_NS = 86_400_000_000_000
TARGET_US = 20.0

Snapshot = tuple[Any, ...]


def shipped() -> Iterator[Program]:
    """Every policy of the set, with its own defaults."""
    for _, (policy, file) in sorted(read_directory(ROOT / "policies").policies.items()):
        ir, found = resolve_policy(policy, file)
        assert ir is not None, found
        yield compile_policy(ir)


def moving(signal: SignalRef, now: random.Random) -> Any:
    """A value as it may be measured."""
    if now.random() < 0.002:
        return None
    match signal.type:
        case Type.BOOL:
            return now.random() < 0.9
        case Type.RATE | Type.BANDWIDTH:
            return 1_000.0 * (1 + 0.1 * now.random())
        case Type.RATIO:
            return now.random()
        case Type.DURATION:
            return now.choice((0, 1, 50_000, 900_000, 4_000_000, 25_000_000, 2_000_000_000, float("inf")))
        case Type.BYTES:
            return now.randrange(1 << 36)
        case _:
            return now.randrange(4)


def trace(program: Program, seed: int) -> list[tuple[Snapshot, Now, dict[int, Snapshot]]]:
    """What each tick gets."""
    now = random.Random(seed)
    classes = sorted({each.job_class for each in program.ir.eaches})
    found = []
    for tick in range(TICKS):
        wall = MONDAY_NS + tick * DAY_NS // TICKS
        tenants = {
            number: tuple(
                job_class if signal == TENANT_CLASS else moving(signal, now) for signal in program.tenant_signals
            )
            for place, job_class in enumerate(classes)
            for number in range(place * TENANTS, (place + 1) * TENANTS)
        }
        found.append((tuple(moving(signal, now) for signal in program.signals), Now(tick * TICK_NS, wall), tenants))
    return found


def tick_us(program: Program, seed: int) -> float:
    """µs of CPU time: the median over batches of their means."""
    tick, next_change, state = program.tick, program.next_change, program.initial
    given = trace(program, seed)
    found = []
    for first in range(0, TICKS, BATCH):
        batch = given[first : first + BATCH]
        began = time.thread_time_ns()
        for snapshot, now, tenants in batch:
            state, _ = tick(state, snapshot, now, tenants)
            next_change(state, now)
        found.append((time.thread_time_ns() - began) / BATCH / 1_000)
    return statistics.median(found)


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    programs = list(shipped())
    runs = {program.name: [tick_us(program, seed) for seed in range(RUNS)] for program in programs}
    slowest = max(runs, key=lambda name: statistics.median(runs[name]))
    rows: list[Row] = [row_of_runs("slowest_policy_us", runs[slowest], "µs", TARGET_US)]
    rows += [row_of_runs(f"{name.replace('-', '_')}_us", values, "µs", TARGET_US) for name, values in runs.items()]
    emit("policy_tick", "CPU time of this machine, no GPU", rows, options.json)


if __name__ == "__main__":
    main()
