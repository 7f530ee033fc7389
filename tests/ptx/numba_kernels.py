"""Kernels of our own for numba-cuda, Needs numba-cuda, neither GPU nor toolkit."""

from __future__ import annotations

import math

from numba import complex64, cuda, float32, float64, int32, int64, uint8

f32v, f64v, i32v, i64v = float32[::1], float64[::1], int32[::1], int64[::1]
f32m = float32[:, ::1]
TILE = 16


def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def stride(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = math.sin(x[i]) * 2 + math.exp(-x[i])


def reduce(x, out):
    cells = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    cells[t] = total
    cuda.syncthreads()
    half = 128
    while half > 0:
        if t < half:
            cells[t] += cells[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, cells[0])


def matmul(a, b, c):
    rows = cuda.shared.array((TILE, TILE), float32)
    columns = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range((a.shape[1] + TILE - 1) // TILE):
        rows[ty, tx] = 0
        columns[ty, tx] = 0
        if y < a.shape[0] and tx + k * TILE < a.shape[1]:
            rows[ty, tx] = a[y, tx + k * TILE]
        if x < b.shape[1] and ty + k * TILE < b.shape[0]:
            columns[ty, tx] = b[ty + k * TILE, x]
        cuda.syncthreads()
        for j in range(TILE):
            total += rows[ty, j] * columns[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def dynamic_shared(x, out):
    cells = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    cells[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = cells[cuda.blockDim.x - 1 - t]


def warp_sum(x, out):
    value = x[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


def votes(x, out):
    i = cuda.grid(1)
    out[i] = cuda.ballot_sync(0xFFFFFFFF, x[i] > 0)
    if cuda.any_sync(0xFFFFFFFF, x[i] > 100):
        out[i] += 1
    if cuda.syncthreads_or(int32(x[i] == 7)):
        out[i] += cuda.syncthreads_count(int32(x[i] > 3))


def histogram(x, bins):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, x[i], 1)


def extremes(x, low, high):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.min(low, 0, x[i])
        cuda.atomic.max(high, 0, x[i])


def claims(cells, out):
    i = cuda.grid(1)
    out[i] = cuda.atomic.cas(cells, i % cells.size, 0, i + 1)


def mandelbrot(out):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        c = complex(-2 + 3 * x / out.shape[1], -1 + 2 * y / out.shape[0])
        z = c
        n = 0
        while n < 50 and z.real * z.real + z.imag * z.imag < 4:
            z = z * z + c
            n += 1
        out[y, x] = n


def local_sort(x, out):
    mine = cuda.local.array(8, float64)
    i = cuda.grid(1)
    for k in range(8):
        mine[k] = x[8 * i + k]
    for k in range(1, 8):
        value = mine[k]
        j = k - 1
        while j >= 0 and mine[j] > value:
            mine[j + 1] = mine[j]
            j -= 1
        mine[j + 1] = value
    for k in range(8):
        out[8 * i + k] = mine[k]


def mixed_integers(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        a, b = x[i], y[i]
        out[i] = (
            a // b + a % b + (a << 3) - (a >> 1) + (a ^ b) + (a & ~b) + cuda.popc(a) + cuda.clz(a) + abs(a) + max(a, b)
        )


def scale_complex(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * complex64(1 + 2j) + x[i].conjugate()


def blur(image, out):
    x, y = cuda.grid(2)
    if 0 < x < image.shape[1] - 1 and 0 < y < image.shape[0] - 1:
        total = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                total += image[y + dy, x + dx]
        out[y, x] = total // 9


KERNELS = {
    "saxpy": (saxpy, (float32, f32v, f32v, f32v)),
    "stride": (stride, (f64v, f64v)),
    "reduce": (reduce, (f32v, f32v)),
    "matmul": (matmul, (f32m, f32m, f32m)),
    "dynamic_shared": (dynamic_shared, (f32v, f32v)),
    "warp_sum": (warp_sum, (f32v, f32v)),
    "votes": (votes, (i32v, i64v)),
    "histogram": (histogram, (i32v, i32v)),
    "extremes": (extremes, (f64v, f64v, f64v)),
    "claims": (claims, (i32v, i32v)),
    "mandelbrot": (mandelbrot, (int32[:, ::1],)),
    "local_sort": (local_sort, (f64v, f64v)),
    "mixed_integers": (mixed_integers, (i64v, i64v, i64v)),
    "scale_complex": (scale_complex, (complex64[::1], complex64[::1])),
    "blur": (blur, (uint8[:, ::1], uint8[:, ::1])),
}
# Each is applied to x in 0.05 .. 0.95 and y in 0.3 .. 3.
EXPRESSIONS = [
    "sin(x)",
    "cos(x)",
    "tan(x)",
    "sin(x * 1e5)",
    "cos(x * 1e6)",
    "exp(x * 20)",
    "exp(-x * 30)",
    "expm1(x)",
    "log(x)",
    "log1p(x)",
    "log2(x)",
    "log10(x)",
    "sqrt(x)",
    "tanh(x)",
    "sinh(x)",
    "cosh(x)",
    "asin(x)",
    "acos(x)",
    "atan(x)",
    "asinh(x)",
    "acosh(x + 1)",
    "atanh(x)",
    "erf(x)",
    "erfc(x * 3)",
    "gamma(x * 5)",
    "lgamma(x * 9)",
    "floor(x * 9)",
    "ceil(x * 9)",
    "trunc(-x * 9)",
    "fabs(-x)",
    "pow(x, y)",
    "pow(x * 50, -y)",
    "atan2(x, -y)",
    "fmod(x * 100, y)",
    "hypot(x, y)",
    "copysign(x, -y)",
]


def ptx(kernel, signature) -> str:
    """The PTX numba makes of it, with a kernel entry."""
    return cuda.compile(kernel, signature, cc=(8, 0), output="ptx", abi="numba", device=False)[0]


def all_maths():
    """One kernel with every expression: out[k, i] is the k-th of x[i] and y[i]."""
    lines = ["def maths(xs, ys, out):", "    i = cuda.grid(1)", "    if i < xs.size:", "        x, y = xs[i], ys[i]"]
    lines += [f"        out[{k}, i] = math.{expression}" for k, expression in enumerate(EXPRESSIONS)]
    names = {"cuda": cuda, "math": math}
    exec("\n".join(lines), names)
    return names["maths"]
