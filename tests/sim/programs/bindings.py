"""A small program on cuda-bindings: context, module from PTX, launch, copies; prints the sum it computed."""

import ctypes
import sys

from cuda.bindings import driver

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 out, .param .u32 value, .param .u32 count)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [value];
    ld.param.u32 %r2, [count];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r3, %r3, %r4, %r5;
    setp.ge.u32 %p, %r3, %r2;
    @%p bra done;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
done:
    ret;
}
"""


def ok(answer):  # type: ignore[no-untyped-def]
    """The results of a call that must succeed."""
    error, *rest = answer
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return rest[0] if len(rest) == 1 else tuple(rest)


count, value = 1000, 7
ok(driver.cuInit(0))
device = ok(driver.cuDeviceGet(0))
name = ok(driver.cuDeviceGetName(64, device)).rstrip(b"\0 ").decode()
context = ok(driver.cuCtxCreate(None, 0, device))
free, total = ok(driver.cuMemGetInfo())
assert 0 < free < total
module = ok(driver.cuModuleLoadData(PTX))
kernel = ok(driver.cuModuleGetFunction(module, b"fill"))
stream = ok(driver.cuStreamCreate(0))
memory = ok(driver.cuMemAlloc(4 * count))
host = (ctypes.c_uint32 * count)()
ok(driver.cuMemcpyHtoD(memory, ctypes.addressof(host), 4 * count))
arguments = ((int(memory), value, count), (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32))
ok(driver.cuLaunchKernel(kernel, 8, 1, 1, 128, 1, 1, 0, stream, arguments, 0))
ok(driver.cuStreamSynchronize(stream))
ok(driver.cuMemcpyDtoH(ctypes.addressof(host), memory, 4 * count))
ok(driver.cuMemFree(memory))
ok(driver.cuStreamDestroy(stream))
ok(driver.cuModuleUnload(module))
ok(driver.cuCtxDestroy(context))
version = ok(driver.cuDriverGetVersion())
print(f"{name}: driver {version}, sum {sum(host)}")
sys.exit(sum(host) != value * count)
