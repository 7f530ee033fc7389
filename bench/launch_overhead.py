"""What the hook adds to a launch while the gate is open, attached to a live daemon, over an empty launch function.

Direct and hooked runs alternate, so that the machine's moods hit both. The activity page must have counted exactly the
launches made, else nothing was measured and the bench fails.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.harness import NATIVE, program, standin_node
from bench.report import Row, arguments, emit, row_of_runs
from gpud.testing.node import Node

RUNS = 9
LAUNCHES = 4_000_000
TARGET_ADDED_NS = {1: 4.0, 2: 5.0}


def measure(node: Node, binary: Path, threads: int, managed: bool) -> float:
    """ns of CPU time of one call, the mean over the threads of one process."""
    job = node.run(
        [binary, str(threads), str(LAUNCHES), "wait"], managed=managed, labels={"tier": "online"}, stdin=subprocess.PIPE
    )
    assert job.stdout is not None
    result: dict[str, Any] = json.loads(job.stdout.readline())
    if managed:
        _check_count(node, result["launches"])
    job.communicate("\n", timeout=20)
    costs: list[float] = result["ns"]
    return sum(costs) / len(costs)


def _check_count(node: Node, made: int) -> None:
    with node.client() as client:
        counted = sum(stats.launches for stats in client.stats())
    if counted != made:
        sys.exit(
            f"launch_overhead: the activity page counts {counted} launches, {made} were made: nothing was measured"
        )


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    rows: list[Row] = []
    with program(NATIVE / "launch_loop.c") as binary, standin_node() as node:
        for threads in (1, 2):
            direct, added = [], []
            for _ in range(RUNS):
                direct.append(measure(node, binary, threads, managed=False))
                added.append(measure(node, binary, threads, managed=True) - direct[-1])
            rows.append(row_of_runs(f"direct_{threads}t_ns", direct, "ns"))
            rows.append(row_of_runs(f"open_{threads}t_added_ns", added, "ns", TARGET_ADDED_NS[threads]))
    emit("launch_overhead", "stand-in driver (an empty launch function), no GPU", rows, options.json)


if __name__ == "__main__":
    main()
