"""How fast `low` stops when `high` starts, and goes on when `high` is idle: two processes, hook to hook.

`reaction`: from the moment before `high`'s first launch after idle to the return of `low`'s last launch that still got
through. `resume`: from `resume_after` past `high`'s synchronise to the return of `low`'s next launch. Both over the
stand-in driver, so nothing but gpud is measured. `low_gpu_after_high_ms` is from the simulated GPU: how long `low`
still held it after a request of `high` had reached the device.
"""

import statistics
import sys
from pathlib import Path

from bench.harness import NATIVE, program, standin_node
from bench.low_after_high import PROFILE, low_gpu_after_high_ms
from bench.report import Row, arguments, emit, row_of_runs
from gpud.testing.node import Node

RUNS = 5
ROUNDS = 400
RESUME_AFTER_NS = 1_000_000
BOARD_BYTES = 3 << 20


def measure(node: Node, binary: Path, board: Path, *, bare: bool) -> tuple[list[float], list[float]]:
    """(reaction, resume) of each round, in µs. `bare`: without gpud, by a word that both programs share."""
    board.write_bytes(bytes(BOARD_BYTES))
    mode, managed = ("bare-", False) if bare else ("", True)
    low = node.run([binary, f"{mode}low", board], managed=managed, labels={"tier": "batch"})
    high = node.run([binary, f"{mode}high", board, str(ROUNDS), "2500"], managed=managed, labels={"tier": "online"})
    text, _ = high.communicate(timeout=120)
    low.communicate(timeout=20)
    reactions, resumes = [], []
    for line in text.splitlines():
        launched, synchronised, before, after = (int(part) for part in line.split())
        reactions.append(max(before - launched, 0) / 1e3)
        resumes.append((after - synchronised - RESUME_AFTER_NS) / 1e3)
    if len(reactions) < ROUNDS * 0.9:
        sys.exit(f"preempt_latency: low was held in {len(reactions)} of {ROUNDS} rounds only: is the gate on?")
    return reactions, resumes


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    medians, tails, resumes, bare_medians, bare_tails = [], [], [], [], []
    with (
        program(NATIVE / "preempt_pair.c") as binary,
        standin_node("preempt-mix(quiet = 1ms, window = unlimited)") as node,
    ):
        for _ in range(RUNS):
            reaction, resume = measure(node, binary, node.directory / "board", bare=False)
            medians.append(statistics.median(reaction))
            tails.append(statistics.quantiles(reaction, n=100)[98])
            resumes.append(statistics.median(resume))
            bare, _ = measure(node, binary, node.directory / "board", bare=True)
            bare_medians.append(statistics.median(bare))
            bare_tails.append(statistics.quantiles(bare, n=100)[98])
    rows: list[Row] = [
        row_of_runs("reaction_us", medians, "µs", 0.2),
        row_of_runs("reaction_p99_us", tails, "µs", 1.0),
        row_of_runs("bare_reaction_us", bare_medians, "µs"),
        row_of_runs("bare_reaction_p99_us", bare_tails, "µs"),
        row_of_runs("resume_us", resumes, "µs", 50.0),
        *low_gpu_after_high_ms(),
    ]
    emit("preempt_latency", f"stand-in driver; low_gpu_after_high_*: simulated, profile {PROFILE}", rows, options.json)


if __name__ == "__main__":
    main()
