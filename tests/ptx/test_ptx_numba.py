"""What numba-cuda makes of Python kernels, compiled and run here, against NumPy."""

from __future__ import annotations

import math

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")
pytest.importorskip("numba_cuda", reason="numba-cuda is not installed (extra gpud[demo])")

import numba_kernels  # noqa: E402
from numba import float32, float64  # noqa: E402
from ptx_runner import OK, Module, numba_args  # noqa: E402

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    directory = tmp_path_factory.mktemp("numba")

    def found(name):
        kernel, signature = numba_kernels.KERNELS[name]
        return Module(numba_kernels.ptx(kernel, signature), directory, name)

    return found


def run(module, grid, block, *arguments, shared=0):
    assert module.run(next(iter(module.kernels)), grid, block, *numba_args(*arguments), shared=shared) == OK


def test_saxpy(load):
    x, y, out = RNG.random(1000).astype("f4"), RNG.random(1000).astype("f4"), np.zeros(1000, "f4")
    run(load("saxpy"), 8, 128, ("f", 2.5), x, y, out)
    assert np.array_equal(out, (2.5 * x.astype("f8") + y).astype("f4"))  # one rounding: numba makes it an fma


def test_grid_stride(load):
    x, out = RNG.random(1000) * 10, np.zeros(1000)
    run(load("stride"), 3, 32, x, out)
    assert np.allclose(out, np.sin(x) * 2 + np.exp(-x), rtol=1e-14)


def test_shared_reduction_of_a_million(load):
    x, out = RNG.random(1 << 20).astype("f4"), np.zeros(1, "f4")
    module = load("reduce")
    run(module, 256, 256, x, out)
    assert math.isclose(out[0], x.astype("f8").sum(), rel_tol=1e-5)


def test_tiled_product(load):
    a, b = RNG.random((512, 512)).astype("f4"), RNG.random((512, 512)).astype("f4")
    c = np.zeros((512, 512), "f4")
    module = load("matmul")
    run(module, (32, 32), (16, 16), a, b, c)
    assert np.allclose(c, a @ b, rtol=1e-5)


def test_product_of_odd_sizes(load):
    a, b = RNG.random((37, 53)).astype("f4"), RNG.random((53, 21)).astype("f4")
    c = np.zeros((37, 21), "f4")
    run(load("matmul"), (2, 3), (16, 16), a, b, c)
    assert np.allclose(c, a @ b, rtol=1e-5)


def test_dynamic_shared(load):
    x, out = RNG.random(192).astype("f4"), np.zeros(192, "f4")
    run(load("dynamic_shared"), 3, 64, x, out, shared=256)
    assert np.array_equal(out.reshape(3, 64), x.reshape(3, 64)[:, ::-1])


def test_warp_sum(load):
    x, out = RNG.random(1024).astype("f4"), np.zeros(1, "f4")
    run(load("warp_sum"), 4, 256, x, out)
    assert math.isclose(out[0], x.astype("f8").sum(), rel_tol=1e-5)


def test_votes(load):
    x, out = np.arange(64, dtype="i4"), np.zeros(64, "i8")
    run(load("votes"), 1, 64, x, out)
    assert out.tolist() == [-2 + 60] * 32 + [-1 + 60] * 32  # a ballot is an int32 here


def test_atomics(load):
    x, bins = RNG.integers(0, 50, 5000).astype("i4"), np.zeros(50, "i4")
    run(load("histogram"), 4, 64, x, bins)
    assert np.array_equal(bins, np.bincount(x, minlength=50))
    y, low, high = RNG.normal(size=300), np.full(1, np.inf), np.full(1, -np.inf)
    run(load("extremes"), 5, 64, y, low, high)
    assert (low[0], high[0]) == (y.min(), y.max())
    cells, out = np.zeros(16, "i4"), np.zeros(64, "i4")
    run(load("claims"), 1, 64, cells, out)
    assert cells.tolist() == list(range(1, 17))
    assert out.tolist() == [0] * 16 + list(range(1, 17)) * 3


def test_complex_numbers(load):
    x = (RNG.normal(size=100) + 1j * RNG.normal(size=100)).astype("c8")
    out = np.zeros_like(x)
    run(load("scale_complex"), 2, 64, x, out)
    assert np.allclose(out, x * (1 + 2j) + x.conj(), rtol=1e-5)
    picture = np.zeros((40, 60), "i4")
    run(load("mandelbrot"), (4, 3), (16, 16), picture)
    y, column = np.mgrid[0:40, 0:60]
    c = (-2 + 3 * column / 60) + 1j * (-1 + 2 * y / 40)
    z, expected = c.copy(), np.zeros(c.shape, "i4")
    for _ in range(50):
        inside = (z.real**2 + z.imag**2 < 4) & (expected == _)
        expected[inside] += 1
        z[inside] = z[inside] ** 2 + c[inside]
    assert (picture != expected).mean() < 0.01  # the edge of the set follows the last bit


def test_local_arrays(load):
    x = RNG.normal(size=256)
    out = np.zeros(256)
    run(load("local_sort"), 1, 32, x, out)
    assert np.array_equal(out.reshape(32, 8), np.sort(x.reshape(32, 8), axis=1))


def test_whole_numbers(load):
    x, y = RNG.integers(-1000, 1000, 500), RNG.integers(1, 50, 500) * RNG.choice([-1, 1], 500)
    out = np.zeros(500, "i8")
    run(load("mixed_integers"), 4, 128, x, y, out)
    for a, b, found in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        image = a & (1 << 64) - 1
        expected = (
            a // b + a % b + (a << 3) - (a >> 1) + (a ^ b) + (a & ~b) + image.bit_count() + 64 - image.bit_length()
        )
        assert found == expected + abs(a) + max(a, b)


def test_bytes_and_neighbours(load):
    image, out = RNG.integers(0, 256, (30, 40)).astype("u1"), np.zeros((30, 40), "u1")
    run(load("blur"), (3, 2), (16, 16), image, out)
    total = sum(image[1 + dy : 29 + dy, 1 + dx : 39 + dx].astype(int) for dy in (-1, 0, 1) for dx in (-1, 0, 1))
    assert np.array_equal(out[1:-1, 1:-1], total // 9)


@pytest.mark.parametrize(("kind", "dtype", "tolerance"), [(float64, "f8", 3e-15), (float32, "f4", 3e-6)])
def test_math_functions(kind, dtype, tolerance, tmp_path):
    text = numba_kernels.ptx(numba_kernels.all_maths(), (kind[::1], kind[::1], kind[:, ::1]))
    module = Module(text, tmp_path, f"maths_{dtype}")
    x, y = RNG.uniform(0.05, 0.95, 200).astype(dtype), RNG.uniform(0.3, 3, 200).astype(dtype)
    out = np.zeros((len(numba_kernels.EXPRESSIONS), 200), dtype)
    run(module, 2, 128, x, y, out)
    for k, expression in enumerate(numba_kernels.EXPRESSIONS):
        code = compile(f"math.{expression}", "expression", "eval")
        expected = [eval(code, {"math": math, "x": float(a), "y": float(b)}) for a, b in zip(x, y, strict=True)]
        scale = (
            1e6 if "1e" in expression and dtype == "f4" else 30 if "exp(" in expression or "pow" in expression else 1
        )
        assert np.allclose(out[k], expected, rtol=tolerance * scale * 2, atol=tolerance * scale), expression
