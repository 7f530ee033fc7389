"""machine.py FILE [--real]: what this machine is, asked without changing anything, as JSON in FILE and as lines on
stdout. With --real it fails where there is no GPU.

Run by the Python of the jobs: it also says which of their packages are there. Every question has a deadline.
"""

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

MODULES = {
    "torch": ("torch",),
    "triton": ("triton",),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "numba": ("numba",),
    "numba_cuda": ("numba-cuda",),
    "numpy": ("numpy",),
}
"""Module → distributions that may bring it."""
QUERY = "name,driver_version,memory.total,mig.mode.current,compute_mode,persistence_mode,clocks.sm,clocks.mem"
MPS = "nvidia-cuda-mps-"


def words_of(*command: str, within: float = 20) -> str:
    """What a command prints; "" when it is not there, fails, or takes too long."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def modules() -> dict[str, str]:
    """Version of each of MODULES that is there; none is imported."""
    found = {}
    for module, distributions in MODULES.items():
        if importlib.util.find_spec(module) is None:
            continue
        found[module] = "?"
        for name in distributions:
            try:
                found[module] = importlib.metadata.version(name)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def gpus() -> list[dict[str, str]]:
    """By nvidia-smi, which is asked and told nothing."""
    lines = words_of("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader").splitlines()
    return [dict(zip(QUERY.split(","), map(str.strip, line.split(",")), strict=False)) for line in lines]


def mps() -> str:
    """Whether MPS could be used and is in use. It is not started."""
    running = []
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = entry.read_text().strip()
        except OSError:
            continue
        if name.startswith(MPS[:15]):
            running.append(name)
    pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    if running or (pipe / "control").exists():
        return "a control daemon runs: programs share the device through it"
    there = shutil.which(MPS + "control")
    return f"not running{'' if there else ', and not installed'} (it is not started here)"


def driver_answers() -> str:
    """What libcuda says: "ok", or a sentence."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return str(error)
    code = cuda.cuInit(0)
    if code:
        return f"cuInit answers {code}"
    count = ctypes.c_int()
    code = cuda.cuDeviceGetCount(ctypes.byref(count))
    return f"cuDeviceGetCount answers {code}" if code else "ok" if count.value else "it has no device"


def facts() -> dict[str, Any]:
    """All of it."""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    nvcc = words_of("nvcc", "--version").splitlines()
    return {
        "driver": driver_answers(),
        "gpus": gpus(),
        "mps": mps(),
        "nvcc": nvcc[-1] if nvcc else "none",
        "cc": (words_of(os.environ.get("CC", "cc"), "--version").splitlines() or ["none"])[0],
        "python": f"{platform.python_version()}{'' if header.is_file() else ' (no Python.h)'}",
        "modules": modules(),
        "kernel": f"{platform.release()} {platform.machine()}",
        "cores": os.cpu_count() or 0,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


def main() -> int:
    found = facts()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for name, value in found.items():
        print(f"{name}: {value}")
    print(", ".join(gpu["name"] for gpu in found["gpus"]) or f"no GPU: {found['driver']}")
    return 1 if "--real" in sys.argv and found["driver"] != "ok" else 0


if __name__ == "__main__":
    sys.exit(main())
