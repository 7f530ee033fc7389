"""Threads that wait for each other: barriers of all kinds, and the operations of a warp."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

from ptx_runner import BARRIER, OK, TRAP, Module  # noqa: E402

PTX = """
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b8 dyn[];

.func (.param .b32 total) block_sum(.param .b32 value)
{
    .shared .align 4 .b8 cells[4096];
    .reg .b32 %v, %t, %at, %half, %other, %n; .reg .pred %p;
    ld.param.u32 %v, [value];
    mov.u32 %t, %tid.x; mov.u32 %n, cells; mad.lo.u32 %at, %t, 4, %n; st.shared.u32 [%at], %v;
    mov.u32 %half, %ntid.x;
again:
    bar.sync 0;
    shr.u32 %half, %half, 1;
    setp.eq.u32 %p, %half, 0; @%p bra done;
    setp.ge.u32 %p, %t, %half; @%p bra again;
    mad.lo.u32 %n, %half, 4, %at; ld.shared.u32 %other, [%n]; ld.shared.u32 %v, [%at];
    add.u32 %v, %v, %other; st.shared.u32 [%at], %v;
    bra again;
done:
    ld.shared.u32 %v, [cells];
    bar.sync 0;
    st.param.b32 [total], %v;
    ret;
}

.visible .entry twice(.param .u64 out)
{
    .reg .b64 %out; .reg .b32 %v, %t, %i; .reg .pred %p;
    ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x;
    add.u32 %t, %t, %i;
    { .param .b32 a; .param .b32 r; st.param.b32 [a], %t; call.uni (r), block_sum, (a); ld.param.b32 %v, [r]; }
    add.u32 %v, %v, 1;
    { .param .b32 a; .param .b32 r; st.param.b32 [a], %v; call.uni (r), block_sum, (a); ld.param.b32 %v, [r]; }
    mov.u32 %i, %ntid.x; mov.u32 %t, %ctaid.x; mad.lo.u32 %t, %t, %i, 0; mov.u32 %i, %tid.x; add.u32 %t, %t, %i;
    mad.wide.u32 %out, %t, 4, %out; st.global.u32 [%out], %v;
    ret;
}

// Each thread keeps a local array and a predicate over a barrier, and reads its neighbour's cell.
.visible .entry keeps(.param .u64 out)
{
    .local .align 4 .b8 mine[8];
    .reg .b64 %out; .reg .b32 %t, %n, %a, %v, %w; .reg .pred %odd; .reg .f32 %f; .reg .f64 %d; .reg .b16 %h;
    ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x;
    and.b32 %v, %t, 1; setp.ne.u32 %odd, %v, 0;
    cvt.rn.f32.u32 %f, %t; cvt.rn.f64.u32 %d, %t; cvt.u16.u32 %h, %t;
    st.local.u32 [mine], %t; st.local.u32 [mine+4], %n;
    mov.u32 %a, dyn; mad.lo.u32 %a, %t, 4, %a; mul.lo.u32 %v, %t, 10; st.shared.u32 [%a], %v;
    barrier.sync.aligned 1;
    add.u32 %v, %t, 1; rem.u32 %v, %v, %n; mov.u32 %a, dyn; mad.lo.u32 %a, %v, 4, %a; ld.shared.u32 %v, [%a];
    ld.local.u32 %w, [mine]; add.u32 %v, %v, %w; ld.local.u32 %w, [mine+4]; add.u32 %v, %v, %w;
    @%odd add.u32 %v, %v, 1000;
    cvt.rzi.u32.f32 %w, %f; add.u32 %v, %v, %w; cvt.rzi.u32.f64 %w, %d; add.u32 %v, %v, %w; cvt.u32.u16 %w, %h;
    add.u32 %v, %v, %w;
    mad.wide.u32 %out, %t, 4, %out; st.global.u32 [%out], %v;
    ret;
}

// Half of the threads leave; the others still meet.
.visible .entry leavers(.param .u64 out)
{
    .reg .b64 %out; .reg .b32 %t, %v; .reg .pred %p;
    ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; and.b32 %v, %t, 1; setp.ne.u32 %p, %v, 0;
    @%p ret;
    bar.sync 0;
    mad.wide.u32 %out, %t, 4, %out; st.global.u32 [%out], 1;
    bar.sync 0;
    st.global.u32 [%out], 2;
    ret;
}

// Threads meet at one barrier from different places.
.visible .entry places(.param .u64 out)
{
    .reg .b64 %out; .reg .b32 %t, %v; .reg .pred %p;
    ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 8;
    mad.wide.u32 %out, %t, 4, %out;
    @%p bra low;
    barrier.sync 0; st.global.u32 [%out], 2; ret;
low:
    barrier.sync 0; st.global.u32 [%out], 1; ret;
}

