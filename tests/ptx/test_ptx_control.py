"""Branches, calls, traps, special registers, and how a grid may be split."""

from __future__ import annotations

import ctypes
import threading

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

from ptx_runner import OK, TRAP, Module  # noqa: E402

PTX = """
.version 8.0
.target sm_80, debug
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 format[] = {37, 100, 32, 37, 53, 46, 50, 102, 124, 37, 115, 124, 37, 108, 108, 120, 37, 37, 10, 0};
.global .align 1 .b8 word[3] = {111, 107, 0};

.func (.param .b64 sum) add_pair(.param .align 8 .b8 pair[16]);

.func (.param .b64 fact) factorial(.param .b64 n)
{
    .reg .b64 %n, %m; .reg .pred %p;
    ld.param.b64 %n, [n];
    setp.lt.s64 %p, %n, 2;
    @%p bra one;
    sub.s64 %m, %n, 1;
    {
        .param .b64 arg; .param .b64 res;
        st.param.b64 [arg], %m;
        call.uni (res), factorial, (arg);
        ld.param.b64 %m, [res];
    }
    mul.lo.s64 %n, %n, %m;
    st.param.b64 [fact], %n;
    ret;
one:
    mov.b64 %n, 1;
    st.param.b64 [fact], %n;
    ret;
}

.func (.param .b64 sum) add_pair(.param .align 8 .b8 pair[16])
{
    .reg .b64 %a, %b;
    ld.param.v2.b64 {%a, %b}, [pair];
    add.s64 %a, %a, %b;
    st.param.b64 [sum], %a;
    ret;
}

.func (.reg .u32 %res) by_register(.reg .u32 %x, .reg .u32 %y)
{
    .reg .pred %p;
    mul.lo.u32 %res, %x, %y;
    setp.eq.u32 %p, %y, 99;
    @%p exit;
    setp.eq.u32 %p, %y, 98;
    @%p trap;
    ret;
}

.visible .entry calls(.param .u64 out, .param .u32 y)
{
    .reg .b64 %out, %a, %b; .reg .b32 %x, %y, %r; .reg .pred %p;
    ld.param.u64 %out, [out]; ld.param.u32 %y, [y];
    { .param .b64 arg; .param .b64 res; st.param.b64 [arg], 10; call (res), factorial, (arg); ld.param.b64 %a, [res]; }
    st.global.u64 [%out], %a;
    {
        .param .align 8 .b8 pair[16]; .param .b64 res;
        st.param.b64 [pair], 40; st.param.b64 [pair+8], 2;
        call.uni (res), add_pair, (pair); ld.param.b64 %b, [res];
    }
    st.global.u64 [%out+8], %b;
    mov.u32 %x, 6;
    call (%r), by_register, (%x, %y);
    setp.ne.u32 %p, %y, 5;
    @!%p call (%r), by_register, (%r, 3);
    st.global.u32 [%out+16], %r;
    ret;
}

.visible .entry loops(.param .u64 out, .param .u32 n)
{
    .reg .b64 %out; .reg .b32 %i, %sum, %n, %k; .reg .pred %p, %q;
    ld.param.u64 %out, [out]; ld.param.u32 %n, [n];
    mov.u32 %i, 0; mov.u32 %sum, 0;
again:
    setp.ge.u32 %p, %i, %n;
    @%p bra.uni done;
    rem.u32 %k, %i, 5;
    table: .branchtargets zero, one, two, zero;
    setp.gt.u32 %q, %k, 3;
    @%q bra next;
    brx.idx %k, table;
zero:
    add.u32 %sum, %sum, 1; bra next;
one:
    add.u32 %sum, %sum, 10; bra next;
two:
    add.u32 %sum, %sum, 100;
next:
    add.u32 %i, %i, 1;
    bra.uni again;
done:
    st.global.u32 [%out], %sum;
}

.visible .entry scopes(.param .u64 out)
{
    .reg .b64 %out; .reg .b32 %r<3>;
    ld.param.u64 %out, [out];
    mov.u32 %r1, 1;
    { .reg .b32 %r1; mov.u32 %r1, 7; { .reg .b32 %r<9>; mov.u32 %r8, 9; st.global.u32 [%out+4], %r8; }
      st.global.u32 [%out], %r1; }
    st.global.u32 [%out+8], %r1;
    ret;
}

.visible .entry where(.param .u64 out)
{
    .reg .b64 %out, %at; .reg .b32 %t, %v; .reg .v4 .u32 %id;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x; mov.u32 %v, %tid.y; mov.u32 %id.x, %ntid.x; mad.lo.u32 %t, %v, %id.x, %t;
    mov.u32 %id.y, %tid.z; mov.u32 %v, %ntid.y; mul.lo.u32 %id.y, %id.y, %v; mad.lo.u32 %t, %id.y, %id.x, %t;
    mov.u32 %v, %ctaid.x; mov.u32 %id.x, %ctaid.y; mov.u32 %id.z, %nctaid.x; mad.lo.u32 %v, %id.x, %id.z, %v;
    mov.u32 %id.x, %ctaid.z; mov.u32 %id.w, %nctaid.y; mul.lo.u32 %id.z, %id.z, %id.w; mad.lo.u32 %v, %id.x, %id.z, %v;
    mov.u32 %id.x, 24; mad.lo.u32 %t, %v, %id.x, %t;
    mad.wide.u32 %at, %t, 16, %out;
    st.global.u32 [%at], %t;
    mov.u32 %v, %laneid; st.global.u32 [%at+4], %v;
    mov.u32 %v, %warpid; st.global.u32 [%at+8], %v;
    mov.u32 %v, %lanemask_lt; popc.b32 %v, %v; st.global.u32 [%at+12], %v;
    ret;
}

.visible .entry bounded(.param .u64 out)
.maxntid 64, 2, 1
.minnctapersm 2
{
    .reg .b64 %out, %t0, %t1; .reg .b32 %r; .reg .pred %p;
    ld.param.u64 %out, [out];
    .pragma "nounroll";
    mov.u64 %t0, %globaltimer; mov.u64 %t1, %clock64; mov.u32 %r, %clock;
    setp.ne.u64 %p, %t0, 0; selp.u32 %r, 1, 0, %p; st.global.u32 [%out], %r;
    mov.u32 %r, %nsmid; st.global.u32 [%out+4], %r;
    mov.u32 %r, %envreg3; st.global.u32 [%out+8], %r;
    membar.gl; fence.acq_rel.gpu; nanosleep.u32 20; prefetch.global.L2 [%out];
    ret;
}

.visible .entry print(.param .u64 out)
{
    .local .align 8 .b8 args[32];
    .reg .b64 %p; .reg .b32 %r; .reg .f64 %d;
    mov.u32 %r, -42; st.local.u32 [args], %r; mov.f64 %d, 1.5; st.local.f64 [args+8], %d;
    mov.u64 %p, word; cvta.global.u64 %p, %p; st.local.u64 [args+16], %p;
    mov.u64 %p, 0xABCDEF0123; st.local.u64 [args+24], %p;
    {
        .param .b64 f; .param .b64 a; .param .b32 res;
        mov.u64 %p, format; st.param.b64 [f], %p; mov.u64 %p, args; st.param.b64 [a], %p;
        call.uni (res), vprintf, (f, a); ld.param.b32 %r, [res];
    }
    ld.param.u64 %p, [out]; st.global.u32 [%p], %r;
    ret;
}

.visible .entry fails(.param .u64 out)
{
    .reg .b64 %p; .reg .b32 %t; .reg .pred %is;
    mov.u32 %t, %tid.x; setp.ne.u32 %is, %t, 2; @%is bra fine;
    {
        .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;
        mov.u64 %p, word; st.param.b64 [m], %p; st.param.b64 [f], %p; st.param.b32 [l], 17; st.param.b64 [n], %p;
        st.param.b64 [s], 1;
        call.uni __assertfail, (m, f, l, n, s);
    }
fine:
    ret;
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return Module(PTX, tmp_path_factory.mktemp("control"), "control")


def test_calls(module):
    out = np.zeros(3, np.uint64)
    assert module.run("calls", 1, 1, out, ("I", 7)) == OK
    assert out.tolist() == [3628800, 42, 42]
    assert module.run("calls", 1, 1, out, ("I", 5)) == OK
    assert out[2] == 90


def test_exit_and_trap_within_a_function(module):
    out = np.zeros(3, np.uint64)
    assert module.run("calls", 1, 1, out, ("I", 99)) == OK
    assert out.tolist() == [3628800, 42, 0]
    assert module.run("calls", 1, 1, out, ("I", 98)) == TRAP


def test_loops_and_indexed_branches(module):
    out = np.zeros(1, np.uint32)
    assert module.run("loops", 1, 1, out, ("I", 11)) == OK
    values = [1, 10, 100, 1, 0]
    assert out[0] == sum(values[i % 5] for i in range(11))


def test_inner_names_hide_outer_ones(module):
    out = np.zeros(3, np.uint32)
    assert module.run("scopes", 1, 1, out) == OK
    assert out.tolist() == [7, 9, 1]


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_place_in_the_grid_however_it_is_split(module, parts):
    out = np.zeros((2 * 3 * 2 * 24, 4), np.uint32)
    assert module.run("where", (2, 3, 2), (4, 3, 2), out, parts=parts) == OK
    index = np.arange(len(out))
    assert np.array_equal(out[:, 0], index)
    assert np.array_equal(out[:, 1], index % 24)
    assert np.array_equal(out[:, 2], index % 24 // 32)
    assert np.array_equal(out[:, 3], index % 24)


def test_bounds_and_clocks(module):
    out = np.zeros(3, np.uint32)
    assert module.kernels["bounded"].max_threads == 128
    assert module.run("bounded", 1, 1, out) == OK
    assert out.tolist() == [1, 4, 0]


def test_printf(module, capfd):
    out = np.zeros(1, np.uint32)
    assert module.run("print", 1, 1, out) == OK
    assert capfd.readouterr().out == "-42  1.50|ok|abcdef0123%\n"
    assert out[0] == 4


def test_assertion(module, capfd):
    out = np.zeros(1, np.uint32)
    assert module.run("fails", 1, 2, out) == OK
    assert module.run("fails", 1, 4, out) == TRAP
    assert "ok:17: ok: block: [0,0,0], thread: [2,0,0] Assertion `ok` failed." in capfd.readouterr().err


def test_two_host_threads_at_once(module):
    """The object has no state of its own: the two halves of a grid run side by side."""
    blocks = 2000
    out = np.zeros((blocks * 24, 4), np.uint32)
    row = module.kernels["where"]
    launch = module.launch((blocks, 1, 1), (4, 3, 2))
    params = module.params(row, (out,))
    halves = [
        threading.Thread(target=row.run, args=(ctypes.byref(launch), params, first, blocks // 2))
        for first in (0, blocks // 2)
    ]
    for half in halves:
        half.start()
    for half in halves:
        half.join()
    assert np.array_equal(out[:, 0], np.arange(len(out)))
