"""What gpud adds to a launch on a real driver: inside PyTorch, and to a bare cuLaunchKernel.

Bursts with the device idle in between, so that only the launching thread is measured; runs with and without gpud
alternate. `open`: as high, which nothing holds; `charged`: under `share-equal`, alone on the device.
"""

import json
import statistics
import subprocess
from pathlib import Path

from bench.gpu.place import PROGRAMS, Parts, Place, all_ready, alone, options_of, place, same
from bench.harness import ROOT, program
from bench.report import Row, row_of_runs
from gpud.testing.node import Node

RUNS = 5
ROUNDS, QUICK_ROUNDS = 100, 5
POLICIES = {"open": "preempt-mix", "charged": "share-equal"}
COUNTER = ROOT / "tests" / "e2e" / "programs" / "counter.ptx"


def main() -> None:
    options = options_of(__doc__ or "", seconds=0.0)
    parts = Parts("launch_overhead", options)
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    with place(options) as here, program(PROGRAMS / "launches.c") as binary:
        for state, policy in POLICIES.items():
            with parts.part(state), here.node(policy) as node:
                parts.device, rows = in_framework(here, node, state, rounds)
                parts.rows += rows
                parts.rows += bare(node, binary, state, rounds)
    parts.end()


def in_framework(here: Place, node: Node, state: str, rounds: int) -> tuple[str, list[Row]]:
    """The device, and what an operator costs the host more."""
    jobs = [here.job(node, "it", {"tier": "online"}, managed=managed) for managed in (False, True)]
    device = all_ready(jobs)
    name = "numba" if here.simulated else "torch"
    same(jobs, "tiny")
    direct, added = [], []
    for _ in range(RUNS):
        direct.append(alone(jobs[0], "burst", kind="tiny", rounds=rounds)["ns"])
        added.append(alone(jobs[1], "burst", kind="tiny", rounds=rounds)["ns"] - direct[-1])
    for job in jobs:
        job.end()
    return device, [
        row_of_runs(f"{name}_{state}_direct_ns", direct, "ns"),
        row_of_runs(f"{name}_{state}_added_ns", added, "ns"),
        Row(
            name=f"{name}_{state}_added_percent",
            value=100 * statistics.median(added) / statistics.median(direct),
            unit="% of an operator",
            target=2.0,
        ),
    ]


def bare(node: Node, binary: Path, state: str, rounds: int) -> list[Row]:
    """The same of a bare launch in C."""
    direct, added = [], []
    for _ in range(RUNS):
        direct.append(_bare_ns(node, binary, rounds, managed=False))
        added.append(_bare_ns(node, binary, rounds, managed=True) - direct[-1])
    return [
        row_of_runs(f"driver_{state}_direct_ns", direct, "ns"),
        row_of_runs(f"driver_{state}_added_ns", added, "ns"),
    ]


def _bare_ns(node: Node, binary: Path, rounds: int, *, managed: bool) -> float:
    command = [str(binary), str(COUNTER), "add_amount", str(rounds)]
    job = node.run(command, managed=managed, labels={"tier": "online"}, stderr=subprocess.PIPE)
    out, err = job.communicate(timeout=60)
    if job.returncode:
        raise SystemExit(f"launch_overhead: launches ended with {job.returncode}: {err.strip()}")
    said = json.loads(out)
    if not said["right"]:
        raise SystemExit("launch_overhead: the kernels computed something wrong")
    return float(said["ns"])


if __name__ == "__main__":
    main()
