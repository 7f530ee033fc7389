"""State spaces, vectors, initialisers, parameters and the module's description."""

from __future__ import annotations

import struct

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

from ptx_runner import OK, Module  # noqa: E402

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
PTX = (
    HEAD
    + """
.visible .global .align 8 .u64 counter = 5;
.global .align 4 .f32 table[4] = {0f3F800000, 2.0, 3.0};
.global .align 2 .b8 nested[2][3] = {{1, 2}, {4, 5, 6}};
.const .align 4 .u32 scale[2] = {3, 0xFFFFFFFF};
.global .s16 open[] = {-1, 2, -3};
.weak .global .b32 zero;
.common .global .align 16 .b8 room[32];
.shared .align 4 .u32 shared_a[4];
.shared .align 8 .b64 shared_b;
.extern .shared .align 16 .b8 dynamic[];

.visible .entry vectors(.param .u64 in, .param .u64 out)
{
    .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .b16 %h<4>; .reg .b64 %x, %y;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f0, %f1, %f2, %f3}, [%rd1];
    st.global.wt.v4.f32 [%rd2], {%f3, %f2, %f1, %f0};
    ld.global.v4.u8 {%h0, %h1, %h2, %h3}, [%rd1+16];
    st.global.v4.u8 [%rd2+16], {%h1, %h0, %h3, %h2};
    ld.volatile.global.v2.u64 {%x, %y}, [%rd1+24];
    st.volatile.global.v2.u64 [%rd2+24], {%y, %x};
    ld.relaxed.gpu.global.u32 %f0, [%rd1];
    st.release.sys.global.f32 [%rd2+40], %f0;
    ld.acquire.cta.f32 %f0, [%rd1+4];
    st.relaxed.cta.u32 [%rd2+44], %f0;
    ret;
}

.visible .entry extend(.param .u64 in, .param .u64 out)
{
    .reg .b64 %in, %out, %d; .reg .b32 %w; .reg .b16 %s;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
    ld.s8 %d, [%in]; st.u64 [%out], %d;
    ld.u8 %d, [%in]; st.u64 [%out+8], %d;
    ld.s16 %w, [%in]; st.u32 [%out+16], %w;
    ld.b8 %s, [%in+1]; st.u16 [%out+20], %s;
    ld.s32 %d, [%in]; st.b64 [%out+24], %d;
    ret;
}

.visible .entry variables(.param .u64 out)
{
    .reg .b64 %out, %p, %q; .reg .b32 %r<8>; .reg .f32 %f; .reg .s16 %s;
    ld.param.u64 %out, [out];
    ld.global.f32 %f, [table+8]; st.global.f32 [%out], %f;
    mov.u64 %p, scale; ld.const.u32 %r1, [%p+4]; st.global.u32 [%out+4], %r1;
    ld.const.u32 %r1, [scale]; st.global.u32 [%out+8], %r1;
    mov.u64 %q, table+4; cvta.global.u64 %q, %q; ld.f32 %f, [%q]; st.global.f32 [%out+12], %f;
    ld.global.u8 %r2, [nested+4]; st.global.u32 [%out+16], %r2;
    ld.global.s16 %s, [open+4]; st.global.s16 [%out+20], %s;
    ld.global.u64 %p, [counter]; add.u64 %p, %p, 1; st.global.u64 [counter], %p;
    ld.global.b32 %r3, [zero]; st.global.b32 [%out+24], %r3;
    ret;
}

// Shared memory by 32-bit and 64-bit addresses, through its own space and through generic addresses.
.visible .entry shared(.param .u64 out)
{
    .reg .b64 %out, %p, %q; .reg .b32 %r<8>; .reg .pred %is, %not;
    ld.param.u64 %out, [out];
    mov.u32 %r1, shared_a;
    mov.u32 %r2, 11; st.shared.u32 [%r1+4], %r2;
    add.u32 %r3, %r1, 8; mov.u32 %r2, 22; st.shared.u32 [%r3], %r2;
    mov.u64 %p, shared_a; cvta.shared.u64 %q, %p;
    ld.u32 %r4, [%q+4]; st.global.u32 [%out], %r4;
    mov.u32 %r2, 33; st.u32 [%q+12], %r2;
    ld.shared.u32 %r4, [shared_a+12]; st.global.u32 [%out+4], %r4;
    cvta.to.shared.u64 %p, %q; ld.shared.u32 %r4, [%p+8]; st.global.u32 [%out+8], %r4;
    mov.u64 %p, 7; st.shared.u64 [shared_b], %p; ld.shared.u64 %p, [shared_b]; st.global.u64 [%out+16], %p;
    mov.u32 %r1, dynamic; mov.u32 %r2, 44;
    st.shared.u32 [%r1], %r2; ld.shared.u32 %r4, [dynamic]; st.global.u32 [%out+24], %r4;
    ld.shared.u32 %r4, [shared_a+8]; st.global.u32 [%out+28], %r4;
    isspacep.shared %is, %q; selp.u32 %r4, 1, 0, %is; st.global.u32 [%out+32], %r4;
    isspacep.global %not, %out; selp.u32 %r4, 1, 0, %not; st.global.u32 [%out+36], %r4;
    mov.u32 %r4, %dynamic_smem_size; st.global.u32 [%out+40], %r4;
    ret;
}

.visible .entry structs(.param .u64 out, .param .align 8 .b8 value[24], .param .u8 small)
{
    .reg .b64 %out, %p; .reg .b32 %r<4>; .reg .f64 %d; .reg .b16 %s;
    ld.param.u64 %out, [out];
    ld.param.u32 %r1, [value+4]; st.global.u32 [%out], %r1;
    ld.param.f64 %d, [value+16]; st.global.f64 [%out+8], %d;
    mov.b64 %p, value; cvta.param.u64 %p, %p; ld.u32 %r2, [%p+8]; st.global.u32 [%out+4], %r2;
    ld.param.u8 %s, [small]; st.global.u8 [%out+16], %s;
    ret;
}

.visible .entry locals(.param .u64 out, .param .u32 n)
{
    .local .align 8 .b8 depot[64];
    .reg .b64 %out, %p, %q; .reg .b32 %i, %n, %s, %v, %t; .reg .pred %end;
    mov.u64 %p, depot; cvta.local.u64 %q, %p;
    ld.param.u64 %out, [out]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; mov.u32 %i, 0;
fill:
    mad.wide.u32 %q, %i, 4, %p; mad.lo.u32 %v, %i, %i, %t; st.local.u32 [%q], %v;
    add.u32 %i, %i, 1; setp.lt.u32 %end, %i, 16; @%end bra fill;
    and.b32 %n, %n, 15; mad.wide.u32 %q, %n, 4, %p; cvta.local.u64 %q, %q; ld.u32 %s, [%q];
    mad.wide.u32 %q, %t, 4, %out; st.global.u32 [%q], %s;
    ret;
}
"""
)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return Module(PTX, tmp_path_factory.mktemp("memory"), "memory")


