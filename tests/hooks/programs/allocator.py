"""A program that takes and frees device memory as it is told: `allocator.py SOCKET COUNT` starts so many processes of
one job, each of which connects to SOCKET, says `{"pid": …}`, and then answers one JSON line with one.

[op, arguments…] → [CUresult, values…]. All calls are made by ctypes, with the driver API's own layouts.
"""

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

UNIT = 2 << 20
DEVICE = 1
"""CU_MEM_LOCATION_TYPE_DEVICE."""
UINT8 = 1
u64, size_t, pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
cuda = ctypes.CDLL("libcuda.so.1")


class Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class AllocationProp(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("meta", pointer), ("flags", u64),
    )  # fmt: skip


class PoolProps(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("security", pointer),
        ("rest", ctypes.c_char * 64),
    )  # fmt: skip


class Array(ctypes.Structure):
    _fields_ = (("width", size_t), ("height", size_t), ("format", ctypes.c_int), ("channels", ctypes.c_uint))


class Array3D(ctypes.Structure):
    _fields_ = (
        ("width", size_t), ("height", size_t), ("depth", size_t), ("format", ctypes.c_int), ("channels", ctypes.c_uint),
        ("flags", ctypes.c_uint),
    )  # fmt: skip


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", u64), ("left", u64), ("used", u64))


class Memory2(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = (("version", ctypes.c_uint), ("total", u64), ("reserved", u64), ("left", u64), ("used", u64))


class Running(ctypes.Structure):
    """nvmlProcessInfo_t."""

    _fields_ = (("pid", ctypes.c_uint), ("used", u64), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint))


def call(name: str, *arguments: Any) -> int:
    """Looked up anew each time, as a framework's loader does it; the hook hands out its own."""
    return int(getattr(cuda, name)(*arguments))


