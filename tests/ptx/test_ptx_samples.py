"""The committed samples, from numba-cuda and nvcc: they read, print, compile the same each time, and run."""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

import make_samples  # noqa: E402
from ptx_runner import OK, Module, numba_args  # noqa: E402

from gpud.ptx import ast  # noqa: E402
from gpud.ptx.compile import COMPILER_VERSION, ptx_to_c  # noqa: E402
from gpud.ptx.parser import parse  # noqa: E402
from gpud.ptx.printer import module_text  # noqa: E402

FOLDER = Path(__file__).parent / "samples"
SAMPLES = sorted(path.stem for path in FOLDER.glob("*.ptx"))


def text_of(name):
    return (FOLDER / f"{name}.ptx").read_text()


def test_there_are_samples():
    assert len(SAMPLES) >= 16


@pytest.mark.parametrize("name", SAMPLES)
def test_reading_what_was_printed_gives_the_same(name):
    module = parse(text_of(name))
    printed = module_text(module)
    assert parse(printed) == module
    assert module_text(parse(printed)) == printed
    entries = [item for item in module.items if isinstance(item, ast.Function) and item.entry]
    assert len(entries) == text_of(name).count(".entry ")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_ptx_gives_the_same_c(name):
    first = ptx_to_c(text_of(name))
    assert ptx_to_c(text_of(name)) == first
    assert ptx_to_c(module_text(parse(text_of(name)))) == first


def test_other_c_has_another_version():
    """Caches of compiled kernels are keyed by the version: it must not stay when the C changes."""
    version, digest = (FOLDER / "generated.txt").read_text().split()
    assert (version, digest) == (COMPILER_VERSION, make_samples.digest()), (
        "the generated C changed: raise COMPILER_VERSION in gpud/ptx/compile.py, then run make_samples.py --digest"
    )


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory):
    return Module(text_of("nvcc_kernels"), tmp_path_factory.mktemp("samples"), "nvcc")


def test_structs_constants_and_counters(nvcc):
    x, out = np.linspace(0, 1, 256).astype("f4"), np.zeros(256, "f4")
    shape = struct.pack("<f4i4xd", 2.0, 1, 2, 3, 4, 0.5)
    assert nvcc.run("shapes", 2, 128, out, x, shape, ("i", 256)) == OK
    i = np.arange(256) & 3
    assert np.allclose(out, x * 2 + (i + 1) + 0.5 + (i + 1), rtol=1e-6)
    assert nvcc.variable("counter", "<i") == (8,)


def test_a_device_function_with_barriers(nvcc):
    x, out = np.linspace(0, 1, 512).astype("f4"), np.zeros(2, "f4")
    assert nvcc.run("sums", 2, 256, out, x) == OK
    assert np.allclose(out, x.reshape(2, 256).sum(axis=1), rtol=1e-5)


def test_dynamic_shared_and_printf(nvcc, capfd):
    x, out = np.linspace(1, 2, 8).astype("f4"), np.zeros(8, "f4")
    assert nvcc.run("reverse", 1, 8, out, x, ("i", 12), shared=32) == OK
    assert np.array_equal(out, x[::-1])
    assert capfd.readouterr().out == "n is 12, first 1.000 done\n"


@pytest.mark.parametrize("x", range(8))
def test_local_arrays_and_switches(nvcc, x):
    out = np.zeros(4, "i4")
    assert nvcc.run("chosen", 1, 4, out, ("i", x)) == OK
    total = sum(x * ((i * 7) & 15) for i in range(x))
    changes = {
        0: lambda s: s + 4,
        1: lambda s: s + 50,
        2: lambda s: s * 3,
        3: lambda s: s - 51,
        4: lambda s: s ^ 53,
        5: lambda s: -s,
    }
    assert (out == changes.get(x, lambda s: s)(total)).all()


def test_warps(nvcc):
    x, out = np.arange(64, dtype="u4") % 9, np.zeros(64, "u4")
    assert nvcc.run("warps", 1, 64, out, x) == OK
    for t in range(64):
        warp = x[t // 32 * 32 : t // 32 * 32 + 32].tolist()
        found = sum(1 << k for k in range(32) if warp[k] > 3) + int(x[t ^ 1]) + sum(warp)
        found ^= sum(1 << k for k in range(32) if warp[k] % 2 == x[t] % 2)
        assert out[t] == (found + int((x != 0).sum())) % 2**32


def test_wide_integers(nvcc):
    rng = np.random.default_rng(1)
    x, out = rng.integers(1, 1 << 63, 64, dtype="u8"), np.zeros(128, "u8")
    assert nvcc.run("fallback", 1, 32, out, x, ("I", 32)) == OK
    for i in range(32):
        a, b = int(x[2 * i]), int(x[2 * i + 1])
        low = [a & 0xFFFFFFFF, b & 0xFFFFFFFF]
        both = low[1] << 32 | low[0]
        permuted = sum((both >> 8 * n & 255) << 8 * k for k, n in enumerate((0, 4, 1, 5)))
        funnel = (both << 7 >> 32) & 0xFFFFFFFF
        last = int(f"{a:064b}"[::-1], 2) ^ b.bit_count() ^ funnel ^ permuted
        assert out[4 * i : 4 * i + 4].tolist() == [a * b % 2**64, a * b >> 64, a // b, last]


def test_double_functions(nvcc):
    x, out = np.random.default_rng(2).uniform(0.1, 9, 200), np.zeros(200)
    assert nvcc.run("doubles", 2, 128, out, x, ("i", 200)) == OK
    expected = [
        math.sin(v) * v**1.5 + math.erf(v) / math.gamma(v) + v ** (1 / 3) + math.sqrt(v * v + 5) for v in x.tolist()
    ]
    assert np.allclose(out, expected, rtol=1e-13)


def test_single_functions(nvcc):
    x, out = np.random.default_rng(3).uniform(-200000, 200000, 300).astype("f4"), np.zeros(300, "f4")
    x[:100] /= 1e4
    assert nvcc.run("sine", 3, 128, out, x, ("i", 300)) == OK
    v = x.astype("f8")
    expected = np.sin(v) + np.exp(v * 1e-4) + v / 3 + 1 / np.sqrt(np.abs(v) + 1) + np.tanh(v) + 1 / 3
    assert np.allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_numba_samples_run(tmp_path):
    x, y, out = np.random.default_rng(4).random((3, 500)).astype("f4")
    module = Module(text_of("numba_saxpy"), tmp_path, "saxpy")
    assert module.run("saxpy", 4, 128, *numba_args(("f", 3.0), x, y, out)) == OK
    assert np.allclose(out, 3 * x + y, rtol=1e-6)
    total = np.zeros(1, "f4")
    module = Module(text_of("numba_reduce"), tmp_path, "reduce")
    assert module.run("reduce", 2, 256, *numba_args(x, total)) == OK
    assert math.isclose(total[0], x.astype("f8").sum(), rel_tol=1e-5)


def test_nvcc_of_this_machine(tmp_path):
    """The samples' source through the nvcc that is here, whatever its version."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    for arch in ("sm_75", "sm_90"):
        command = ["nvcc", "-ptx", f"-arch={arch}", "-O2", "-lineinfo", "-o", "-", "kernels.cu"]
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"nvcc cannot compile for {arch}")
        module = parse(done.stdout)
        assert parse(module_text(module)) == module
        Module(done.stdout, tmp_path, f"nvcc_{arch}")
