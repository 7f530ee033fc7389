"""Unmodified numba-cuda and cuda-bindings programs give right results on the simulated GPU."""

import json
import re
import uuid
from pathlib import Path

import pytest

from .conftest import DEADLINE_S, PROGRAMS, Start

KERNELS = re.findall(r"@check\ndef (\w+)", (PROGRAMS / "kernels.py").read_text())

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def results(start: Start) -> dict[str, str]:
    """What each kernel of programs/kernels.py had to say: "" is right."""
    out, err = start("kernels").communicate(timeout=DEADLINE_S)
    found = [json.loads(line) for line in out.splitlines()]
    assert found, err
    return {line["kernel"]: line["error"] for line in found}


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_is_right(results: dict[str, str], kernel: str) -> None:
    assert results.get(kernel, "did not come to it") == ""


def test_cuda_bindings(start: Start) -> None:
    process = start("bindings")
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    assert re.fullmatch(r"gpud simulated .*: driver 13000, sum 7000\n", out), out


def test_two_processes_share_a_device(start: Start) -> None:
    node = f"test-{uuid.uuid4().hex[:12]}"
    names = ("grid_stride", "shared_reduction", "tiled_product", "streams_and_events")
    both = [start("kernels", *names, node=node) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=DEADLINE_S)
        assert [json.loads(line)["error"] for line in out.splitlines()] == [""] * len(names), err


def test_fault_of_a_kernel_is_an_error_of_the_program(start: Start) -> None:
    process = start("fault")
    out, err = process.communicate(timeout=DEADLINE_S)
    lines = out.splitlines()
    assert process.returncode == 0, err
    assert [("CUDA_ERROR_ILLEGAL_ADDRESS" in line) for line in lines] == [True, True, False], out
    assert lines[-1] == "alive"
    assert "the context is lost" in err


def test_cache_that_others_can_write_is_not_used(start: Start, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    process = start("bindings", GPUD_SIM_CACHE=str(shared), XDG_CACHE_HOME=str(tmp_path / "own"))
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    assert f"GPUD_SIM_CACHE: {shared} cannot be used" in err
    assert not list(shared.iterdir())
    assert list((tmp_path / "own/gpud/ptx").glob("*.so"))


def test_interpreter_that_is_not_there(start: Start) -> None:
    process = start("bindings", GPUD_SIM_PYTHON="/nowhere/python3")
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert "cannot run /nowhere/python3" in err
    assert "set GPUD_SIM_PYTHON" in err
    assert "CUDA_ERROR_JIT_COMPILER_NOT_FOUND" in err
