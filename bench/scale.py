"""The daemon with 256 clients on 8 devices: its CPU time, how long an attach takes, how punctual its ticks are.

Stand-in driver, so that the clients cost little. Each client is a tenant of its own, and sees one device, as containers
do; `wide`: it sees all, and uses its first. CPU time is shown above that of a
program that does nothing but wake every 5 ms by trio, measured at the same time.
"""

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.harness import NATIVE, own_policies, policy_file, program, standin_dir, standin_node
from bench.report import Row, arguments, emit
from gpud.native import hook_library, shipped_policies
from gpud.testing.node import Node

DEVICES, CLIENTS_EACH, HIGH_EACH = 8, 32, 8
TICK_MS = 5.0
TICKER = """
import trio
async def main():
    at = trio.current_time()
    while True:
        at += 0.005
        await trio.sleep_until(at)
trio.run(main)
"""
LOADS = {"idle": ("idle", "idle"), "training": ("train", "train"), "mixed": ("train", "serve")}
"""What the others do, and those of `high`."""
WIDE = "wide"
MATCH = 'match label("tier") == "online"'


def _shipped(name: str) -> Mapping[str, str]:
    """A shipped policy, where `high` is told by the program's name: these clients have no labels."""
    text = (shipped_policies() / f"{name}.gpol").read_text()
    if text.count(MATCH) != 1:
        sys.exit(f"scale: {name}.gpol does not say {MATCH}")
    return {"bench.gpol": text.replace(MATCH, 'match exe ~ "*-high"').replace(f'policy "{name}"', 'policy "bench"')}


def policies() -> dict[str, Mapping[str, str]]:
    share = policy_file("arbitrate share { period = 20ms }", "class all { match any  per = tenant  share = equal }")
    return {
        "share": share,
        WIDE: share,
        "preempt": _shipped("preempt-mix"),
        "aimd": _shipped("aimd"),
    }


class Crowd:
    """All clients of a node. `attach_ms`: of each, in the order of coming."""

    def __init__(self, node: Node, binary: Path, clients_each: int, *, wide: bool) -> None:
        self._node, self._wide = node, wide
        self._environment = node.environment | {
            "LD_LIBRARY_PATH": str(standin_dir()),
            "LD_PRELOAD": str(hook_library()),
        }
        high = binary.with_name(binary.name + "-high")
        shutil.copy(binary, high)
        self.attach_ms: list[float] = []
        self.low: list[subprocess.Popen[str]] = []
        self.high: list[subprocess.Popen[str]] = []
        for number in range(clients_each * DEVICES):
            is_high = number // DEVICES % (CLIENTS_EACH // HIGH_EACH) == 0
            (self.high if is_high else self.low).append(self._start(high if is_high else binary, number % DEVICES))

    def _start(self, binary: Path, device: int) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        seen = {"STANDIN_DEVICES": str(DEVICES)} if self._wide else {"STANDIN_FIRST": str(device)}
        environment = self._environment | seen
        job = subprocess.Popen([binary], env=environment, stdin=pipe, stdout=pipe, text=True, bufsize=1)
        assert job.stdout is not None
        words = job.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise RuntimeError(f"a client ended; the daemon's log:\n{self._node.log.read_text()[-4000:]}")
        self.attach_ms.append(float(words[1]))
        return job

    def do(self, low: str, high: str) -> None:
        for jobs, command in ((self.low, low), (self.high, high)):
            for job in jobs:
                tell(job, command)

    def end(self) -> None:
        for job in (*self.low, *self.high):
            assert job.stdin is not None
            job.stdin.close()
        for job in (*self.low, *self.high):
            job.wait(20)


def tell(job: "subprocess.Popen[str]", command: str) -> None:
    assert job.stdin is not None
    job.stdin.write(command + "\n")


def ticks_us(job: "subprocess.Popen[str]", seconds: float) -> list[int]:
    """Times between two ticks that this client sees in its control page."""
    assert job.stdout is not None
    tell(job, "watch")
    time.sleep(seconds)
    tell(job, "train")
    count = int(job.stdout.readline().split()[1])
    return [int(job.stdout.readline()) for _ in range(count)]


def cpu_ns(pid: int) -> int:
    """CPU time of all threads so far."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


@contextmanager
def ticker() -> Iterator[int]:
    """The empty ticker's pid."""
    with subprocess.Popen([sys.executable, "-c", TICKER]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def percent(pids: Sequence[int], seconds: float) -> list[float]:
    """Of a core, that each of them uses from now on."""
    before, begin = [cpu_ns(pid) for pid in pids], time.monotonic_ns()
    time.sleep(seconds)
    after, end = [cpu_ns(pid) for pid in pids], time.monotonic_ns()
    return [100 * (b - a) / (end - begin) for a, b in zip(before, after, strict=True)]


def rows_of(name: str, files: Mapping[str, str], binary: Path, clients_each: int, seconds: float) -> Iterator[Row]:
    """Of one policy."""
    with own_policies(files) as directory, standin_node("bench", directory) as node, ticker() as empty:
        assert node.daemon is not None
        crowd = Crowd(node, binary, clients_each, wide=name == WIDE)
        with node.client() as client:
            jobs = len(client.ps())
        if jobs != clients_each * DEVICES:
            sys.exit(f"scale: the daemon knows {jobs} jobs, {clients_each * DEVICES} were started")
        last = crowd.attach_ms[-4 * DEVICES :]
        yield Row(name=f"scale_{name}_attach_ms", value=statistics.median(last), unit="ms", target=5.0)
        yield Row(name=f"scale_{name}_attach_worst_ms", value=max(last), unit="ms")
        for load, (low, high) in LOADS.items():
            crowd.do(low, high)
            time.sleep(1.0)  # what a change of load does is not what it costs
            daemon, beside = percent([node.daemon.pid, empty], seconds)
            above = daemon - (beside if load != "idle" else 0)
            yield Row(name=f"scale_{name}_{load}_cpu_percent", value=above, unit="% of a core", target=5.0)
            yield Row(name=f"scale_{name}_{load}_ticker_percent", value=beside, unit="% of a core")
        if name == "share":
            late = sorted(abs(us / 1e3 - TICK_MS) for us in ticks_us(crowd.low[0], seconds))
            if len(late) < 20:
                sys.exit(f"scale: {len(late)} ticks were seen in {seconds:g} s")
            yield Row(name="scale_tick_jitter_ms", value=statistics.median(late), unit="ms")
            yield Row(name="scale_tick_jitter_p99_ms", value=late[len(late) * 99 // 100], unit="ms", target=5.0)
        crowd.end()


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    clients_each, seconds = (4, 1.0) if options.quick else (CLIENTS_EACH, 6.0)
    rows: list[Row] = []
    with program(NATIVE / "crowd.c") as binary:
        for name, files in policies().items():
            rows += rows_of(name, files, binary, clients_each, seconds)
    emit(
        "scale",
        f"stand-in driver, {DEVICES} devices with {clients_each} clients each",
        rows,
        options.json,
        rehearsal=options.quick,
    )


if __name__ == "__main__":
    main()
