"""CUDA_VISIBLE_DEVICES on a simulated node, as the CUDA driver reads it."""

import os
import subprocess
import sys
import uuid

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


@pytest.fixture(scope="module")
def node() -> str:
    """The name of a node that lives as long as somebody is on it."""
    return f"visible-{uuid.uuid4().hex[:8]}"


def seen(node: str, visible: str | None) -> list[str]:
    """The answer of cuInit and the UUIDs that a program sees."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUD_SIM", "CUDA_"))}
    environment |= {"GPUD_SIM_NODE": node, "GPUD_SIM_DEVICES": "3", "LD_LIBRARY_PATH": str(sim_dir())}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.split()


def test_numbers_select_and_order(node: str) -> None:
    success, first, second, third = seen(node, None)
    assert success == "0"
    assert len({first, second, third}) == 3
    assert seen(node, "2,0") == ["0", third, first]
    assert seen(node, "1") == ["0", second]


def test_uuids_select(node: str) -> None:
    _, first, second, _ = seen(node, None)
    dashed = str(uuid.UUID(hex=second))
    assert seen(node, f"GPU-{dashed}") == ["0", second]
    assert seen(node, f"GPU-{dashed[:8]},0") == ["0", second, first]


@pytest.mark.parametrize("visible", ["", "-1", "7", "nonsense", "1,1"])
def test_nothing_to_see_is_no_device(node: str, visible: str) -> None:
    assert seen(node, visible) == ["100"]


def test_the_list_ends_at_the_first_that_is_not_there(node: str) -> None:
    _, first, *_ = seen(node, None)
    assert seen(node, "0,9,1") == ["0", first]
