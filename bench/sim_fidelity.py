"""The simulated A100 against published measurements: what is fitted, what is predicted, and by how much it misses.

All times are read from the device log, in modelled time, so that a busy machine does not matter.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from bench.harness import NATIVE, program
from bench.report import Row, arguments, emit
from gpud.cli.sim.devicelog import Kernel, read_log
from gpud.native import sim_dir

PROFILE = "a100-40gb"
SMS, BLOCKS_PER_SM = 108, 2
FULL = SMS * BLOCKS_PER_SM  # blocks of 1024 threads that fill the device in one wave
PTX = ".version 7.0\n.target sm_70\n.address_size 64\n" + "".join(
    f".visible .entry {name}()\n{{\n    ret;\n}}\n" for name in ("crunch", "infer", "short")
)
KERNELS = '[kernels]\n"crunch" = 50\n"infer" = 1\n"short" = 0.02\n'
CRUNCHES = 60  # kernels of 50 ms in each process: 3 s of model time
REQUESTS, REQUEST_KERNELS, PERIOD_MS = 40, 10, 50.0
OTHERS_END_S = 60.0
MOST_DISTURBED = 0.01


@attrs.frozen(kw_only=True)
class Figure:
    """A figure of the model beside a published one."""

    name: str
    value: float
    unit: str
    published: tuple[float, float]
    """The published figure, or the range of several."""
    source: str
    fitted: bool = False

    @property
    def miss(self) -> float:
        """How far the model is outside what was published; 0 within it."""
        low, high = self.published
        return self.value - high if self.value > high else min(self.value - low, 0.0)

    @property
    def line(self) -> str:
        low, high = self.published
        said = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        kind = "fitted" if self.fitted else "predicted"
        value, miss = round(self.value, 2) + 0.0, round(self.miss, 2) + 0.0  # no minus before a zero
        numbers = f"{value:>8.2f}  {said:>13}  {miss:>+7.2f}"
        return f"  {self.name:<34} {numbers}  {self.unit:<9} {kind:<9}  {self.source}"


@attrs.frozen(kw_only=True)
class Run:
    """What a simulated node did."""

    kernels: tuple[Kernel, ...]
    disturbed: float
    """By how much late computing put modelled times off, of the time in which the device was busy."""
    launch_ns: tuple[float, ...]
    resident_mib: tuple[float, ...]
    idle_cpu_ms: float | None
    """CPU time of the device process while all programs were idle for a second; None: not asked for."""

    @property
    def span_ms(self) -> float:
        """From the first start to the last end."""
        return (max(k.end_ns for k in self.kernels) - min(k.start_ns for k in self.kernels)) / 1e6

    @property
    def progress(self) -> float:
        """Kernel time that passes in a unit of time while all programs have work: 1 for one program alone."""
        mine = [[k for k in self.kernels if k.pid == pid] for pid in {kernel.pid for kernel in self.kernels}]
        first = max(min(k.start_ns for k in kernels) for kernels in mine)
        last = min(max(k.end_ns for k in kernels) for kernels in mine)
        pieces = [piece for kernel in self.kernels for piece in kernel.pieces]
        return sum(max(min(b, last) - max(a, first), 0) for a, b in pieces) / (last - first)

    @property
    def loss_percent(self) -> float:
        """How much longer the programs take together than one after another, while all of them have work."""
        return (1 / self.progress - 1) * 100


class Bench:
    """Runs programs on simulated nodes; owns the directory with the profile, the kernels and the logs."""

    def __init__(self, directory: Path, binary: Path) -> None:
        self._directory, self._binary = directory, binary
        self.disturbed = 0.0
        self._ptx = directory / "kernels.ptx"
        self._ptx.write_text(PTX)
        (directory / f"{PROFILE}.toml").write_text((sim_dir() / "profiles" / f"{PROFILE}.toml").read_text())
        self._libraries = sim_dir() if (sim_dir() / "libcuda.so.1").exists() else sim_dir() / "cuda"

    def run(
        self,
        *programs: Sequence[object],
        mode: str = "timeslice",
        scale: float = 0.1,
        timing: str = "",
        wait_for: int | None = None,
        rest: bool = False,
    ) -> Run:
        """Runs the programs at once until they, or the first `wait_for`, have ended.

        A program is what sim_load takes, from the kernel's name on. `rest`: nobody does anything for a second before.
        """
        name = uuid.uuid4().hex[:12]
        log = self._directory / f"{name}.jsonl"
        profile = self._directory / f"{name}.toml"
        profile.write_text(f'base = "{PROFILE}"\n[timing]\ntime_scale = {scale}\n{timing}\n{KERNELS}')
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUD_SIM_")} | {
            "LD_LIBRARY_PATH": str(self._libraries),
            "GPUD_SIM_NODE": f"fidelity-{name}",
            "GPUD_SIM_PROFILE": str(profile),
            "GPUD_SIM_MODE": mode,
            "GPUD_SIM_LOG": str(log),
            "GPUD_SIM_PYTHON": sys.executable,
        }
        with self._started(programs, environment) as started:
            idle = _device_cpu_ms(log) if rest else None
            for job in started:
                assert job.stdin is not None
                job.stdin.write("go\n")
                job.stdin.flush()
            said = [_words(job, "done") for job in started[:wait_for]]
        run = _read(log, said, idle)
        self.disturbed = max(self.disturbed, run.disturbed)
        return run

    @contextlib.contextmanager
    def _started(
        self, programs: Sequence[Sequence[object]], environment: dict[str, str]
    ) -> Iterator[list[subprocess.Popen[str]]]:
        """The programs, each with a context; ended at last."""
        jobs: list[subprocess.Popen[str]] = []
        try:
            for program_ in programs:
                command = [str(self._binary), str(self._ptx), *map(str, program_)]
                pipe = subprocess.PIPE
                jobs.append(subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True))
            for job in jobs:
                _words(job, "ready")
            yield jobs
        finally:
            for job in jobs:
                job.kill()
                job.communicate()


def _words(job: subprocess.Popen[str], first: str) -> list[str]:
    line = job.stdout.readline().split() if job.stdout else []
    if not line or line[0] != first:
        sys.exit(f"sim_fidelity: a program ended before it was {first}")
    return line[1:]


def _device_cpu_ms(log: Path) -> float:
    """CPU time of the device process in a second in which nobody does anything, once its log is written."""
    time.sleep(0.5)
    pid = json.loads(log.read_text().split("\n", 1)[0])["device_process"]

    def ns() -> int:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])

    before = ns()
    time.sleep(1)
    return (ns() - before) / 1e6


def _read(log: Path, said: list[list[str]], idle: float | None) -> Run:
    """The run by its log, which is whole when the device process has ended."""
    deadline = time.monotonic() + OTHERS_END_S
    while '"type":"end"' not in (text := log.read_text()):
        if time.monotonic() > deadline:
            sys.exit("sim_fidelity: the device process does not end")
        time.sleep(0.05)
    end = json.loads(text.splitlines()[-1])
    return Run(
        kernels=read_log(log).kernels,
        disturbed=float(end["shifted_ns"]) / max(int(end["busy_ns"]), 1),
        launch_ns=tuple(float(words[0]) for words in said),
        resident_mib=tuple(int(words[1]) / 1024 for words in said),
        idle_cpu_ms=idle,
    )


def _crunch(blocks: int = FULL, kernels: int = CRUNCHES) -> tuple[object, ...]:
    return ("crunch", blocks, 1, kernels, 0)


def sharing(bench: Bench) -> Iterator[Figure]:
    """CERN: identical compute-bound processes under time slicing."""
    two = bench.run(_crunch(), _crunch()).loss_percent
    cern = "CERN, A100 40 GB, particle tracking"
    yield Figure(
        name="timeslice_2proc_loss_percent",
        value=two,
        unit="%",
        published=(37.90, 37.90),
        source=f"{cern}, 15 M particles",
        fitted=True,
    )
    for size, loss in (("20m", 38.23), ("30m", 38.61)):
        yield Figure(
            name=f"timeslice_2proc_{size}_loss_percent",
            value=two,
            unit="%",
            published=(loss, loss),
            source=f"{cern}, {size[:2]} M particles",
        )
    for count in (4, 8):
        loss = bench.run(*[_crunch(kernels=CRUNCHES // count * 2)] * count).loss_percent
        yield Figure(
            name=f"timeslice_{count}proc_further_percent",
            value=loss - two,
            unit="%",
            published=(0.0, 0.0),
            source=f"{cern}: no further loss",
        )


def instances(bench: Bench) -> Iterator[Figure]:
    """CERN: one process on MIG instances of several sizes."""
    whole = bench.run(_crunch()).span_ms
    spans = {slices: bench.run(_crunch(), mode=f"mig:{slices}g").span_ms for slices in (7, 4, 3, 2, 1)}
    yield Figure(
        name="mig_7g_loss_percent",
        value=(spans[7] / whole - 1) * 100,
        unit="%",
        published=(8.91, 9.37),
        source="CERN, MIG 7g.40gb against no MIG, three sizes",
    )
    for slices in (4, 3, 2, 1):
        yield Figure(
            name=f"mig_{slices}g_of_7g",
            value=spans[slices] / spans[7],
            unit="x longer",
            published=(round(7 / slices, 2), round(7 / slices, 2)),
            source="CERN: in proportion",
        )


def others(bench: Bench) -> Iterator[Figure]:
    """Other systems' figures that this model can say something about."""
    scale = 3.0  # so that kernels of a request that arrives are computed in time
    request = ("infer", FULL, REQUESTS, REQUEST_KERNELS, int(PERIOD_MS * 1000 * scale))
    alone = bench.run(request, scale=scale)
    shared = bench.run(request, _crunch(kernels=400), scale=scale, wait_for=1)
    yield Figure(
        name="native_sharing_p99_of_alone",
        value=_p99_ms(shared) / _p99_ms(alone),
        unit="x",
        published=(1.60, 2.19),
        source="XSched (OSDI'25): p99 of a job beside another, without XSched, per platform",
    )
    slow = bench.run(_crunch(), _crunch(), timing="slice_ms = 5")
    yield Figure(
        name="slices_of_5ms_loss_percent",
        value=slow.loss_percent,
        unit="%",
        published=(0.0, 3.4),
        source="XSched (OSDI'25): slices of 5 ms cost less than 3.4 %, per platform",
    )
    half = _crunch(FULL // 2)
    one, both = bench.run(half, mode="mps"), bench.run(half, half, mode="mps")
    yield Figure(
        name="fused_2proc_throughput",
        value=both.progress / one.progress,
        unit="x",
        published=(2.0, 2.0),
        source="Baidu, process fusion: two fused instances, utilisation x 2",
    )


def _p99_ms(run: Run) -> float:
    """The 99th percentile of the requests' times, from the first submission to the last end."""
    kernels = [kernel for kernel in run.kernels if kernel.name == "infer"]
    requests = [kernels[i : i + REQUEST_KERNELS] for i in range(0, len(kernels), REQUEST_KERNELS)]
    times = [(request[-1].end_ns - request[0].submit_ns) / 1e6 for request in requests]
    return statistics.quantiles(times, n=100, method="inclusive")[98]


def costs(bench: Bench) -> list[Row]:
    """What the simulator costs: a launch while work is queued, memory, and the device process at rest."""
    runs = [bench.run(("short", FULL, 40, 50, 3000), scale=1.0, rest=True) for _ in range(3)]
    return [
        Row(
            name="launch_ns", value=statistics.median(run.launch_ns[0] for run in runs), unit="ns", target=1000, runs=3
        ),
        Row(name="process_rss_mib", value=max(run.resident_mib[0] for run in runs), unit="MiB", target=30, runs=3),
        Row(
            name="idle_device_cpu_ms_per_s",
            value=max(run.idle_cpu_ms or 0.0 for run in runs),
            unit="ms/s",
            target=0,
            runs=3,
        ),
    ]


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory(prefix="gpud-bench-") as directory, program(NATIVE / "sim_load.c") as binary:
        bench = Bench(Path(directory), binary)
        figures = [*sharing(bench), *instances(bench), *others(bench)]
        rows = costs(bench)
    if bench.disturbed > MOST_DISTURBED:
        print("sim_fidelity: not valid: kernels were computed too late for their modelled times", file=sys.stderr)
    print(f"  {'figure':<34} {'model':>8}  {'published':>13}  {'miss':>7}  {'unit':<9} {'':<9}  source")
    for figure in figures:
        print(figure.line)
    named = [Row(name=figure.name, value=figure.value, unit=figure.unit) for figure in figures]
    missed = [Row(name=f"{f.name}_miss", value=f.miss, unit="points" if f.unit == "%" else f.unit) for f in figures]
    rows.append(
        Row(name="times_disturbed", value=bench.disturbed * 100, unit="% of busy time", target=MOST_DISTURBED * 100)
    )
    emit("sim_fidelity", f"simulated, profile {PROFILE}", [*named, *missed, *rows], options.json)
    sys.exit(0 if bench.disturbed <= MOST_DISTURBED else 1)


if __name__ == "__main__":
    main()
