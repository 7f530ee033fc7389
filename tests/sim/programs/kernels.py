"""Numba kernels of the kinds that real programs have, each checked against NumPy. Prints one JSON line a kernel."""

import json
import math
import sys
import traceback
import warnings
from collections.abc import Callable

import numpy as np
from numba import cuda, float32, float64, int32

warnings.simplefilter("ignore")
RNG = np.random.default_rng(7)
CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    """Registers one kernel with its check."""
    CHECKS[function.__name__] = function
    return function


@check
def element_wise() -> None:
    @cuda.jit
    def kernel(a, b, c):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + 2 * b[i]

    for kind in (np.float32, np.float64, np.int32, np.int64):
        a, b = (RNG.random(10_007) * 1000).astype(kind), (RNG.random(10_007) * 1000).astype(kind)
        c = np.zeros_like(a)
        kernel[40, 256](a, b, c)
        assert np.allclose(c, a + 2 * b), kind


@check
def grid_stride() -> None:
    @cuda.jit
    def kernel(x, y, a):  # type: ignore[no-untyped-def]
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            y[i] = a * x[i] + y[i]

    x, y = RNG.random(1 << 16), RNG.random(1 << 16)
    out = cuda.to_device(y)
    kernel[13, 96](cuda.to_device(x), out, 2.5)
    assert np.allclose(out.copy_to_host(), 2.5 * x + y)


@check
def shared_reduction() -> None:
    @cuda.jit
    def kernel(x, out):  # type: ignore[no-untyped-def]
        part = cuda.shared.array(256, float32)
        tid = cuda.threadIdx.x
        own = float32(0)
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            own += x[i]
        part[tid] = own
        cuda.syncthreads()
        width = 128
        while width:
            if tid < width:
                part[tid] += part[tid + width]
            cuda.syncthreads()
            width //= 2
        if tid == 0:
            cuda.atomic.add(out, 0, part[0])

    x = RNG.random(1 << 17).astype(np.float32)
    out = np.zeros(1, np.float32)
    kernel[32, 256](x, out)
    assert np.allclose(out[0], x.sum(dtype=np.float64), rtol=1e-4)


