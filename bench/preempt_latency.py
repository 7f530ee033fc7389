"""How fast `low` stops when `high` starts, and goes on when `high` is idle: two processes, hook to hook.

`reaction`: from the moment before `high`'s first launch after idle to the return of `low`'s last launch that still got
through. `resume`: from `resume_after` past `high`'s synchronise to the return of `low`'s next launch. Both over the
stand-in driver, so nothing but gpud is measured. `low_gpu_after_high_ms` is from the simulated GPU: how long `low`
still held it after a request of `high` had reached the device.
"""

import os
import statistics
import sys
from pathlib import Path

from bench.harness import NATIVE, PREEMPT, own_policies, program, standin_node
from bench.low_after_high import PROFILE, low_gpu_after_high_ms
from bench.report import Row, arguments, emit, row_of_runs
from gpud.testing.node import Node

RUNS = 5
ROUNDS = 400
RESUME_AFTER_NS = 1_000_000
BOARD_BYTES = 9 << 20
LOWS = (1, 4, 16)


def measure(node: Node, binary: Path, lows: int, rounds: int, *, bare: bool) -> tuple[list[float], list[float]]:
    """(reaction, resume) of each round, in µs. `bare`: without gpud, by a word that the programs share."""
    board = node.directory / "board"
    board.write_bytes(b"")
    os.truncate(board, BOARD_BYTES)
    mode, managed = ("bare-", False) if bare else ("", True)
    low = [
        node.run([str(binary), f"{mode}low", str(board), str(index)], managed=managed, labels={"tier": "batch"})
        for index in range(lows)
    ]
    command = [
        str(binary),
        f"{mode}high",
        str(board),
        str(lows),
        str(rounds),
        "2500",
        "0" if bare else str(RESUME_AFTER_NS // 1000),
    ]
    text, _ = node.run(command, managed=managed, labels={"tier": "online"}).communicate(timeout=120)
    for job in low:
        job.communicate(timeout=20)
    reactions, resumes = [], []
    for line in text.splitlines():
        launched, synchronised, before, after = (int(part) for part in line.split())
        reactions.append(max(before - launched, 0) / 1e3)
        resumes.append((after - synchronised - RESUME_AFTER_NS) / 1e3)
    if len(reactions) < rounds * 0.9:
        sys.exit(f"preempt_latency: low was held in {len(reactions)} of {rounds} rounds only: is the gate on?")
    return reactions, resumes


def rows_of(node: Node, binary: Path, lows: int, runs: int, rounds: int) -> list[Row]:
    """With so many low clients at once: gpud and the bare word in turns."""
    medians, tails, resumes, bare_medians, bare_tails = [], [], [], [], []
    for _ in range(runs):
        reaction, resume = measure(node, binary, lows, rounds, bare=False)
        medians.append(statistics.median(reaction))
        tails.append(statistics.quantiles(reaction, n=100)[98])
        resumes.append(statistics.median(resume))
        bare, _ = measure(node, binary, lows, rounds, bare=True)
        bare_medians.append(statistics.median(bare))
        bare_tails.append(statistics.quantiles(bare, n=100)[98])
    many = "" if lows == 1 else f"_{lows}low"
    return [
        row_of_runs(f"reaction{many}_us", medians, "µs", 0.2),
        row_of_runs(f"reaction{many}_p99_us", tails, "µs", 1.0),
        row_of_runs(f"bare_reaction{many}_us", bare_medians, "µs"),
        row_of_runs(f"bare_reaction{many}_p99_us", bare_tails, "µs"),
        row_of_runs(f"resume{many}_us", resumes, "µs", 50.0),
    ]


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    rows: list[Row] = []
    runs, rounds = (1, 100) if options.quick else (RUNS, ROUNDS)
    with (
        program(NATIVE / "preempt_pair.c") as binary,
        own_policies(PREEMPT) as policies,
        standin_node("bench", policies) as node,
    ):
        for lows in LOWS:
            rows += rows_of(node, binary, lows, runs, rounds)
    rows += low_gpu_after_high_ms(1 if options.quick else 3)
    emit(
        "preempt_latency",
        f"stand-in driver; low_gpu_after_high_*: simulated, profile {PROFILE}",
        rows,
        options.json,
        rehearsal=options.quick,
    )


if __name__ == "__main__":
    main()
