"""What the demo needs before anything is started; each lack is named with its remedy."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gpud
from gpud.cli.failure import Failure
from gpud.native import hook_library, sim_dir

PACKAGES = {"numba": "numba", "numba_cuda": "numba-cuda", "numpy": "numpy", "cuda.bindings": "cuda-bindings"}
"""Module → the package that has it."""
LINKERS = ("nvidia-nvjitlink", "nvidia-nvjitlink-cu12", "nvidia-nvjitlink-cu13")
COMPILERS = ("cc", "gcc", "clang")
PROBE = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
sys.exit(0 if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value else 1)
"""


def missing_packages() -> list[str]:
    """Packages of the extra `gpud[demo]` that are not installed."""
    return [package for module, package in PACKAGES.items() if not _there(module)]


def _there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def linker_package() -> str | None:
    """The installed package with NVIDIA's linker, if any: with it numba makes cubins, which the simulator refuses."""
    for name in LINKERS:
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return name
    return None


def compiler() -> str | None:
    """The C compiler that turns PTX into code for the simulated device."""
    named = os.environ.get("CC", "").split()
    return next(filter(None, map(shutil.which, [*named[:1], *COMPILERS])), None)


def examples_dir() -> Path:
    """Where `serving.py` and `training.py` are: in the package, or in the checkout. Raises `Failure`."""
    package = Path(gpud.__file__).parent
    for directory in (package / "_data" / "examples", package.parent / "examples"):
        if (directory / "serving.py").is_file() and (directory / "training.py").is_file():
            return directory
    raise Failure(f"the example programs are not in {package / '_data' / 'examples'}", "install gpud again")


def real_driver() -> bool:
    """Is there a driver with a device? Asked in a process of its own, so that nothing of CUDA stays in this one."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_") and k != "LD_PRELOAD"}
    paths = environment.get("LD_LIBRARY_PATH", "").split(":")
    environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path and Path(path) != sim_dir())
    try:
        probe = [sys.executable, "-c", PROBE]
        return subprocess.run(probe, env=environment, capture_output=True, timeout=30).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def check(*, simulated: bool) -> None:
    """Raises `Failure` for the first thing that is missing or in the way."""
    missing = missing_packages()
    if missing:
        raise Failure(f"the demo's packages are not installed: {', '.join(missing)}", "pip install 'gpud[demo]'")
    if not hook_library().is_file():
        raise Failure(
            f"the hook library is not there: {hook_library()}", "install gpud again (in a checkout: make build)"
        )
    if not simulated:
        return
    linker = linker_package()
    if linker is not None:
        raise Failure(
            f"the package {linker} is installed: with it numba links cubins, which the simulated driver cannot run",
            f"pip uninstall {linker}, or make a virtual environment for the demo",
        )
    if not (sim_dir() / "libcuda.so.1").is_file():
        raise Failure(
            f"the simulated driver is not there: {sim_dir()}", "install gpud again (in a checkout: make build)"
        )
    if compiler() is None:
        raise Failure(
            f"no C compiler ({', '.join(COMPILERS)}) on PATH; the simulated device needs one to run kernels",
            "install one (Debian, Ubuntu: apt install gcc), or name it in CC",
        )
