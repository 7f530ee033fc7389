"""Compares sizes and offsets of the structures in sim/cuda/api.h with cuda.h, where a CUDA toolkit is installed.

Usage: sizes.py CC. Exit code 77 (skipped) without cuda.h.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

API = Path(__file__).parents[2] / "sim" / "cuda" / "api.h"
FIELDS = {
    "CUlaunchConfig": ["blockDimX", "sharedMemBytes", "hStream", "attrs", "numAttrs"],
    "CUlaunchAttribute": ["id", "value"],
    "CUDA_LAUNCH_PARAMS": ["function", "sharedMemBytes", "hStream", "kernelParams"],
    "CUDA_KERNEL_NODE_PARAMS": ["sharedMemBytes", "kernelParams", "extra", "kern", "ctx"],
    "CUDA_MEMCPY2D": ["srcY", "srcMemoryType", "srcHost", "srcDevice", "srcPitch", "dstXInBytes", "dstMemoryType",
                      "dstDevice", "dstPitch", "WidthInBytes", "Height"],
    "CUDA_MEMCPY3D": ["srcLOD", "srcMemoryType", "srcHost", "srcDevice", "srcPitch", "srcHeight", "dstLOD",
                      "dstMemoryType", "dstDevice", "dstPitch", "dstHeight", "WidthInBytes", "Depth"],
    "CUmemPoolProps": ["allocType", "handleTypes", "location", "maxSize", "usage"],
    "CUmemAccessDesc": ["location", "flags"],
    "CUmemLocation": ["type", "id"],
    "CUmemAllocationProp": ["type", "requestedHandleTypes", "location", "win32HandleMetaData",
                            "allocFlags.compressionType", "allocFlags.gpuDirectRDMACapable", "allocFlags.usage"],
    "CUmemPoolPtrExportData": ["reserved"],
    "CUipcMemHandle": ["reserved"],
    "CUipcEventHandle": ["reserved"],
    "CUDA_ARRAY_DESCRIPTOR": ["Height", "Format", "NumChannels"],
    "CUDA_ARRAY3D_DESCRIPTOR": ["Height", "Depth", "Format", "NumChannels", "Flags"],
    "CUDA_MEMCPY3D_PEER": ["srcLOD", "srcMemoryType", "srcHost", "srcDevice", "srcArray", "srcContext", "srcPitch",
                           "srcHeight", "dstLOD", "dstMemoryType", "dstDevice", "dstContext", "dstPitch",
                           "dstHeight", "WidthInBytes", "Depth"],
    "CUctxCreateParams": ["numExecAffinityParams", "cigParams"],
    "CUdevprop": ["maxGridSize", "sharedMemPerBlock", "SIMDWidth", "textureAlign"],
    "CUDA_GRAPH_INSTANTIATE_PARAMS": ["hUploadStream", "hErrNode_out", "result_out"],
    "CUDA_MEMSET_NODE_PARAMS_v2": ["pitch", "value", "elementSize", "width", "height", "ctx"],
    "CUDA_MEMCPY_NODE_PARAMS": ["copyCtx", "copyParams"],
    "CUDA_HOST_NODE_PARAMS": ["fn", "userData"],
    "CUDA_CHILD_GRAPH_NODE_PARAMS": ["graph", "ownership"],
    "CUgraphNodeParams": ["type", "kernel", "memcpy", "memset", "host", "graph", "eventWait", "eventRecord"],
    "CUgraphEdgeData": ["from_port", "to_port", "type", "reserved"],
    "CUgraphExecUpdateResultInfo": ["result", "errorNode", "errorFromNode"],
}  # fmt: skip


def layout(compiler: str, header: str) -> str:
    """Size and offsets of every structure as `header` declares them."""
    lines = ["#include <stdio.h>", "#include <stddef.h>", f'#include "{header}"', "int main(void) {"]
    for name, fields in FIELDS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));' for field in fields]
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "layout"
        subprocess.run([compiler, "-x", "c", "-", "-o", program], input="\n".join(lines), text=True, check=True)
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Compares; says the first difference."""
    header = Path("/usr/local/cuda/include/cuda.h")
    if not header.exists():
        print("skipped: no CUDA toolkit")
        return 77
    ours, theirs = layout(sys.argv[1], str(API)).splitlines(), layout(sys.argv[1], str(header)).splitlines()
    for mine, other in zip(ours, theirs, strict=True):
        if mine != other:
            print(f"api.h says {mine}, cuda.h says {other}")
            return 1
    print(f"{len(ours)} sizes and offsets agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
