"""What is told of memory that does not leave the device, or not as fast as it could."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.cli.memory import lines
from gpud.testing.node import until
from tests.e2e.test_swap import MIB, WITHIN, Large, Turns
from tests.e2e.test_swap_bad_cases import is_out

pytestmark = pytest.mark.e2e

KINDS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, f"{name} answered {code}"
context, at, handle = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
call("cuInit", 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
for _ in range(2):
    call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(8 << 20))
call("cuMemRetainAllocationHandle", ctypes.byref(handle), at)
call("cuMemAllocManaged", ctypes.byref(at), ctypes.c_size_t(3 << 20), 1)
print("filled", flush=True)
sys.stdin.readline()
call("cuMemFree_v2", at)
print("ok", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path) as node:
        yield node


def test_what_cannot_leave_is_shown_with_the_reason(node: Turns) -> None:
    job: subprocess.Popen[str] = node.run([sys.executable, "-c", KINDS], labels={"c": "kinds"}, stdin=subprocess.PIPE)
    assert job.stdin is not None
    assert job.stdout is not None
    assert job.stdout.readline() == "filled\n"
    until(lambda: node.memory("kinds").pinned == 5 * MIB, WITHIN, "a chunk with a handle, and what is managed")
    memory = node.memory("kinds")
    assert memory.pinned_why == ("managed memory", "given to others by a handle")
    assert "5 MiB cannot (managed memory, given to others by a handle)" in "\n".join(lines(memory))
    job.stdin.write("\n")
    job.stdin.flush()
    assert job.stdout.readline() == "ok\n"
    until(lambda: node.memory("kinds").pinned == 2 * MIB, WITHIN, "what is managed was freed")
    assert node.memory("kinds").pinned_why == ("given to others by a handle",)


def test_it_is_told_that_the_driver_page_locks_nothing_and_nothing_is_lost(node: Turns, large: list[str]) -> None:
    node.environment["GPUD_SIM_FAULTS"] = "cuMemHostRegister: fail OUT_OF_MEMORY"
    one = Large(node, large, "one", 160)
    one.filled()
    other = Large(node, large, "two", 160)
    other.filled()
    is_out(node, "one")
    one.do("c")
    other.do("c")
    memory = node.memory("one")
    assert memory.unpinned >= memory.host
    assert memory.unpinned > 0
    assert "are not page-locked, the driver has refused" in "\n".join(lines(memory))
