"""A program that nobody has started under gpud, and does what it is told, a line each: takes turns, and uses the device
through the driver API by ctypes. `hookless.py COUNTER.PTX`.
"""

import asyncio
import ctypes
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpud

WORDS = 32768
GREEN: list[gpud.Turn] = []
warned: list[str] = []
warnings.showwarning = lambda message, kind, *_: warned.append(f"{kind.__name__}: {message}")


class Device:
    """A context, a kernel that adds to each word, and words whose value is known."""

    def __init__(self, ptx: str) -> None:
        self._cuda = cuda = ctypes.CDLL("libcuda.so.1")
        self._context, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._words, self._sum = ctypes.c_uint64(), 0
        module = ctypes.c_void_p()
        self._call(cuda.cuInit, 0)
        self._call(cuda.cuDevicePrimaryCtxRetain, ctypes.byref(self._context), 0)
        self._call(cuda.cuCtxSetCurrent, self._context)
        self._call(cuda.cuModuleLoadData, ctypes.byref(module), Path(ptx).read_bytes() + b"\0")
        self._call(cuda.cuModuleGetFunction, ctypes.byref(self._function), module, b"add_amount")
        self._call(cuda.cuMemAlloc_v2, ctypes.byref(self._words), ctypes.c_size_t(4 * WORDS))
        self._call(cuda.cuMemsetD8_v2, self._words, 0, ctypes.c_size_t(4 * WORDS))
        self._call(cuda.cuCtxSynchronize)

    def _call(self, function: Any, *arguments: Any) -> None:
        code = function(*arguments)
        assert code == 0, (function.__name__, code)

    def launch(self, count: int) -> None:
        """Waits for none of them."""
        self._call(self._cuda.cuCtxSetCurrent, self._context)
        amount, words = ctypes.c_uint32(1), ctypes.c_uint32(WORDS)
        parameters = (ctypes.c_void_p * 3)(*(ctypes.addressof(one) for one in (self._words, amount, words)))
        for _ in range(count):
            sizes = (WORDS // 128, 1, 1, 128, 1, 1, 0)
            self._call(self._cuda.cuLaunchKernel, self._function, *sizes, None, parameters, None)
        self._sum += count

    def leave(self) -> None:
        """This thread has no current context any more."""
        self._call(self._cuda.cuCtxSetCurrent, None)

    def right(self) -> bool:
        """All words are what they must be."""
        self._call(self._cuda.cuCtxSetCurrent, self._context)
        words = (ctypes.c_uint32 * WORDS)()
        self._call(self._cuda.cuMemcpyDtoH_v2, words, self._words, ctypes.c_size_t(4 * WORDS))
        return set(words) == {self._sum}

    def allocate(self, mib: int) -> ctypes.c_uint64:
        at = ctypes.c_uint64()
        self._call(self._cuda.cuCtxSetCurrent, self._context)
        self._call(self._cuda.cuMemAlloc_v2, ctypes.byref(at), ctypes.c_size_t(mib << 20))
        return at

    def write(self, at: ctypes.c_uint64, content: bytes) -> None:
        self._call(self._cuda.cuMemcpyHtoD_v2, at, content, ctypes.c_size_t(len(content)))

    def read(self, at: ctypes.c_uint64, mib: int) -> bytes:
        self._call(self._cuda.cuCtxSetCurrent, self._context)
        content = ctypes.create_string_buffer(mib << 20)
        self._call(self._cuda.cuMemcpyDtoH_v2, content, at, ctypes.c_size_t(mib << 20))
        return content.raw

    def free(self, at: ctypes.c_uint64) -> None:
        self._call(self._cuda.cuMemFree_v2, at)


class Model:
    """Weights that are on the device or not, and two functions that say so and move them. `how`: what goes wrong."""

    def __init__(self, device: Device, mib: int, how: str) -> None:
        self._device, self._mib, self.how = device, mib, how
        self.log: list[str] = []
        self._sure = os.urandom(1 << 20) * mib
        self._at: ctypes.c_uint64 | None = device.allocate(mib)
        self._kept = b""
        device.write(self._at, self._sure)

    def out(self) -> None:
        self.log.append("out")
        print("(out)", file=sys.stderr, flush=True)
        if self.how == "fails":
            raise ValueError("cannot leave")
        if self.how == "hangs":
            threading.Event().wait()
        assert self._at is not None
        self._kept, before = self._device.read(self._at, self._mib), self._at
        self._at = None
        self._device.free(before)
        if self.how == "slow":
            threading.Event().wait(1.5)

    def into(self) -> None:
        self.log.append("in")
        if self.how == "fails once":
            self.how = ""
            raise ValueError("cannot come in")
        self._at = self._device.allocate(self._mib)
        self._device.write(self._at, self._kept)
        self._kept = b""

    def right(self) -> bool:
        return self._at is not None and self._device.read(self._at, self._mib) == self._sure


device: list[Device] = []
model: list[Model] = []


def said(work: Callable[[], str]) -> str:
    try:
        return work()
    except gpud.TurnError as error:
        return f"{type(error).__name__} {error}"


def take(*more: str) -> str:
    timeout, reason = float(more[0]) if more else 600, " ".join(more[1:])
    return taken(None, timeout, reason)


def both(devices: str, timeout: str = "600") -> str:
    return taken([int(one) for one in devices.split(",")], float(timeout), "")


def taken(devices: Any, timeout: float, reason: str) -> str:
    def work() -> str:
        GREEN.append(gpud.acquire(devices, timeout=timeout, reason=reason))
        return "in" if GREEN[-1].locked else "alone"

    return said(work)


def drop() -> str:
    GREEN.pop().release()
    return "out"


def release() -> str:
    return said(lambda: gpud.release() or "out")


def rounds(count: str, kernels: str) -> str:
    """Turns with work that nobody has waited for when they end; `kernels` below zero: by a thread without context."""
    for _ in range(int(count)):
        with gpud.acquire(timeout=600) as turn:
            assert turn.locked
            device[0].launch(abs(int(kernels)))
            if int(kernels) < 0:
                device[0].leave()
    return "right" if device[0].right() else "wrong"


def load(mib: str, *how: str) -> str:
    """A model comes to the device in a turn; `bare`: without callbacks."""

    def work() -> str:
        with gpud.acquire(timeout=600):
            device.append(Device(sys.argv[1]))
            model.append(Model(device[0], int(mib), " ".join(how)))
        return "loaded"

    if "bare" not in how:  # before there is any memory
        gpud.acquire(timeout=600, on_swap_out=lambda: model[0].out(), on_swap_in=lambda: model[0].into()).release()
    return said(work)


def infer(rounds: str = "1") -> str:
    right = True
    for _ in range(int(rounds)):
        with gpud.acquire(timeout=600):
            right &= model[0].right()
    return "right" if right else "wrong"


def raises() -> str:
    try:
        infer()
    except ValueError as error:
        return f"ValueError {error}"
    return "nothing"


def moves() -> str:
    return " ".join(model[0].log) or "nothing"


def begin() -> str:
    device.append(Device(sys.argv[1]))
    return "begun"


def has_driver() -> str:
    return str("libcuda" in Path("/proc/self/maps").read_text())


def threads() -> str:
    found: list[str] = []
    both = [threading.Thread(target=lambda: found.append(take())) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    return " ".join(found)


def aio() -> str:
    @gpud.aio.on_gpu(timeout=600)
    async def work() -> str:
        return "worked"

    async def main() -> str:
        async with gpud.aio.acquire(timeout=600) as turn:
            return f"{'in' if turn.locked else 'alone'} {await work()}"

    return asyncio.run(main())


def decorated() -> str:
    @gpud.on_gpu(timeout=600)
    def work() -> str:
        return "worked"

    return said(work)


def fork() -> str:
    """A child that has no turn, waits for one in vain, and ends."""
    child = os.fork()
    if child == 0:
        answers = [release(), take("0.05"), release()]
        right = [one.split()[0] for one in answers] == ["NotHeld", "TurnTimeout", "NotHeld"]
        os.write(2, f"child: {answers}\n".encode())
        os._exit(0 if right else 1)
    return str(os.waitpid(child, 0)[1])


def warns() -> str:
    return "; ".join(warned) or "nothing"


def stop() -> str:
    os.kill(os.getpid(), signal.SIGSTOP)
    return "goes on"


print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    name, *more = line.split()
    try:
        print(globals()[name](*more), flush=True)
    except Exception:
        traceback.print_exc()
        print("failed", flush=True)
