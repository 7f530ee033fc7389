"""Every entry of the driver API that takes device memory is counted, or is listed here with the reason why not."""

import re
import subprocess
from pathlib import Path

import pytest

from gpud.testing.node import Node

from .allocators import OUT_OF_MEMORY, UNIT, job, library, limited, memory, truth

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
TAKES = re.compile(
    r"^cu(?!.*(Get|Set|Destroy|Free|Unload|Release|Export|Unmap|Close|Upload|Query|IsLoaded|Find)).*"
    r"(Alloc|Create|Import|Open|Map|Load|Retain|Reserve|Register|Instantiate|Clone|AddNode|AddMem|Link|Multicast|Bind)"
)
"""Names that may take memory of any sort."""
COUNTED = {
    "cuMemAlloc",
    "cuMemAlloc_v2",
    "cuMemAllocPitch",
    "cuMemAllocPitch_v2",
    "cuMemAllocManaged",
    "cuMemCreate",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocFromPoolAsync_ptsz",
    "cuArrayCreate",
    "cuArrayCreate_v2",
    "cuArray3DCreate",
    "cuArray3DCreate_v2",
    "cuMipmappedArrayCreate",
    "cuGraphAddMemAllocNode",
    "cuGraphAddNode",
    "cuGraphAddNode_v2",
    "cuMemPoolCreate",
    "cuMemRetainAllocationHandle",
    "cuMemMap",
}
OVERHEAD = "the driver's own: measured as what it says the process holds beyond what is counted (overhead)"
HOST = "memory of the host"
OTHERS = "memory that another allocation stands for, counted where that was made"
NONE = "no memory: a name, an address, a description"
NOT_COUNTED = {
    OVERHEAD: (
        r"cu(Ctx|GreenCtx)\w*Create.*|cuDevicePrimaryCtxRetain|cu(Module|Library)Load\w*|cuLinkCreate\w*|cuLink(AddData|AddFile)\w*"
        r"|cuStreamCreate\w*|cuGreenCtxStreamCreate|cuEventCreate|cuGraphInstantiate\w*|cuFuncLoad|cuCtxFromGreenCtx"
    ),
    HOST: r"cuMemAllocHost\w*|cuMemHostAlloc|cuMemHostRegister\w*|cuLinkComplete",
    OTHERS: (
        r"cuMemImport\w*|cuMemPoolImport\w*|cuIpcOpen\w*|cuImportExternal\w*|cuGraphics\w*|cuMemMapArrayAsync\w*"
        r"|cuMulticast\w*"
    ),
    NONE: (
        r"cuMemAddressReserve|cuGraphCreate|cuGraphClone|cuGraphConditionalHandleCreate|cuTex\w*Create|cuSurf\w*Create"
        r"|cuTensorMap\w*|cuUserObject(Create|Retain)|cuGraphRetainUserObject|cuGraphAddMem(Free|cpy|set)Node\w*"
        r"|cuCoredump\w*|cuCheckpoint\w*|cuLogs\w*|cuDeviceRegisterAsyncNotification"
    ),
}  # fmt: skip
KINDS = ("linear", "managed", "pitched", "ordered", "pooled", "handle", "mapped", "array", "cube", "mipmap")


def exports() -> set[str]:
    """Of the simulated driver."""
    path = library("libcuda.so.1") / "libcuda.so.1"
    out = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in out.splitlines() if " cu" in line}


def kinds() -> dict[str, str]:
    """Entry → kind, by the hook's table; PASS where it is not intercepted."""
    rows = [f"#define CU_{row}(kind, since, name, ...) ROW kind name" for row in ("AFTER", "BEFORE", "AROUND")]
    text = "\n".join(
        [*rows, "#define CU_PASS(kind, name) ROW PASS name", '#include "hooks-native/tbl/cuda_symbols.h"', ""]
    )
    command = ["cc", "-E", "-P", "-x", "c", "-I", ROOT, "-"]
    out = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout
    return {name: kind for kind, name in re.findall(r"ROW (\w+) (\w+)", out)}


def test_every_entry_that_takes_memory_is_counted_or_listed() -> None:
    table, found = kinds(), {name for name in exports() if TAKES.search(name)}
    assert found >= COUNTED, f"the simulated driver lacks {COUNTED - found}"
    assert {name for name in COUNTED if table.get(name) != "RESERVE"} == set()
    reserves = {name for name, kind in table.items() if kind == "RESERVE"}
    assert reserves <= COUNTED, "what is counted stands above, too"
    listed = {name for pattern in NOT_COUNTED.values() for name in found if re.fullmatch(pattern, name)}
    assert not listed & COUNTED
    assert found - listed - COUNTED == set(), "neither counted nor listed with a reason"


def test_each_kind_is_counted_refused_and_given_back(tmp_path: Path) -> None:
    with (
        Node(profile="test-small", policy="memory", policies=limited(tmp_path / "p", "64MiB")) as node,
        job(node) as (one,),
    ):
        base = truth(one)[one.pid]
        for kind in KINDS:
            result, number = one.ask("alloc", kind, 3)
            assert result == 0, kind
            held = truth(one)[one.pid] - base
            assert memory(node).reserved == held == 3 * UNIT, f"{kind}: {memory(node).reserved}, by the driver {held}"
            assert one.ask("alloc", kind, 30) == [OUT_OF_MEMORY, 0], kind
            assert truth(one)[one.pid] - base == 3 * UNIT, f"{kind}: the driver was asked for what is refused"
            assert one.ask("free", number) == one.ask("trim") == [0]
            assert truth(one)[one.pid] == base, kind
            assert one.ask("info")[1] + memory(node).reserved + (memory(node).overhead or 0) <= 64 << 20
            assert memory(node).reserved == 0, kind
