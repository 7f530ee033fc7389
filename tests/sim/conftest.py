"""Programs on the simulated GPU: run in a process and on a node of their own."""

import importlib.util
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from gpud.native import sim_dir

PROGRAMS = Path(__file__).parent / "programs"
DEADLINE_S = 300
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def library() -> Path:
    """The directory that holds the simulated libcuda.so.1: as installed, or as meson leaves it in a build directory."""
    for directory in (sim_dir(), sim_dir() / "cuda"):
        if (directory / "libcuda.so.1").exists():
            return directory
    pytest.skip(f"there is no simulated libcuda.so.1 in {sim_dir()}; build it, or set GPUD_NATIVE_DIR")


@pytest.fixture(scope="session")
def start(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """start(program, *arguments, node=…, **environment): starts programs/PROGRAM.py on the simulated GPU."""
    for module, package in (("numba_cuda", "numba-cuda"), ("cuda.bindings", "cuda-bindings")):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{package} is not installed (pip install 'gpud[demo]')")
    cache = tmp_path_factory.mktemp("ptx")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GPUD_SIM_", "LD_", "NUMBA_"))}

    def run(program: str, *arguments: str, node: str = "", **environment: str) -> subprocess.Popen[str]:
        own = {
            "LD_LIBRARY_PATH": str(library),
            "GPUD_SIM_NODE": node or f"test-{uuid.uuid4().hex[:12]}",
            "GPUD_SIM_CACHE": str(cache),
            "GPUD_SIM_PYTHON": sys.executable,
        }
        command = [sys.executable, str(PROGRAMS / f"{program}.py"), *arguments]
        return subprocess.Popen(
            command, env=clean | own | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return run
