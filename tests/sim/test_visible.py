"""CUDA_VISIBLE_DEVICES on a simulated node, as the CUDA driver reads it."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from gpud.native import sim_dir

PROGRAM = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
result = cuda.cuInit(0)
uuids = []
if result == 0:
    cuda.cuDeviceGetCount(ctypes.byref(count))
    for ordinal in range(count.value):
        text = (ctypes.c_ubyte * 16)()
        assert cuda.cuDeviceGetUuid_v2(text, ordinal) == 0
        uuids.append(bytes(text).hex())
print(result, *uuids)
"""

WHOLE = """
import pynvml
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(1)))
"""


Run = Callable[[str, str, str | None], list[str]]
Seen = Callable[..., list[str]]


@pytest.fixture(scope="module")
def run(library: Path) -> Run:
    """run(program, mode, visible): what it prints, in words; one node for each mode."""
    name = uuid.uuid4().hex[:8]

    def start(program: str, mode: str, visible: str | None) -> list[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUD_SIM", "CUDA_", "LD_"))}
        node = {"GPUD_SIM_NODE": f"visible-{name}-{mode[:3]}", "GPUD_SIM_DEVICES": "3", "GPUD_SIM_MODE": mode}
        environment = clean | node | {"LD_LIBRARY_PATH": f"{sim_dir()}:{library}"}
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.split()

    return start


@pytest.fixture(scope="module")
def seen(run: Run) -> Seen:
    """seen(visible, mode=…): the answer of cuInit and the UUIDs that a program sees."""
    return lambda visible, mode="timeslice": run(PROGRAM, mode, visible)


def test_numbers_select_and_order(seen: Seen) -> None:
    success, first, second, third = seen(None)
    assert success == "0"
    assert len({first, second, third}) == 3
    assert seen("2,0") == ["0", third, first]
    assert seen("1") == ["0", second]


def test_uuids_select(seen: Seen) -> None:
    _, first, second, _ = seen(None)
    dashed = str(uuid.UUID(hex=second))
    assert seen(f"GPU-{dashed}") == ["0", second]
    assert seen(f"GPU-{dashed[:8]},0") == ["0", second, first]


@pytest.mark.parametrize("visible", ["", "-1", "7", "nonsense", "1,1"])
def test_nothing_to_see_is_no_device(seen: Seen, visible: str) -> None:
    assert seen(visible) == ["100"]


def test_the_list_ends_at_the_first_that_is_not_there(seen: Seen) -> None:
    _, first, *_ = seen(None)
    assert seen("0,9,1") == ["0", first]


def test_mig_instances_have_uuids_of_their_own(seen: Seen, run: Run) -> None:
    """As NVML tells them: `MIG-…`. The UUID of a device that is divided means its first instance."""
    mode = "mig:3g,3g"
    success, *instances = seen(None, mode)
    assert success == "0"
    assert len(set(instances)) == 6
    dashed = [str(uuid.UUID(hex=one)) for one in instances]
    assert seen(f"MIG-{dashed[3]}", mode) == ["0", instances[3]]
    assert seen(f"MIG-{dashed[5][:8]},MIG-{dashed[0]}", mode) == ["0", instances[5], instances[0]]
    assert seen(f"GPU-{dashed[0]}", mode) == ["100"]
    (whole,) = run(WHOLE, mode, None)
    assert seen(whole, mode) == ["0", instances[2]]
    _, device, *_ = seen(None)
    assert seen(f"MIG-{uuid.UUID(hex=device)}") == ["100"]
