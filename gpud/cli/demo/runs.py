"""The demo's runs, and how the programs are started for each."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from gpud.cli.demo.prerequisites import examples_dir
from gpud.native import shipped_policies, sim_dir

PROFILE = "a100-40gb-demo"
KERNEL_MS = 2.0
SHORT_KERNEL_MS = 0.1
KERNELS = 10
RESUME_AFTER_MS = 1.0
MAX_PAUSE_MS = 2000.0
MAX_INFLIGHT = 1


@frozen(kw_only=True)
class Run:
    """One run: what takes part in it, in model milliseconds."""

    name: str
    words: str
    training: bool = False
    elsewhere: bool = False
    """Training on another device: the null contender."""
    managed: bool = False
    """Both programs under gpud."""
    short: bool = False
    """Requests of 1 ms instead of 20 ms."""
    gap_ms: float = 60.0
    time_scale: float = 2.5
    """So that a request takes 50 ms of wall time, long beside what sleeping processes are late."""
    share: float = 1.0
    """Of the seconds that a run is measured for."""

    def seconds(self, asked: float) -> float:
        """How long it is measured, wall time, when `asked` seconds were asked for; enough for something to arrive."""
        return max(asked * self.share, self.gap_ms * self.time_scale / 1e3 * 8 if self.short else 0.0)

    @property
    def kernel_ms(self) -> float:
        """Device time of one of serving's kernels."""
        return SHORT_KERNEL_MS if self.short else KERNEL_MS


RUNS = (
    Run(name="alone", words="serving alone"),
    Run(name="null", words="serving, training on another device", training=True, elsewhere=True),
    Run(name="shared", words="both, without gpud", training=True),
    Run(name="preempt-mix", words="both, gpud preempt-mix", training=True, managed=True),
    Run(name="short-alone", words="1 ms requests alone", short=True, gap_ms=20.0, time_scale=10.0, share=0.375),
    Run(
        name="short-mix",
        words="1 ms requests, gpud preempt-mix",
        training=True,
        managed=True,
        short=True,
        gap_ms=20.0,
        time_scale=10.0,
        share=0.375,
    ),
)


def environment(run: Run, *, simulated: bool, directory: Path, node: str) -> dict[str, str]:
    """For everything that belongs to one run. Nothing of the caller's gpud gets in."""
    kept = ("GPUD_NATIVE_DIR", "GPUD_SIM_CACHE", "GPUD_LOG")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_") or k in kept}
    clean["GPUD_RUNTIME_DIR"] = str(directory / "gpud")
    clean["PYTHONUNBUFFERED"] = "1"
    if simulated:
        clean |= {
            "GPUD_SIM_NODE": node,
            "GPUD_SIM_PROFILE": PROFILE,
            "GPUD_SIM_DEVICES": "2" if run.elsewhere else "1",
            "GPUD_SIM_TIME_SCALE": f"{run.time_scale:g}",
            "GPUD_SIM_LOG": str(log_file(run, directory)),
            "GPUD_SIM_PYTHON": sys.executable,
        }
        clean.pop("CUDA_VISIBLE_DEVICES", None)
        rest = clean.get("LD_LIBRARY_PATH", "")
        clean["LD_LIBRARY_PATH"] = f"{sim_dir()}:{rest}" if rest else str(sim_dir())
    return clean


def log_file(run: Run, directory: Path) -> Path:
    """The device log of a run."""
    return directory / f"{run.name}.jsonl"


def serve_command(run: Run, *, simulated: bool) -> list[str]:
    """The daemon, with the policy's times in wall time."""
    scale = run.time_scale if simulated else 1.0
    policy = f"preempt-mix(quiet = {_duration(RESUME_AFTER_MS * scale)}, window = {MAX_INFLIGHT}, "
    policy += f"patience = {_duration(MAX_PAUSE_MS * scale)})"
    command = [*_gpud(), "serve", "--policies", str(shipped_policies()), "--policy", policy]
    return command + (["--sim", PROFILE] if simulated else [])


def serving_command(run: Run, *, simulated: bool, seconds: float, seed: int, rounds: Mapping[str, int]) -> list[str]:
    """`examples/serving.py`, under gpud where the run says so."""
    scale = run.time_scale if simulated else 1.0
    kind = "short" if run.short else "serve"
    command = [sys.executable, str(examples_dir() / "serving.py"), "--seed", str(seed), "--kernel", kind]
    command += ["--seconds", f"{seconds:g}", "--gap", f"{run.gap_ms * scale:g}", "--kernels", str(KERNELS), "--wait"]
    if not simulated:
        command += ["--rounds", str(rounds[kind])] if kind in rounds else ["--kernel-ms", f"{run.kernel_ms:g}"]
    return [*_gpud(), "run", "--label", "tier=online", "--name", "serving", *command] if run.managed else command


def training_command(run: Run, *, simulated: bool, seconds: float, rounds: Mapping[str, int]) -> list[str]:
    """`examples/training.py`, under gpud where the run says so."""
    command = [sys.executable, str(examples_dir() / "training.py"), "--seconds", f"{seconds:g}"]
    command += ["--device", "1"] if run.elsewhere else []
    if not simulated:
        command += ["--rounds", str(rounds["train"])] if "train" in rounds else ["--kernel-ms", f"{KERNEL_MS:g}"]
    return [*_gpud(), "run", "--name", "training", *command] if run.managed else command


def _duration(ms: float) -> str:
    return f"{round(ms * 1000)}us"


def _gpud() -> list[str]:
    return [sys.executable, "-m", "gpud.cli.main"]
