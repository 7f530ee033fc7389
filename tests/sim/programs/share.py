"""Two programs on cuda-bindings that share device memory and an event: `share.py give SOCKET`, `share.py take SOCKET`.

The giver makes memory of three kinds, fills it behind a lot of other work, records an interprocess event, and hands all
that over; the taker waits for the event on its stream and prints what it finds. `share.py free` prints the free bytes.
"""

import ctypes
import json
import os
import signal
import socket
import sys

from cuda.bindings import driver as d

UNIT, WORDS = 2 << 20, 1 << 24


def ok(answer):  # type: ignore[no-untyped-def]
    """The results of a call that must succeed."""
    error, *rest = answer
    assert error == d.CUresult.CUDA_SUCCESS, error
    return rest[0] if len(rest) == 1 else tuple(rest)


def text_of(handle) -> str:  # type: ignore[no-untyped-def]
    """The 64 bytes of a handle, to be sent by any way."""
    return ctypes.string_at(handle.getPtr(), 64).hex()


def of_text(handle, text: str):  # type: ignore[no-untyped-def]
    """The handle, with these bytes."""
    ctypes.memmove(handle.getPtr(), bytes.fromhex(text), 64)
    return handle


def properties():  # type: ignore[no-untyped-def]
    """Memory of device 0 that can be exported as a descriptor."""
    prop = d.CUmemAllocationProp()
    prop.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.requestedHandleTypes = FD
    prop.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = 0
    return prop


def map_all(handle):  # type: ignore[no-untyped-def]
    """Two units of physical memory at addresses of their own, for device 0 to read and write."""
    at = ok(d.cuMemAddressReserve(2 * UNIT, 0, 0, 0))
    ok(d.cuMemMap(at, 2 * UNIT, 0, handle, 0))
    access = d.CUmemAccessDesc()
    access.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = 0
    access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    ok(d.cuMemSetAccess(at, 2 * UNIT, [access], 1))
    return at


def give(path: str) -> None:
    """Makes, fills, records, hands over; then lives until it is killed or its taker has gone."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    stream = ok(d.cuStreamCreate(1))
    handle = ok(d.cuMemCreate(2 * UNIT, properties(), 0))
    physical, plain, busy = map_all(handle), ok(d.cuMemAlloc(4096)), ok(d.cuMemAlloc(4 * WORDS))
    pool_props = d.CUmemPoolProps()
    pool_props.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    pool_props.handleTypes = FD
    pool_props.location = properties().location
    pool = ok(d.cuMemPoolCreate(pool_props))
    pooled = ok(d.cuMemAllocFromPoolAsync(4096, pool, stream))
    flags = d.CUevent_flags.CU_EVENT_INTERPROCESS | d.CUevent_flags.CU_EVENT_DISABLE_TIMING
    event = ok(d.cuEventCreate(flags))
    descriptors = [
        ok(d.cuMemExportToShareableHandle(handle, FD, 0)),
        ok(d.cuMemPoolExportToShareableHandle(pool, FD, 0)),
    ]
    print("ready", flush=True)
    taker, _ = listener.accept()
    for value in range(100):
        ok(d.cuMemsetD32Async(busy, value, WORDS, stream))
    for at, value in ((physical, 11), (plain, 22), (pooled, 33)):
        ok(d.cuMemsetD32Async(at, value, 1024, stream))
    ok(d.cuEventRecord(event, stream))
    told = {
        "plain": text_of(ok(d.cuIpcGetMemHandle(plain))),
        "pooled": text_of(ok(d.cuMemPoolExportPointer(pooled))),
        "event": text_of(ok(d.cuIpcGetEventHandle(event))),
        "done": ok_or_not_ready(d.cuEventQuery(event)),
    }
    socket.send_fds(taker, [json.dumps(told).encode()], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    taker.recv(1)


def ok_or_not_ready(answer) -> bool:  # type: ignore[no-untyped-def]
    """Is it done?"""
    assert answer[0] in (d.CUresult.CUDA_SUCCESS, d.CUresult.CUDA_ERROR_NOT_READY), answer
    return bool(answer[0] == d.CUresult.CUDA_SUCCESS)


def take(path: str, *kill: str) -> None:
    """Opens everything, waits for the event on its stream only, prints a word of each kind. `kill`: ends the giver."""
    giver = socket.socket(socket.AF_UNIX)
    giver.connect(path)
    message, descriptors, _, _ = socket.recv_fds(giver, 4096, 2)
    told = json.loads(message)
    memory, pointer = of_text(d.CUipcMemHandle(), told["plain"]), of_text(d.CUmemPoolPtrExportData(), told["pooled"])
    event_handle = of_text(d.CUipcEventHandle(), told["event"])
    physical = map_all(ok(d.cuMemImportFromShareableHandle(descriptors[0], FD)))
    pool = ok(d.cuMemPoolImportFromShareableHandle(descriptors[1], FD, 0))
    for descriptor in descriptors:
        os.close(descriptor)
    plain = ok(d.cuIpcOpenMemHandle(memory, d.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
    pooled = ok(d.cuMemPoolImportPointer(pool, pointer))
    event, stream = ok(d.cuIpcOpenEventHandle(event_handle)), ok(d.cuStreamCreate(1))
    words = (ctypes.c_uint32 * 3)()
    ok(d.cuStreamWaitEvent(stream, event, 0))
    if kill:
        os.kill(int(kill[0]), signal.SIGKILL)
    for i, at in enumerate((physical, plain, pooled)):
        ok(d.cuMemcpyDtoHAsync(ctypes.addressof(words) + 4 * i, at, 4, stream))
    ok(d.cuStreamSynchronize(stream))
    print(json.dumps({"words": list(words), "done_when_told": told["done"]}), flush=True)
    ok(d.cuMemFree(pooled))
    ok(d.cuIpcCloseMemHandle(plain))
    ok(d.cuEventDestroy(event))


FD = d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
ok(d.cuInit(0))
context = ok(d.cuDevicePrimaryCtxRetain(0))
ok(d.cuCtxSetCurrent(context))
if sys.argv[1] == "free":
    print(ok(d.cuMemGetInfo())[0], flush=True)
    sys.stdin.read()
else:
    {"give": give, "take": take}[sys.argv[1]](*sys.argv[2:])