@check
def tiled_product() -> None:
    side = 16

    @cuda.jit
    def kernel(a, b, c):  # type: ignore[no-untyped-def]
        left = cuda.shared.array((side, side), float64)
        right = cuda.shared.array((side, side), float64)
        x, y = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        total = float64(0)
        for t in range((a.shape[1] + side - 1) // side):
            column, row = t * side + tx, t * side + ty
            left[ty, tx] = a[y, column] if y < a.shape[0] and column < a.shape[1] else 0
            right[ty, tx] = b[row, x] if row < b.shape[0] and x < b.shape[1] else 0
            cuda.syncthreads()
            for k in range(side):
                total += left[ty, k] * right[k, tx]
            cuda.syncthreads()
        if y < c.shape[0] and x < c.shape[1]:
            c[y, x] = total

    a, b = RNG.random((70, 90)), RNG.random((90, 50))
    c = np.zeros((70, 50))
    kernel[(4, 5), (side, side)](a, b, c)
    assert np.allclose(c, a @ b)


@check
def atomics() -> None:
    @cuda.jit
    def kernel(x, histogram, most, least, changed):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(histogram, x[i], 1)
            cuda.atomic.max(most, 0, x[i])
            cuda.atomic.min(least, 0, x[i])
            cuda.atomic.compare_and_swap(changed, -1, 1)

    x = RNG.integers(3, 60, 50_000).astype(np.int32)
    histogram, most, least, changed = (
        np.zeros(64, np.int32),
        np.zeros(1, np.int32),
        np.full(1, 99, np.int32),
        np.full(1, -1, np.int32),
    )
    kernel[200, 256](x, histogram, most, least, changed)
    assert np.array_equal(histogram, np.bincount(x, minlength=64))
    assert (most[0], least[0], changed[0]) == (x.max(), x.min(), 1)


@check
def mathematics() -> None:
    @cuda.jit
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            v = x[i]
            out[0, i] = math.sin(v)
            out[1, i] = math.cos(v)
            out[2, i] = math.exp(v)
            out[3, i] = math.log(v)
            out[4, i] = math.sqrt(v)
            out[5, i] = math.tanh(v)
            out[6, i] = math.erf(v)
            out[7, i] = math.atan(v)
            out[8, i] = v**1.7
            out[9, i] = math.floor(v)

    for kind, tolerance in ((np.float32, 2e-5), (np.float64, 1e-12)):
        x = (RNG.random(500) * 3 + 0.05).astype(kind)
        out = np.zeros((10, x.size), kind)
        kernel[2, 256](x, out)
        wide = x.astype(np.float64)
        erf = np.vectorize(math.erf)
        functions = (np.sin, np.cos, np.exp, np.log, np.sqrt, np.tanh, erf, np.arctan, lambda v: v**1.7, np.floor)
        for row, function in enumerate(functions):
            assert np.allclose(out[row], function(wide), rtol=tolerance, atol=tolerance), (kind, row)


@check
def warps() -> None:
    @cuda.jit
    def kernel(x, votes):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        v = x[i]
        for step in (16, 8, 4, 2, 1):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, step)
        ballot = cuda.ballot_sync(0xFFFFFFFF, x[i] % 2 == 0)
        if cuda.laneid == 0:
            x[i] = v
            votes[i // 32] = ballot

    x = np.arange(128, dtype=np.int32)
    expected = x.reshape(4, 32).sum(axis=1)
    votes = np.zeros(4, np.uint32)
    kernel[1, 128](x, votes)
    assert np.array_equal(x[::32], expected)
    assert (votes == 0x55555555).all()


@check
def local_and_constant_memory() -> None:
    table = np.arange(10, dtype=np.float64) ** 2

    @cuda.jit
    def kernel(out):  # type: ignore[no-untyped-def]
        squares = cuda.const.array_like(table)
        own = cuda.local.array(8, int32)
        i = cuda.grid(1)
        for k in range(8):
            own[k] = k * i
        total = 0.0
        for k in range(8):
            total += own[k] * squares[k]
        out[i] = total

    out = np.zeros(64)
    kernel[2, 32](out)
    assert np.allclose(out, np.arange(64) * (np.arange(8.0) ** 3).sum())


@check
def streams_and_events() -> None:
    @cuda.jit
    def kernel(x):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    first, second = cuda.stream(), cuda.stream()
    host = cuda.pinned_array(5000, np.float32)
    host[:] = 0
    data = cuda.to_device(host, stream=first)
    begin, end = cuda.event(), cuda.event()
    begin.record(first)
    for _ in range(10):
        kernel[20, 256, first](data)
    end.record(first)
    end.wait(second)
    for _ in range(10):
        kernel[20, 256, second](data)
    data.copy_to_host(host, stream=second)
    second.synchronize()
    assert (host == 20).all()
    assert begin.elapsed_time(end) > 0


@check
def memory_is_given_back() -> None:
    context = cuda.current_context()
    cuda.synchronize()
    before = context.get_memory_info().free
    for _ in range(20):
        x = cuda.device_array(64 << 20, np.uint8)
        x[:] = 1
        del x
    cuda.synchronize()
    context.deallocations.clear()
    cuda.synchronize()
    assert before - context.get_memory_info().free <= 256 << 20


@check
def out_of_memory() -> None:
    try:
        cuda.device_array(1 << 45, np.uint8)
    except Exception as error:
        said = str(error)
    else:
        said = "32 TiB were given"
    assert "CUDA_ERROR_OUT_OF_MEMORY" in said, said


def main() -> None:
    """Runs the checks named on the command line, or all."""
    for name in sys.argv[1:] or CHECKS:
        try:
            CHECKS[name]()
            error = ""
        except Exception:
            error = traceback.format_exc()
        print(json.dumps({"kernel": name, "error": error}), flush=True)


if __name__ == "__main__":
    main()
