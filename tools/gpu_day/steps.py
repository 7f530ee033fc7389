"""Which steps there are, in the order in which they are run: what others need first, then what is worth most."""

from dataclasses import dataclass
from pathlib import Path

from gpu_day import tree
from gpu_day.model import Step

HERE = Path(__file__).resolve().parent
DRIVER = "driver"
"""What needs a GPU names it beside the modules that it needs."""
STANDIN = ("launch_overhead", "scale", "lock", "alloc")
DRIVER_ONLY = ("vmm", "swap")
"""Benches whose programs need no framework."""
SIMULATED = (
    *("launch_overhead", "cost", "isolation", "shares", "aimd", "scale"),
    *("lock", "alloc", "switch", "swap", "soak"),
)
"""Benches of the simulated GPU, for a rehearsal."""
ALONE = ("memory",)
"""Tests that fill the device: no others beside them."""
NO_STANDIN = "it needs the stand-in driver, which `make native-test` builds in a checkout"
NO_RUNTIME = "NVIDIA's CUDA runtime, and so {}, does not run on the simulated driver"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things are, and on which device it all happens."""

    simulated: bool
    builder: str
    """The interpreter that gpud is built for."""
    jobs_python: str
    """The interpreter that has PyTorch, CuPy and Triton."""
    tree: Path
    """The checkout that gpud is run and tested from: a copy, or the checkout itself."""
    gpud_python: str
    """The interpreter that has gpud."""
    work: Path
    wheels: Path | None
    """None: gpud is built already, in `gpud_python`'s environment."""


def steps(places: Places) -> list[Step]:
    """All of them."""
    return [*_ground(places), *_tests(places), *_benches(places)]


def _ground(places: Places) -> list[Step]:
    real = () if places.simulated else ("--real",)
    build = [places.builder, str(HERE / "build.py"), "--wheels", str(places.wheels), "--work", str(places.work)]
    return [
        Step(
            name="machine",
            words="what the machine is",
            command=(places.jobs_python, str(HERE / "machine.py"), str(places.work / "machine.json"), *real),
            cwd=tree.ROOT,
            limit_s=90,
        ),
        Step(
            name="build",
            words="gpud from the tree, from carried wheels, without a network",
            command=tuple(build) if places.wheels else (places.gpud_python, "-c", "import gpud.hooks._pages"),
            cwd=tree.ROOT,
            limit_s=180,
        ),
        Step(
            name="symbols",
            words="the hook's table against this machine's cuda.h",
            command=(places.gpud_python, "tools/check_cuda_symbols"),
            cwd=places.tree,
            limit_s=60,
            needs=("build",),
            optional=True,
            beside=_beside(places),
        ),
    ]


def _beside(places: Places) -> str:
    """Tests run side by side on a machine with a GPU, which has cores enough for them; figures never do."""
    return "" if places.simulated else "tests"


def _tests(places: Places) -> list[Step]:
    rows: list[tuple[str, str, str, tuple[str, ...], str]] = [
        (
            "driver",
            "every launch entry of the driver, counted; what gpud shows of the device",
            "",
            (),
            "",
        ),
        ("runtime", "CUDA C++ by nvcc: both default streams, graphs, cooperative, pools", "", (), "nvcc's programs"),
        ("eager", "PyTorch eager, gate open and closing", "frameworks", ("torch",), "PyTorch"),
        ("graphs", "CUDA graphs in PyTorch", "frameworks", ("torch",), "PyTorch"),
        ("compile", "torch.compile", "frameworks", ("torch", "triton"), "PyTorch"),
        ("cupy", "CuPy", "frameworks", ("cupy",), "CuPy"),
        ("triton", "Triton", "frameworks", ("torch", "triton"), "Triton"),
        ("numba", "numba-cuda", "frameworks", ("numba_cuda",), ""),
        (
            "allocators",
            "PyTorch's allocators: own, expandable segments, cudaMallocAsync",
            "",
            ("torch",),
            "PyTorch",
        ),
        ("two_processes", "a high and a low job: held, resumed, killed", "", (), ""),
        ("profiler", "the profiler beside the hook", "", ("torch",), "PyTorch"),
        ("memory", "two jobs of 60 and 80 % of the device by turns; a graph after a swap", "", (), ""),
    ]
    found = []
    for name, words, file, modules, runtime in rows:
        command = [places.gpud_python, "-m", "pytest", "-q", "-pno:cacheprovider", *_options(places, "--gpu=sim")]
        command += [f"tests/gpu/test_{file or name}.py", *(["-k", name] if file else [])]
        found.append(
            Step(
                name=f"tests-{name.replace('_', '-')}",
                words=words,
                command=tuple(command),
                cwd=places.tree,
                limit_s=200 if name == "memory" else 150,
                least_s=30,
                kind="tests",
                needs=("build",),
                modules=(*_device(places), *modules),
                skip=NO_RUNTIME.format(runtime) if places.simulated and runtime else "",
                beside="" if name in ALONE else _beside(places),
            )
        )
    return found


def _device(places: Places) -> tuple[str, ...]:
    return () if places.simulated else (DRIVER,)


def _options(places: Places, *simulated: str) -> list[str]:
    return [f"--jobs-python={places.jobs_python}", *(simulated if places.simulated else [])]


def _benches(places: Places) -> list[Step]:
    rows = [
        ("isolation", "a service beside training: time slicing against preempt-mix", 130.0),
        ("cost", "GPU time charged against the profiler's", 60.0),
        ("shares", "shares of GPU time against their targets", 75.0),
        ("launch_overhead", "what a launch costs more, in PyTorch", 60.0),
        ("aimd", "low finds what high leaves", 60.0),
        ("vmm", "what virtual memory and plain pinned copies cost", 40.0),
        ("swap", "memory out and in, against plain copies; from owner to owner", 75.0),
    ]
    found = [
        Step(
            name=f"bench-{name.replace('_', '-')}",
            words=words,
            command=(places.gpud_python, "-m", f"bench.gpu.{name}", "--json", *_options(places, "--sim", "--quick")),
            cwd=places.tree,
            limit_s=limit_s,
            least_s=30,
            kind="bench",
            needs=("build",),
            modules=(
                *_device(places),
                *(() if name in DRIVER_ONLY else ("numba_cuda" if places.simulated else "torch",)),
            ),
        )
        for name, words, limit_s in rows
    ]
    if places.simulated:
        found += [
            Step(
                name=f"sim-{name.replace('_', '-')}",
                words=f"bench.{name}, a look",
                command=(places.gpud_python, "-m", f"bench.{name}", "--json", "--quick"),
                cwd=places.tree,
                limit_s=120,
                least_s=30,
                kind="bench",
                needs=("build",),
                skip="" if name not in STANDIN or (places.tree / "build" / "c-plain").is_dir() else NO_STANDIN,
            )
            for name in SIMULATED
        ]
    return found
