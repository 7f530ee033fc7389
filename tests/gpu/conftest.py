"""Tests that need a real GPU. Without a driver they are skipped; with `--gpu=sim` those that can run on the simulated
one.

    pytest tests/gpu [--gpu=sim] [--jobs-python=FILE]
"""

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import frozen

from gpud.cli.demo.prerequisites import real_driver
from gpud.testing.node import Node
from gpud.testing.talk import Talk

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
PROFILE = "h200"
START_S = 90.0
"""How long a framework may take to be there: imports, context, compilers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", choices=("real", "sim"), default="real", help="the device of tests/gpu")
    parser.addoption("--jobs-python", default=None, help="the Python that has PyTorch, CuPy and Triton")


@frozen(kw_only=True)
class Gpu:
    """The device of these tests, and the Python that computes on it."""

    simulated: bool
    python: str

    def node(self, policy: str = "preempt-mix(quiet = 1ms)") -> Node:
        """A daemon of the test's own."""
        return Node(profile=PROFILE if self.simulated else None, policy=policy)

    def needs(self, *modules: str) -> None:
        """Skips the test where the jobs' Python lacks one of them, or could not use it."""
        for module in modules:
            if self.simulated and not module.startswith("numba"):
                pytest.skip("NVIDIA's CUDA runtime does not run on the simulated driver")
            if not _has(self.python, module):
                pytest.skip(f"{self.python} has no {module}")


@functools.cache
def _has(python: str, module: str) -> bool:
    text = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", text], timeout=60, check=False).returncode == 0


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> Gpu:
    """Skips the test where there is no device of the kind that is asked for."""
    simulated = request.config.getoption("--gpu", "real") == "sim"
    python = request.config.getoption("--jobs-python", None)
    if not simulated and not real_driver():
        pytest.skip("no NVIDIA driver with a device")
    return Gpu(simulated=simulated, python=python or (sys.executable if simulated else shutil.which("python3") or ""))


@pytest.fixture(scope="session")
def counter(tmp_path_factory: pytest.TempPathFactory, gpu: Gpu) -> list[str]:
    """The command of the small driver-API program of the end-to-end tests; append KERNELS, ROUNDS, PAUSE_US."""
    source = ROOT / "tests" / "e2e" / "programs" / "counter.c"
    binary = compiled([source], tmp_path_factory.mktemp("programs") / "counter")
    return [str(binary), str(source.with_suffix(".ptx")), "add_amount"]


def compiled(sources: Sequence[Path], binary: Path, *options: str) -> Path:
    """A C program."""
    flags = ["-O1", "-Wall", "-Wextra", *options]
    subprocess.run(["cc", *flags, *map(str, sources), "-o", str(binary), "-ldl", "-lpthread"], check=True, timeout=60)
    return binary


def framework(gpu: Gpu, node: Node, kind: str, name: str = "it", tier: str = "batch") -> Talk:
    """A job that computes in that framework (programs/frameworks.py), warm: it has compiled and computed."""
    job = Talk(node, [gpu.python, PROGRAMS / "frameworks.py", kind], name=name, labels={"tier": tier})
    job.ask("warm", within=START_S)
    return job