def test_vectors_and_orders(module):
    data = np.zeros(48, np.uint8)
    data[:16].view(np.float32)[:] = [1, 2, 3, 4]
    data[16:20] = [1, 2, 3, 4]
    data[24:40].view(np.uint64)[:] = [5, 6]
    out = np.zeros(48, np.uint8)
    assert module.run("vectors", 1, 1, data, out) == OK
    assert out[:16].view(np.float32).tolist() == [4, 3, 2, 1]
    assert out[16:20].tolist() == [2, 1, 4, 3]
    assert out[24:40].view(np.uint64).tolist() == [6, 5]
    assert out[40:48].view(np.float32).tolist() == [1, 2]


def test_loads_extend_to_their_register(module):
    data, out = np.array([0xFE, 0xFF, 0xFF, 0x80], np.uint8), np.zeros(32, np.uint8)
    assert module.run("extend", 1, 1, data, out) == OK
    assert out[:16].view(np.int64).tolist() == [-2, 0xFE]
    assert out[16:20].view(np.int32).tolist() == [-2]
    assert out[20:22].view(np.uint16).tolist() == [0xFF]
    assert out[24:].view(np.int64).tolist() == [-(1 << 31) + 0xFFFFFE]


def test_variables_and_their_initial_values(module):
    out = np.zeros(8, np.uint32)
    assert module.run("variables", 1, 1, out) == OK
    assert out[[0, 3]].view(np.float32).tolist() == [3.0, 2.0]
    assert out[[1, 2]].tolist() == [0xFFFFFFFF, 3]
    assert out[4] == 5
    assert out.view(np.int16)[10] == -3
    assert module.variable("counter", "<Q") == (6,)


def test_shared_memory(module):
    out = np.zeros(11, np.uint32)
    assert module.run("shared", 1, 1, out, shared=64) == OK
    assert out[:4].tolist() == [11, 33, 22, 0]
    assert out[4:6].view(np.uint64).tolist() == [7]
    assert out[6:].tolist() == [44, 22, 1, 1, 64]
    assert module.kernels["shared"].static_shared_bytes == 24
    assert module.kernels["vectors"].static_shared_bytes == 0


def test_parameters(module):
    out = np.zeros(24, np.uint8)
    value = struct.pack("<4If", 1, 2, 3, 4, 0)[:16] + struct.pack("<d", 2.5)
    assert module.run("structs", 1, 1, out, value, ("B", 200)) == OK
    assert out[:8].view(np.uint32).tolist() == [2, 3]
    assert out[8:16].view(np.float64).tolist() == [2.5]
    assert out[16] == 200
    row = module.kernels["structs"]
    assert [(row.params[i].offset, row.params[i].bytes) for i in range(3)] == [(0, 8), (8, 24), (32, 1)]
    assert row.param_bytes == 33


def test_local_memory_is_each_threads_own(module):
    out = np.zeros(8, np.uint32)
    assert module.run("locals", 1, 8, out, ("I", 3)) == OK
    assert out.tolist() == [9 + t for t in range(8)]
    assert module.kernels["locals"].local_bytes == 64


def test_description(module):
    desc = module.desc
    assert (desc.ptx_version, desc.target, desc.kernel_count) == (80, 80, 6)
    rows = {desc.globals[i].name: desc.globals[i] for i in range(desc.global_count)}
    assert rows[b"counter"].bytes == 8
    assert rows[b"counter"].align == 8
    assert rows[b"scale"].is_const == 1
    assert rows[b"table"].is_const == 0
    assert rows[b"open"].bytes == 6
    assert rows[b"room"].bytes == 32
    assert rows[b"room"].align == 16
    assert not rows[b"zero"].initial
    assert module.kernels["vectors"].max_threads == 1024
