"""Five models that are trained online, each for 2 of every 15 minutes, on one GPU instead of five.

    python examples/online_training.py [--memory 60]

New data arrive for all models at once, which is the worst that can happen: the last one waits while four others
train. Each batch must be done before the next data arrive. The jobs are online_job.py: first, as a contrast, each on a
device of its own without gpud, then all on one device under it, by turns. With `--memory 60` each holds 60 % of the
device's memory as well: two of them do not fit, so what is not in use leaves the device between turns.

It runs on the simulated GPU, with time scaled (`--minute`: seconds that a minute takes). Exit code 1: something was
computed wrong, or an argument is.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpud.cli.sim.devicelog import DeviceLog, read_log
from gpud.native import sim_dir
from gpud.testing.node import Node, until

JOB = Path(__file__).with_name("online_job.py")
BUSY_MIN, EVERY_MIN = 2, 15
STEP_MS = 4.0
"""How long a step takes on the simulated device."""
BASE, DEVICE_MIB = "test-small", 256
SMALL = 1 << 20
"""Bytes: what jobs copy themselves is less."""
PROFILE = f"""base = "{BASE}"
[device]
memory_gib = {DEVICE_MIB / 1024}
[timing]
h2d_gbs = 25
d2h_gbs = 25
[kernels]
"train_*" = {STEP_MS}
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One way of running the jobs."""

    words: str
    devices: int
    batches: list[dict[str, Any]]
    right: bool
    moved: int
    """Bytes that went to the host and came back."""
    busy: float
    """Of the devices, while data arrived."""


class Jobs:
    """All of them, on a node that has just been made."""

    def __init__(self, node: Node, options: argparse.Namespace, *, managed: bool) -> None:
        self._jobs: list[subprocess.Popen[str]] = []
        mib = DEVICE_MIB * options.memory // 100
        steps = max(round(BUSY_MIN * options.minute * 1000 / STEP_MS), 1)
        for number in range(options.jobs):
            node.environment["CUDA_VISIBLE_DEVICES"] = "0" if managed else str(number)
            words = {"seed": number + 1, "batches": options.batches, "every": EVERY_MIN * options.minute}
            words |= {"steps": steps, "mib": mib}
            command = [sys.executable, str(JOB), *(f"--{name}={value}" for name, value in words.items())]
            names = ("--name", f"model{number}") if managed else ()
            self._jobs.append(node.run(command, managed=managed, options=names, stdin=subprocess.PIPE))
        for job in self._jobs:
            assert job.stdout is not None
            if not job.stdout.readline():
                raise RuntimeError("a job ended before it was ready; what it said is above")

    def train(self, begin: float) -> list[list[dict[str, Any]]]:
        """What each of them says of its batches, and at last of the memory that it has held."""
        for job in self._jobs:
            assert job.stdin is not None
            job.stdin.write(f"{begin}\n")
            job.stdin.flush()
        return [[json.loads(line) for line in job.communicate()[0].splitlines()] for job in self._jobs]


def run(options: argparse.Namespace, profile: Path, *, managed: bool) -> Run:
    """All jobs on one device under gpud, or each on its own without."""
    devices = 1 if managed else options.jobs
    variables = {"GPUD_SIM_PYTHON": sys.executable, "GPUD_SIM_DEVICES": str(devices), "GPUD_OPTIONAL": "1"}
    policy = f"online-training(batch = {max(round(EVERY_MIN * options.minute), 1)}s)"
    node = Node(profile=str(profile), policy=policy, policies=JOB.parent, environment=variables)
    try:
        if managed:
            node.start()
        jobs = Jobs(node, options, managed=managed)
        begin = time.monotonic() + 0.2
        lines = jobs.train(begin)
        node.stop()
        until(lambda: _log(node).complete, 30, "the device log is whole")
        log = _log(node)
    finally:
        node.close()
    batches = [line for job in lines for line in job if "done" in line]
    whole = len(batches) == options.jobs * options.batches and all(job[-1].get("weights_right") for job in lines)
    held = max(DEVICE_MIB * options.memory // 100, 1) << 20  # as a job looks through it in the end
    window = [log.model_ns(round(at * 1e9)) for at in (begin, begin + options.batches * EVERY_MIN * options.minute)]
    return Run(
        words="one device each, without gpud" if not managed else "one device, by turns",
        devices=devices,
        batches=batches,
        right=whole and all(batch["right"] for batch in batches),
        moved=sum(copy.size for copy in log.copies if copy.start_ns >= window[0] and SMALL <= copy.size < held),
        busy=sum(one.run_ns for one in log.kernels if one.start_ns >= window[0]) / (window[1] - window[0]) / devices,
    )


def _log(node: Node) -> DeviceLog:
    return read_log(node.device_log)


def table(runs: Sequence[Run], minute: float) -> list[list[str]]:
    """Head and rows. Times are minutes of the story."""
    rows = [["run", "devices", "batches", "late", "longest wait", "done after", "moved", "device busy", "correct"]]
    for one in runs:
        waits = [batch["started"] - batch["arrives"] for batch in one.batches]
        done = [batch["done"] - batch["arrives"] for batch in one.batches]
        late = sum(took > EVERY_MIN * minute for took in done)
        minutes = [f"{max(times, default=0) / minute:.1f} min" for times in (waits, done)]
        right = "yes" if one.right else "NO"
        moved = f"{one.moved / (1 << 20):.0f} MiB"
        busy = f"{100 * one.busy:.0f} %"
        rows.append([one.words, str(one.devices), str(len(one.batches)), str(late), *minutes, moved, busy, right])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Five models trained online on one simulated GPU instead of five.")
    parser.add_argument("--jobs", type=int, default=5, help="how many (default %(default)s)")
    parser.add_argument("--batches", type=int, default=4, help="of each (default %(default)s)")
    parser.add_argument("--minute", type=float, default=0.2, help="seconds that a minute takes (default %(default)s)")
    parser.add_argument("--memory", type=int, default=0, help="of the device's, that each job holds, per cent")
    options = parser.parse_args()
    if not (1 <= options.jobs <= 7 and options.batches >= 1 and options.minute > 0 and 0 <= options.memory <= 80):
        parser.error("--jobs is 1 to 7 (7 × 2 of 15 minutes), --memory 0 to 80, --batches and --minute above 0")
    with tempfile.TemporaryDirectory(prefix="gpud-example-") as name:
        profile = Path(name) / "online.toml"
        profile.write_text(PROFILE)
        (Path(name) / f"{BASE}.toml").write_text((sim_dir() / "profiles" / f"{BASE}.toml").read_text())
        runs = [run(options, profile, managed=managed) for managed in (False, True)]
    scaled = f"a minute takes {options.minute:g} s"
    print(f"simulated, profile {BASE} with {DEVICE_MIB} MiB and steps of {STEP_MS:g} ms; {scaled}")
    rows = table(runs, options.minute)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    saved = options.jobs - 1
    print(f"{saved} of {options.jobs} devices are saved ({100 * saved / options.jobs:.0f} %).")
    return 0 if all(one.right for one in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