.visible .entry never(.param .u64 out)
{
    .reg .b32 %t; .reg .pred %p;
    mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 8;
    @%p bra low;
    bar.sync 0; ret;
low:
    bar.sync 1; ret;
}

// Producer and consumer warps: bar.arrive does not wait.
.visible .entry named(.param .u64 out)
{
    .reg .b64 %out; .reg .b32 %t, %a, %v; .reg .pred %p;
    ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32; and.b32 %v, %t, 31;
    mov.u32 %a, dyn; mad.lo.u32 %a, %v, 4, %a;
    @%p bra consumer;
    mul.lo.u32 %v, %t, 3; st.shared.u32 [%a], %v;
    bar.arrive 2, 64;
    ret;
consumer:
    bar.sync 2, 64;
    ld.shared.u32 %v, [%a]; mad.wide.u32 %out, %t, 4, %out; st.global.u32 [%out], %v;
    ret;
}

.visible .entry bad_barrier() { .reg .b32 %r; mov.u32 %r, 16; bar.sync %r; ret; }

.visible .entry reduces(.param .u64 out)
{
    .reg .b64 %out; .reg .b32 %t, %v, %n; .reg .pred %p, %q, %r;
    ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; rem.u32 %v, %t, 3; setp.eq.u32 %p, %v, 0;
    mad.wide.u32 %out, %t, 16, %out;
    bar.red.popc.u32 %n, 0, %p; st.global.u32 [%out], %n;
    barrier.red.and.pred %q, 0, %p; selp.u32 %n, 1, 0, %q; st.global.u32 [%out+4], %n;
    bar.red.or.pred %q, 0, %p; selp.u32 %n, 1, 0, %q; st.global.u32 [%out+8], %n;
    setp.lt.u32 %r, %t, 5000; bar.red.and.pred %q, 0, %r; selp.u32 %n, 1, 0, %q; st.global.u32 [%out+12], %n;
    ret;
}
"""
SHUFFLES = {
    "down": "shfl.sync.down.b32 %r|%p, %v, 3, 31, -1;",
    "up": "shfl.sync.up.b32 %r|%p, %v, 3, 0, -1;",
    "bfly": "shfl.sync.bfly.b32 %r|%p, %v, 5, 31, -1;",
    "idx": "shfl.sync.idx.b32 %r|%p, %v, 9, 31, -1;",
    "seg": "shfl.sync.down.b32 %r|%p, %v, 2, 6151, -1;",  # width 8: mask 24, limit 7
    "ballot": "setp.gt.u32 %q, %v, 310; vote.sync.ballot.b32 %r, %q, -1; mov.pred %p, %q;",
    "any": "setp.eq.u32 %q, %v, 300; vote.sync.any.pred %p, %q, -1; mov.u32 %r, 0;",
    "all": "setp.ge.u32 %q, %v, 300; vote.sync.all.pred %p, %q, -1; mov.u32 %r, 0;",
    "uni": "setp.ge.u32 %q, %v, 310; vote.sync.uni.pred %p, %q, -1; mov.u32 %r, 0;",
    "match": "rem.u32 %v, %v, 5; match.any.sync.b32 %r, %v, -1; setp.ne.u32 %p, %r, 0;",
    "matchall": "match.all.sync.b32 %r|%p, %v, -1;",
    "sum": "redux.sync.add.u32 %r, %v, -1; setp.ne.u32 %p, %r, 0;",
    "least": "neg.s32 %v, %v; redux.sync.min.s32 %r, %v, -1; setp.ne.u32 %p, %r, 0;",
    "elect": "elect.sync %r|%p, -1;",
    "halves": "setp.lt.u32 %q, %t, 16; @%q bra low; activemask.b32 %r; bra both;\n"
    "low: activemask.b32 %r; not.b32 %r, %r;\n"
    "both: bar.warp.sync -1; setp.eq.u32 %p, %r, 0xFFFF0000;",
    "part": "and.b32 %r, %t, 1; setp.eq.u32 %q, %r, 0; mov.pred %p, %q; @!%q bra skip;"
    "shfl.sync.bfly.b32 %r, %v, 2, 31, 0x55555555; redux.sync.max.u32 %r, %r, 0x55555555;\nskip:",
}
for name, code in SHUFFLES.items():
    PTX += f"""
