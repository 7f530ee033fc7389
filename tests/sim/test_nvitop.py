"""nvitop's one-shot output on a simulated node, unchanged."""

import importlib.util
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpud.native import sim_dir

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nvitop") is None, reason="nvitop is not installed")

HOLDER = """
import ctypes, sys
cuda, ctx, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) == 0
assert cuda.cuCtxSetCurrent(ctx) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(256 << 20)) == 0
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def library() -> Path:
    """The directories of the two simulated libraries, as the loader wants them."""
    for directory in (sim_dir(), sim_dir() / "cuda"):
        if (directory / "libcuda.so.1").exists():
            return directory
    pytest.skip(f"there is no simulated libcuda.so.1 in {sim_dir()}")


@contextmanager
def holder(library: Path, **node: str) -> Iterator[tuple[int, dict[str, str]]]:
    """A program that has 256 MiB of device 0: its pid, and the environment that finds its node."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUD_SIM_", "CUDA_"))}
    own = {"GPUD_SIM_NODE": f"nvitop-{uuid.uuid4().hex[:8]}", "LD_LIBRARY_PATH": f"{sim_dir()}:{library}"}
    environment = clean | own | node
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process.pid, environment
        process.kill()


def once(environment: dict[str, str]) -> str:
    """What `nvitop -1` prints."""
    wide = environment | {"COLUMNS": "100", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-m", "nvitop", "-1"], env=wide, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_devices_and_processes(library: Path) -> None:
    with holder(library, GPUD_SIM_DEVICES="2") as (pid, environment):
        text = once(environment)
    assert "CUDA Driver Version: 13.0" in text
    assert len(re.findall(r"A100-SXM4-40GB +On │ 00000000:0[12]:00\.0 Off │ Disabled +0 │", text)) == 2, text
    assert re.search(r"N/A +\d+C +P0 +\d+W / 400W │ +674\.0MiB / 40\.00GiB │ +\d+% +Default │", text), text
    assert re.search(r"N/A +30C +P0 +50W / 400W │ +0B / 40\.00GiB │ +0% +Default │", text), text
    assert re.search(rf"│ +0 +{pid} C +\S+ 674\.0MiB ", text), text


def test_mig_instances(library: Path) -> None:
    with holder(library, GPUD_SIM_MODE="mig:3g,3g") as (pid, environment):
        text = once(environment)
    assert re.search(r"Enabled +0 │", text), text
    assert re.search(r"0:0 +3g\.20gb @ GI/CI: 1/0 │ +674\.0MiB / 20\.00GiB │", text), text
    assert re.search(r"0:1 +3g\.20gb @ GI/CI: 2/0 │ +0B / 20\.00GiB │", text), text
    assert re.search(rf"│ 0:0 +{pid} C ", text), text
