"""What gpud costs before the first launch, and at rest: attach, `gpud run`, `gpud ps`, a daemon with nothing to do."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.harness import NATIVE, program, standin_node
from bench.report import Row, arguments, emit, row_of_runs
from gpud.testing.node import Node

ROOT = Path(__file__).parents[1]
RUNS = 15
RESTS, REST_S = 3, 3.0


def init_ms(node: Node, binary: Path, managed: bool) -> float:
    """ms of cuInit in a fresh process."""
    text, _ = node.run([binary, "1", "1000"], managed=managed).communicate(timeout=20)
    return float(json.loads(text)["init_ms"])


def run_ms(command: list[str], environment: dict[str, str]) -> float:
    """Wall ms of a command."""
    begin = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1e3


def import_ms() -> float:
    """ms of what a program's first line takes, in a fresh interpreter."""
    code = (
        "import time; began = time.perf_counter(); from gpud import acquire; print((time.perf_counter() - began) * 1e3)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def wakeups_per_s(pid: int) -> list[float]:
    """Times that any thread of the process was put to sleep and woken, a second, in some seconds at rest."""
    return [_wakeups_per_s(pid) for _ in range(RESTS)]


def _wakeups_per_s(pid: int) -> float:
    before = _switches(pid)
    begin = time.monotonic()
    time.sleep(REST_S)
    after = _switches(pid)  # a thread that has ended meanwhile was woken once, to end
    woken = sum(after[thread] - before.get(thread, 0) if thread in after else 1 for thread in before | after)
    return woken / (time.monotonic() - begin)


def _switches(pid: int) -> dict[str, int]:
    """Of each thread."""
    found: dict[str, int] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                found[task.name] = int(line.split()[1])
    return found


def rss_mib(pid: int) -> float:
    """Resident memory of a process, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def worst(name: str, found: list[float], target: float) -> Row:
    """Of several rests: one that is none is not outweighed by others."""
    spread = (min(found), max(found))
    return Row(name=name, value=max(found), unit="1/s", target=target, runs=len(found), spread=spread)


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    rows: list[Row] = []
    with program(NATIVE / "launch_loop.c") as binary, standin_node() as node:
        assert node.daemon is not None
        time.sleep(0.5)  # what a start still does afterwards is not rest
        rest = wakeups_per_s(node.daemon.pid)
        plain, attached = [], []
        for _ in range(RUNS):
            plain.append(init_ms(node, binary, managed=False))
            attached.append(init_ms(node, binary, managed=True))
        rows.append(row_of_runs("import_ms", [import_ms() for _ in range(RUNS)], "ms", 15.0))
        rows.append(row_of_runs("init_ms", plain, "ms"))
        rows.append(row_of_runs("attach_ms", [a - statistics.median(plain) for a in attached], "ms", 5.0))
        gpud = str(Path(sys.executable).with_name("gpud"))
        true, added, asked = [], [], []
        for _ in range(RUNS):
            true.append(run_ms(["true"], node.environment))
            added.append(run_ms([gpud, "run", "true"], node.environment) - true[-1])
            asked.append(run_ms([gpud, "ps"], node.environment))
        rows.append(row_of_runs("true_ms", true, "ms"))
        rows.append(row_of_runs("run_true_added_ms", added, "ms", 45.0))
        rows.append(row_of_runs("ps_ms", asked, "ms", 150.0))
        rows.append(worst("idle_wakeups_per_s", rest, 0.0))
        client = node.run([binary, "1", "1000"], stdin=subprocess.PIPE)
        assert client.stdout is not None
        client.stdout.readline()
        time.sleep(1.0)  # what an attach still does afterwards is not rest
        rows.append(worst("idle_with_clients_wakeups_per_s", wakeups_per_s(node.daemon.pid), 5.0))
        rows.append(Row(name="daemon_rss_mib", value=rss_mib(node.daemon.pid), unit="MiB", target=100.0))
        client.communicate("\n", timeout=10)
    emit("attach", "stand-in driver, no GPU", rows, options.json)


if __name__ == "__main__":
    main()