.visible .entry warp_{name}(.param .u64 out)
{{
    .reg .b64 %out; .reg .b32 %t, %v, %r; .reg .pred %p, %q;
    ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; add.u32 %v, %t, 300;
    {code}
    mad.wide.u32 %out, %t, 8, %out; st.global.u32 [%out], %r; selp.u32 %r, 1, 0, %p; st.global.u32 [%out+4], %r;
    ret;
}}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return Module(PTX, tmp_path_factory.mktemp("teams"), "teams")


def test_a_function_with_barriers_called_twice(module):
    out = np.zeros((3, 128), np.uint32)
    assert module.run("twice", 3, 128, out) == OK
    for block in range(3):
        total = sum(range(128)) + 128 * block
        assert (out[block] == 128 * (total + 1)).all()


def test_a_waiting_thread_keeps_all_it_needs(module):
    n = 100
    out = np.zeros(n, np.uint32)
    assert module.run("keeps", 1, n, out, shared=4 * n) == OK
    t = np.arange(n)
    assert np.array_equal(out, (t + 1) % n * 10 + t + n + t % 2 * 1000 + 3 * t)
    assert module.kernels["keeps"].local_bytes == 8


def test_threads_that_ended_hold_up_nobody(module):
    out = np.zeros(33, np.uint32)
    assert module.run("leavers", 1, 33, out) == OK
    assert out.tolist() == [2 if t % 2 == 0 else 0 for t in range(33)]


def test_one_barrier_from_two_places(module):
    out = np.zeros(16, np.uint32)
    assert module.run("places", 1, 16, out) == OK
    assert out.tolist() == [1] * 8 + [2] * 8


def test_diverged_barriers_are_reported(module):
    out = np.zeros(16, np.uint32)
    assert module.run("never", 1, 16, out) == BARRIER
    assert module.run("never", 1, 8, out) == OK
    assert module.run("bad_barrier", 1, 8) == TRAP


def test_named_barriers_with_counts(module):
    out = np.zeros(32, np.uint32)
    assert module.run("named", 1, 64, out, shared=128) == OK
    assert out.tolist() == [3 * (32 + t) for t in range(32)]


def test_barrier_reductions(module):
    out = np.zeros((70, 4), np.uint32)
    assert module.run("reduces", 1, 70, out) == OK
    assert (out == [24, 0, 1, 1]).all()


def warp(module, name, threads=32):
    out = np.zeros((threads, 2), np.uint32)
    assert module.run(f"warp_{name}", 1, threads, out) == OK
    return out[:, 0].astype(np.int64), out[:, 1].astype(bool)


LANE = np.arange(32)


def test_shuffles(module):
    for name, source, inside in (
        ("down", LANE + 3, LANE + 3 < 32),
        ("up", LANE - 3, LANE - 3 >= 0),
        ("bfly", LANE ^ 5, LANE >= 0),
        ("idx", LANE * 0 + 9, LANE >= 0),
        ("seg", LANE + 2, LANE % 8 + 2 < 8),
    ):
        values, valid = warp(module, name)
        assert np.array_equal(valid, inside), name
        assert np.array_equal(values, 300 + np.where(inside, source, LANE)), name


def test_votes(module):
    values, _ = warp(module, "ballot")
    assert (values == 0xFFFFFFFF ^ 0x7FF).all()
    assert warp(module, "any")[1].all()
    assert warp(module, "all")[1].all()
    assert not warp(module, "uni")[1].any()
    values, _ = warp(module, "ballot", threads=20)  # lanes that are not there have no vote
    assert (values == 0xFFFFF ^ 0x7FF).all()


def test_matches_and_reductions(module):
    values, _ = warp(module, "match")
    expected = [sum(1 << k for k in range(32) if (300 + k) % 5 == (300 + lane) % 5) for lane in range(32)]
    assert values.tolist() == expected
    values, valid = warp(module, "matchall")
    assert not values.any()
    assert not valid.any()
    assert (warp(module, "sum")[0] == sum(range(300, 332))).all()
    assert (warp(module, "least")[0].astype(np.uint32).view(np.int32) == -331).all()
    values, valid = warp(module, "elect")
    assert not values.any()
    assert valid.tolist() == [True] + [False] * 31


def test_diverged_warps(module):
    assert warp(module, "halves")[1].all()
    values, even = warp(module, "part")
    assert np.array_equal(even, LANE % 2 == 0)
    assert (values[even] == 330).all()


def test_several_warps(module):
    out = np.zeros((96, 2), np.uint32)
    assert module.run("warp_sum", 1, 96, out) == OK
    assert np.array_equal(
        out[:, 0].reshape(3, 32), np.repeat([[sum(range(300 + w, 332 + w))] for w in (0, 32, 64)], 32, axis=1)
    )