class Program:
    """What one process has, by number."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[str, Any]] = {}
        self.last = 0
        self.context = pointer()
        self.pool = pointer()

    def start(self) -> list[Any]:
        results = [call("cuInit", 0)]
        if not results[0]:
            results.append(call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0))
            results.append(call("cuCtxSetCurrent", self.context))
        return [max(results)]

    def alloc(self, kind: str, units: int) -> list[Any]:
        make: Callable[[int], tuple[int, Any]] = getattr(self, f"make_{kind}")
        result, what = make(units * UNIT)
        if result:
            return [result, 0]
        self.last += 1
        self.held[self.last] = (kind, what)
        return [0, self.last]

    def free(self, number: int) -> list[Any]:
        kind, what = self.held[number]
        result = getattr(self, f"drop_{kind}")(what)
        if not result:
            del self.held[number]
        return [result]

    def _address(self, name: str, *arguments: Any) -> tuple[int, Any]:
        at = u64()
        return call(name, ctypes.byref(at), *arguments), at

    def make_linear(self, count: int) -> tuple[int, Any]:
        return self._address("cuMemAlloc_v2", size_t(count))

    def make_managed(self, count: int) -> tuple[int, Any]:
        return self._address("cuMemAllocManaged", size_t(count), 1)

    def make_pitched(self, count: int) -> tuple[int, Any]:
        pitch = size_t()
        return self._address("cuMemAllocPitch_v2", ctypes.byref(pitch), size_t(1000), size_t(count // 1024), 4)

    def drop_linear(self, at: Any) -> int:
        return call("cuMemFree_v2", at)

    drop_managed = drop_pitched = drop_linear

    def make_ordered(self, count: int) -> tuple[int, Any]:
        return self._address("cuMemAllocAsync", size_t(count), None)

    def make_pooled(self, count: int) -> tuple[int, Any]:
        if not self.pool:
            props = PoolProps(type=1, location=Location(DEVICE, 0))
            result = call("cuMemPoolCreate", ctypes.byref(self.pool), ctypes.byref(props))
            if result:
                return result, None
        return self._address("cuMemAllocFromPoolAsync", size_t(count), self.pool, None)

    def drop_ordered(self, at: Any) -> int:
        return call("cuMemFreeAsync", at, None)

    drop_pooled = drop_ordered

    def make_handle(self, count: int) -> tuple[int, Any]:
        handle, prop = u64(), AllocationProp(type=1, location=Location(DEVICE, 0))
        return call("cuMemCreate", ctypes.byref(handle), size_t(count), ctypes.byref(prop), u64(0)), handle

    def drop_handle(self, handle: Any) -> int:
        return call("cuMemRelease", handle)

    def make_mapped(self, count: int) -> tuple[int, Any]:
        """Released at once: only the mapping holds it."""
        result, handle = self.make_handle(count)
        if result:
            return result, None
        at = u64()
        result = call("cuMemAddressReserve", ctypes.byref(at), size_t(count), size_t(0), u64(0), u64(0))
        if not result:
            result = call("cuMemMap", at, size_t(count), size_t(0), handle, u64(0))
        while call("cuMemRelease", handle):
            pass
        return result, (at, count)

    def drop_mapped(self, what: Any) -> int:
        at, count = what
        return call("cuMemUnmap", at, size_t(count))

    def make_array(self, count: int) -> tuple[int, Any]:
        array, shape = pointer(), Array(UNIT // 64, count // UNIT * 64, UINT8, 1)
        return call("cuArrayCreate_v2", ctypes.byref(array), ctypes.byref(shape)), array

    def make_cube(self, count: int) -> tuple[int, Any]:
        array, shape = pointer(), Array3D(2048, 64, count // UNIT * 16, UINT8, 1, 0)
        return call("cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(shape)), array

    def drop_array(self, array: Any) -> int:
        return call("cuArrayDestroy", array)

    drop_cube = drop_array

    def make_mipmap(self, count: int) -> tuple[int, Any]:
        array, shape = pointer(), Array3D(UNIT // 64, count // UNIT * 64, 0, UINT8, 1, 0)
        return call("cuMipmappedArrayCreate", ctypes.byref(array), ctypes.byref(shape), 1), array

    def drop_mipmap(self, array: Any) -> int:
        return call("cuMipmappedArrayDestroy", array)

    def trim(self) -> list[Any]:
        """All work is done, and pools keep nothing that is not used."""
        results, pool = [call("cuCtxSynchronize")], pointer()
        results.append(call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), 0))
        for one in (pool, self.pool):
            if one:
                results.append(call("cuMemPoolTrimTo", one, size_t(0)))
        return [max(results)]

    def info(self) -> list[Any]:
        left, total, device = size_t(), size_t(), size_t()
        result = call("cuMemGetInfo_v2", ctypes.byref(left), ctypes.byref(total))
        return [result or call("cuDeviceTotalMem_v2", ctypes.byref(device), 0), left.value, total.value, device.value]

    def _device(self) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
        nvml, device = ctypes.CDLL("libnvidia-ml.so.1"), pointer()
        assert not nvml.nvmlInit_v2()
        assert not nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
        return nvml, device

    def truth(self) -> list[Any]:
        """Of all processes on the device by NVML: pid, bytes, pid, bytes, …"""
        (nvml, device), count, found = self._device(), ctypes.c_uint(64), (Running * 64)()
        result = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), found)
        return [result, *(number for one in found[: count.value] for number in (one.pid, one.used))]

    def nvml(self) -> list[Any]:
        """Total, left, used, by both versions of NVML's entry."""
        (nvml, device), one, two = self._device(), Memory(), Memory2(version=2 << 24 | ctypes.sizeof(Memory2))
        result = nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(one))
        result = result or nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(two))
        return [result, one.total, one.left, one.used, two.total, two.left, two.used]

    def fill(self, kind: str) -> list[Any]:
        """Unit by unit, to the first refusal: how many, and what it was."""
        count = 0
        while not (answer := self.alloc(kind, 1))[0]:
            count += 1
        return [answer[0], count]

    def fight(self, rounds: int) -> list[Any]:
        """Is given so many, whatever it takes: when it is refused, it gives half of what it has back. Then it gives all
        back: how often it was refused."""
        refused = given = 0
        while given < rounds:
            result, _ = self.alloc("linear", 3)
            if not result:
                given += 1
                continue
            refused += 1
            for number in sorted(self.held)[: (len(self.held) + 1) // 2]:
                self.free(number)
        return [max(self.leave()), refused]

    def leave(self) -> list[Any]:
        return [0, *(self.free(number)[0] for number in list(self.held))]


def serve(path: str) -> None:
    """One process."""
    program = Program()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile("rw") as lines:
            print(json.dumps({"pid": os.getpid()}), file=lines, flush=True)
            for line in lines:
                op, *arguments = json.loads(line)
                print(json.dumps(getattr(program, op)(*arguments)), file=lines, flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        processes = [subprocess.Popen([sys.executable, __file__, sys.argv[1]]) for _ in range(int(sys.argv[2]))]
        sys.exit(max(process.wait() for process in processes))
    with contextlib.suppress(ConnectionError):
        serve(sys.argv[1])
