"""Atomic operations: their results, on global, shared and generic addresses, and with two host threads at once."""

from __future__ import annotations

import ctypes
import threading

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

from ptx_family import DTYPES  # noqa: E402
from ptx_runner import OK, Module  # noqa: E402

WHOLE = {
    "add": lambda old, v: old + v,
    "min": min,
    "max": max,
    "and": lambda old, v: old & v,
    "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
    "exch": lambda old, v: v,
    "inc": lambda old, v: 0 if old >= v else old + 1,
    "dec": lambda old, v: v if old == 0 or old > v else old - 1,
}
CASES = [(op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32", "u64", "s64")]
CASES += [(op, kind) for op in ("and", "or", "xor", "exch") for kind in ("b32", "b64")]
CASES += [("inc", "u32"), ("dec", "u32"), ("add", "f32"), ("add", "f64"), ("exch", "f32")]
CASES.remove(("add", "s64"))  # PTX has no such form for .shared; .u64 is the same


def kernels():
    for op, kind in CASES:
        for space in ("global", "shared", "generic"):
            register = f".reg .{kind} %old, %v;"
            place = "" if space == "generic" else f".{space}"
            address = "%cell" if space == "global" else "%sp"
            yield f""".visible .entry {op}_{kind}_{space}(
    .param .u64 cell, .param .u64 values, .param .u64 olds, .param .u32 n)
{{
    {register} .reg .b64 %cell, %values, %olds, %sp; .reg .b32 %n; .reg .pred %p;
    ld.param.u64 %cell, [cell]; ld.param.u64 %values, [values]; ld.param.u64 %olds, [olds]; ld.param.u32 %n, [n];
    mov.u64 %sp, buffer;
    ld.global.{kind} %v, [%cell]; st.shared.{kind} [%sp], %v;
    {"cvta.shared.u64 %sp, %sp;" if space == "generic" else ""}
again:
    ld.global.{kind} %v, [%values];
    atom{place}.{op}.{kind} %old, [{address}], %v;
    st.global.{kind} [%olds], %old;
    add.u64 %values, %values, {DTYPES[kind].itemsize}; add.u64 %olds, %olds, {DTYPES[kind].itemsize};
    sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra again;
    {"cvta.to.shared.u64 %sp, %sp;" if space == "generic" else ""}
    {"" if space == "global" else f"ld.shared.{kind} %v, [%sp]; st.global.{kind} [%cell], %v;"}
    ret;
}}"""


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 8 .b8 buffer[8];\n"
EXTRA = """
.visible .entry swap(.param .u64 cell, .param .u64 out)
{
    .reg .b64 %c, %o, %d; .reg .b32 %r; .reg .b16 %h;
    ld.param.u64 %c, [cell]; ld.param.u64 %o, [out];
    atom.global.cas.b32 %r, [%c], 5, 6; st.global.u32 [%o], %r;
    atom.acq_rel.gpu.global.cas.b32 %r, [%c], 5, 7; st.global.u32 [%o+4], %r;
    atom.cas.b64 %d, [%c+8], 1, 2; st.global.u64 [%o+8], %d;
    atom.relaxed.sys.global.cas.b16 %h, [%c+4], 3, 4; st.global.b16 [%o+16], %h;
    red.global.add.u32 [%c], 10;
    atom.global.or.b32 _, [%c], 256;
    ret;
}

.visible .entry count(.param .u64 cell, .param .u64 total)
{
    .reg .b64 %c, %t; .reg .f32 %f; .reg .f64 %d;
    ld.param.u64 %c, [cell]; ld.param.u64 %t, [total];
    red.global.add.u64 [%c], 1;
    red.relaxed.gpu.global.add.f64 [%t], 0d3FE0000000000000;
    red.global.max.s64 [%c+8], 77;
    atom.global.add.noftz.f16 %h, [%c+16], %one;
    ret;
}
""".replace("atom.global.add.noftz.f16 %h, [%c+16], %one;\n", "")


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return Module(HEAD + "\n".join(kernels()) + EXTRA, tmp_path_factory.mktemp("atomics"), "atomics")


@pytest.mark.parametrize(("op", "kind"), CASES)
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_read_modify_write(module, op, kind, space):
    dtype = DTYPES[kind]
    rng = np.random.default_rng(3)
    if kind[0] == "f":
        values = rng.normal(size=40).astype(dtype)
    else:
        values = rng.integers(-20 if kind[0] == "s" else 0, 60, 40).astype(dtype)
    cell, olds = np.array([7], dtype), np.zeros(40, dtype)
    assert module.run(f"{op}_{kind}_{space}", 1, 1, cell, values, olds, ("I", 40)) == OK
    current = dtype.type(7)
    for old, value in zip(olds, values, strict=True):
        assert old == current
        current = (
            dtype.type(WHOLE[op](current, value)) if kind[0] == "f" else dtype.type(WHOLE[op](int(current), int(value)))
        )
    assert cell[0] == current


def test_compare_and_swap(module):
    cell, out = np.array([5, 3, 1, 0], np.uint32), np.zeros(6, np.uint32)
    assert module.run("swap", 1, 1, cell, out) == OK
    assert out.tolist() == [5, 6, 1, 0, 3, 0]
    assert cell.tolist() == [(6 + 10) | 256, 4, 2, 0]


def test_half_additions(tmp_path):
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p)
{
    .reg .b64 %p; .reg .b16 %h, %one; .reg .b32 %w;
    ld.param.u64 %p, [p]; mov.b16 %one, 0x3C00;
    atom.global.add.noftz.f16 %h, [%p], %one; st.global.b16 [%p+2], %h;
    mov.b32 %w, 0x3C003C00; atom.global.add.noftz.f16x2 %w, [%p+4], %w;
    ret;
}
"""
    module = Module(ptx, tmp_path, "halves")
    cells = np.array([1.5, 0, 2, 3], np.float16)
    assert module.run("add", 1, 1, cells) == OK
    assert cells.tolist() == [2.5, 1.5, 3, 4]


def test_two_host_threads_lose_no_update(module):
    blocks, threads = 400, 256
    cell, total = np.zeros(2, np.uint64), np.zeros(1)
    row, launch = module.kernels["count"], module.launch(blocks, threads)
    params = module.params(row, (cell, total))
    run = [threading.Thread(target=row.run, args=(ctypes.byref(launch), params, 0, blocks)) for _ in range(2)]
    for thread in run:
        thread.start()
    for thread in run:
        thread.join()
    assert cell.tolist() == [2 * blocks * threads, 77]
    assert total[0] == blocks * threads
