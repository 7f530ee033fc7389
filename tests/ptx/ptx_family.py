"""Tests of instructions by the hundred: each case applies one instruction to arrays.

A family is compiled once, as one kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ptx_runner import OK, Module

DTYPES = {
    **{
        f"{kind}{bits}": np.dtype(f"{'i' if kind == 's' else 'u'}{bits // 8}")
        for kind in "us"
        for bits in (8, 16, 32, 64)
    },
    **{f"b{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype("f2"),
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "pred": np.dtype("u1"),
}


class Case(NamedTuple):
    """`code` uses %d for the result and %a, %b, %c for the sources; `extra` declares more registers."""

    name: str
    code: str
    result: str
    sources: tuple[str, ...]
    extra: str = ""


def register_type(kind: str) -> str:
    """Bytes live in 16-bit registers, halves in b16."""
    return {"u8": "b16", "s8": "b16", "b8": "b16", "f16": "b16"}.get(kind, kind)


def block(case: Case, number: int) -> str:
    """The PTX of one case, a branch of the family's kernel: out[i] = code(a[i], b[i], c[i], e[i])."""
    lines = [f"case_{number}: {{", case.extra]
    for i, (name, kind) in enumerate(zip("abce", case.sources, strict=False)):
        size = DTYPES[kind].itemsize
        lines.append(
            f".reg .{register_type(kind)} %{name}; ld.param.u64 %base, [p{i}]; mad.lo.u64 %at, %i, {size}, %base;"
        )
        if kind == "pred":
            lines.append(f"ld.global.u8 %byte, [%at]; setp.ne.u16 %{name}, %byte, 0;")
        else:
            lines.append(f"ld.global.{'b16' if kind == 'f16' else kind} %{name}, [%at];")
    kind = case.result
    lines.append(f".reg .{register_type(kind)} %d; {case.code}")
    lines.append(f"ld.param.u64 %base, [out]; mad.lo.u64 %at, %i, {DTYPES[kind].itemsize}, %base;")
    if kind == "pred":
        lines.append("selp.u16 %byte, 1, 0, %d; st.global.u8 [%at], %byte;")
    else:
        lines.append(f"st.global.{'b16' if kind == 'f16' else kind} [%at], %d;")
    return "\n".join([*lines, "bra end;", "}"])


HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry cases(
    .param .u32 which, .param .u64 n, .param .u64 out, .param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{
    .reg .b64 %i, %n, %at, %base; .reg .b32 %t0, %t1, %t2; .reg .pred %out; .reg .b16 %byte;
    mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ntid.x; mov.u32 %t2, %tid.x; mad.lo.u32 %t0, %t0, %t1, %t2;
    cvt.u64.u32 %i, %t0; ld.param.u64 %n, [n]; setp.ge.u64 %out, %i, %n; @%out bra end;
    ld.param.u32 %t0, [which];
"""


class Family:
    """The compiled cases, one kernel that branches to them; `run` applies one to arrays."""

    def __init__(self, cases: Iterable[Case], directory: Path, name: str) -> None:
        self.cases = {case.name: case for case in cases}
        self.numbers = {name: number for number, name in enumerate(self.cases)}
        targets = ", ".join(f"case_{number}" for number in self.numbers.values())
        blocks = [block(case, number) for number, case in enumerate(self.cases.values())]
        text = "\n".join([HEAD, f"table: .branchtargets {targets};", "brx.idx %t0, table;", *blocks, "end: ret;", "}"])
        self.module = Module(text, directory, name)

    def run(self, name: str, *arrays: Sequence[object] | np.ndarray) -> np.ndarray:
        """The results for arrays of one length."""
        case = self.cases[name]
        given = [
            np.ascontiguousarray(array, dtype=DTYPES[kind]) for array, kind in zip(arrays, case.sources, strict=True)
        ]
        size = len(given[0])
        out = np.zeros(size, DTYPES[case.result])
        pointers = [*given, *[("Q", 0)] * (4 - len(given))]
        status = self.module.run("cases", -(-size // 64), 64, ("I", self.numbers[name]), ("Q", size), out, *pointers)
        assert status == OK
        return out


def integers(kind: str, count: int, seed: int) -> np.ndarray:
    """Corner values of the type, then random ones of random width."""
    rng = np.random.default_rng(seed)
    bits = DTYPES[kind].itemsize * 8
    corners = [0, 1, 2, 3, 5, 31, 32, 33, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << bits) - 2]
    wide = [int(rng.integers(0, 1 << 63)) * 2 + int(rng.integers(0, 2)) for _ in range(count)]
    values = corners + [value >> int(rng.integers(0, 64)) for value in wide]
    order = rng.permutation(len(values))
    masked = [values[i] & ((1 << bits) - 1) for i in order[:count]]
    return np.array(masked, dtype=f"u{bits // 8}").view(DTYPES[kind])


def floats(kind: str, count: int, seed: int) -> np.ndarray:
    """Zeros, denormals, infinities, NaN, powers of two, and random numbers of all sizes."""
    rng = np.random.default_rng(seed)
    info = np.finfo(DTYPES[kind])
    corners = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        np.inf,
        -np.inf,
        np.nan,
        info.max,
        info.min,
        info.tiny,
        info.smallest_subnormal,
    ]
    corners += [
        -float(info.tiny),
        float(info.tiny) * 0.75,
        2.0**31,
        2.0**32,
        -(2.0**31),
        2.0**63,
        3.0,
        1 / 3,
        1e-3,
        255.5,
        -128.5,
    ]
    limit = min(100.0, float(np.log(float(info.max)) * 0.9))
    values = np.concatenate([np.array(corners), rng.normal(size=count) * np.exp(rng.uniform(-limit, limit, count))])
    with np.errstate(all="ignore"):
        return rng.permutation(values)[:count].astype(DTYPES[kind])
