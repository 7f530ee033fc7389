"""cvt, mov, selp and the comparisons."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

from ptx_exact import rounded  # noqa: E402
from ptx_family import DTYPES, Case, Family, floats, integers  # noqa: E402

N = 250
WHOLE = [f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64)]
CASES: dict[str, Case] = {}


def case(name, code, result, *sources, extra=""):
    CASES[name] = Case(name, code, result, sources, extra)


def range_of(kind):
    bits = DTYPES[kind].itemsize * 8
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


for source in WHOLE:
    for target in WHOLE:
        case(f"cvt_{target}_{source}", f"cvt.{target}.{source} %d, %a;", target, source)
        case(f"cvt_sat_{target}_{source}", f"cvt.sat.{target}.{source} %d, %a;", target, source)
    for target in ("f32", "f64"):
        for mode in ("rn", "rz", "rm", "rp"):
            case(f"cvt_{mode}_{target}_{source}", f"cvt.{mode}.{target}.{source} %d, %a;", target, source)
for source in ("f32", "f64"):
    for target in WHOLE:
        for mode in ("rni", "rzi", "rmi", "rpi"):
            case(f"cvt_{mode}_{target}_{source}", f"cvt.{mode}.{target}.{source} %d, %a;", target, source)
    for mode in ("rni", "rzi", "rmi", "rpi"):
        case(f"cvt_{mode}_{source}_{source}", f"cvt.{mode}.{source}.{source} %d, %a;", source, source)
    case(f"cvt_sat_{source}", f"cvt.sat.{source}.{source} %d, %a;", source, source)
    case(f"cvt_f16_{source}", f"cvt.rn.f16.{source} %d, %a;", "f16", source)
    for mode in ("rz", "rm", "rp"):
        case(f"cvt_{mode}_f16_{source}", f"cvt.{mode}.f16.{source} %d, %a;", "f16", source)
    case(f"cvt_{source}_f16", f"cvt.{source}.f16 %d, %a;", source, "f16")
case("cvt_f64_f32", "cvt.f64.f32 %d, %a;", "f64", "f32")
for mode in ("rn", "rz", "rm", "rp"):
    case(f"cvt_{mode}_f32_f64", f"cvt.{mode}.f32.f64 %d, %a;", "f32", "f64")
case(
    "cvt_widens_in_a_register",
    "cvt.u16.u32 %x, %a; cvt.s32.s8 %y, %x; cvt.s64.s32 %d, %y;",
    "s64",
    "u32",
    extra=".reg .b16 %x; .reg .b32 %y; ",
)

FLOAT_TESTS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
WHOLE_TESTS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
UNSIGNED_TESTS = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
for kind in ("f32", "f64"):
    for test in FLOAT_TESTS:
        case(f"setp_{test}_{kind}", f"setp.{test}.{kind} %d, %a, %b;", "pred", kind, kind)
for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
    for test in (*WHOLE_TESTS, *(UNSIGNED_TESTS if kind[0] == "u" else ())):
        case(f"setp_{test}_{kind}", f"setp.{test}.{kind} %d, %a, %b;", "pred", kind, kind)
for logic in ("and", "or", "xor"):
    case(f"setp_lt_{logic}", f"setp.lt.{logic}.s32 %d, %a, %b, !%c;", "pred", "s32", "s32", "pred")
    case(
        f"setp_second_{logic}",
        f"setp.lt.{logic}.s32 %x|%d, %a, %b, %c;",
        "pred",
        "s32",
        "s32",
        "pred",
        extra=".reg .pred %x; ",
    )
case("set_u32", "set.lt.u32.f32 %d, %a, %b;", "u32", "f32", "f32")
case("set_f16", "set.le.f16.f16 %d, %a, %b;", "f16", "f16", "f16")
case("set_f32", "set.gt.and.f32.s32 %d, %a, %b, %c;", "f32", "s32", "s32", "pred")
for kind in ("b16", "s32", "u64", "f32", "f64"):
    result = kind.replace("b", "u")
    case(f"selp_{kind}", f"selp.{kind} %d, %a, %b, %c;", result, result, result, "pred")
case("slct_s32", "slct.u32.s32 %d, %a, %b, %c;", "u32", "u32", "u32", "s32")
case("slct_f32", "slct.f64.f32 %d, %a, %b, %c;", "f64", "f64", "f64", "f32")
case(
    "mov_pack",
    "mov.b64 %x, {%a, %b}; mov.b64 {%y, _}, %x; mov.b64 {_, %z}, %x; sub.u32 %d, %y, %z;",
    "u32",
    "u32",
    "u32",
    extra=".reg .b64 %x; .reg .b32 %y, %z; ",
)
case("mov_bytes", "mov.b32 {%x, %y}, %a; mov.b32 %d, {%y, %x};", "u32", "u32", extra=".reg .b16 %x, %y; ")
case("mov_halves_of_double", "mov.b64 {%x, %y}, %a; mov.b64 %d, {%x, %y};", "f64", "f64", extra=".reg .b32 %x, %y; ")
case(
    "pred_logic",
    "and.pred %x, %a, %b; not.pred %x, %x; xor.pred %d, %x, %a;",
    "pred",
    "pred",
    "pred",
    extra=".reg .pred %x; ",
)
case(
    "constants",
    "mov.f32 %x, 0f3FC00000; mov.f64 %d, 0dBFF8000000000000; cvt.f64.f32 %y, %x; add.f64 %d, %d, %y;"
    "add.f64 %d, %d, 0d0000000000000001; mov.f64 %y, 2.5; add.f64 %d, %d, %y; add.f64 %d, %d, %a;",
    "f64",
    "f64",
    extra=".reg .f32 %x; .reg .f64 %y; ",
)


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    return Family(CASES.values(), tmp_path_factory.mktemp("convert"), "convert")


@pytest.mark.parametrize("source", WHOLE)
def test_whole_to_whole(family, source):
    values = integers(source, N, 1)
    for target in WHOLE:
        low, high = range_of(target)
        assert np.array_equal(family.run(f"cvt_{target}_{source}", values), values.astype(DTYPES[target])), target
        expected = [min(max(value, low), high) for value in values.tolist()]
        assert family.run(f"cvt_sat_{target}_{source}", values).tolist() == expected, target


@pytest.mark.parametrize("source", WHOLE)
def test_whole_to_float(family, source):
    values = integers(source, N, 2)
    for target in ("f32", "f64"):
        for mode in ("rn", "rz", "rm", "rp"):
            found = family.run(f"cvt_{mode}_{target}_{source}", values).tolist()
            expected = [rounded(Fraction(value), target, mode) if value else 0.0 for value in values.tolist()]
            assert found == expected, (target, mode)


TO_WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", WHOLE)
def test_float_to_whole_saturates(family, source, target):
    values = np.concatenate([floats(source, N, 3), np.linspace(-4, 4, 33)]).astype(DTYPES[source])
    low, high = range_of(target)
    bits = DTYPES[target].itemsize * 8
    nan = low if target[0] == "s" else 1 << bits - 1
    if source == "f32" and bits < 64:
        nan = 0
    for mode, reference in TO_WHOLE.items():
        for value, result in zip(
            values.tolist(), family.run(f"cvt_{mode}_{target}_{source}", values).tolist(), strict=True
        ):
            if math.isnan(value):
                expected = nan
            elif math.isinf(value):
                expected = high if value > 0 else low
            else:
                expected = min(max(reference(value), low), high)
            assert result == expected, (mode, value)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_float_to_float(family, kind):
    values = np.concatenate([floats(kind, N, 4), np.linspace(-3, 3, 25)]).astype(DTYPES[kind])
    for mode, reference in {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}.items():
        assert np.array_equal(family.run(f"cvt_{mode}_{kind}_{kind}", values), reference(values), equal_nan=True)
    saturated = np.where(np.isnan(values), 0, np.clip(values, 0, 1))
    assert np.array_equal(family.run(f"cvt_sat_{kind}", values), saturated)
    with np.errstate(all="ignore"):
        assert np.array_equal(family.run(f"cvt_f16_{kind}", values), values.astype(np.float16), equal_nan=True)
    for mode in ("rz", "rm", "rp"):
        found = family.run(f"cvt_{mode}_f16_{kind}", values).astype(float).tolist()
        for value, result in zip(values.tolist(), found, strict=True):
            expected = rounded(Fraction(value), "f16", mode) if math.isfinite(value) and value else value
            assert result == expected or (math.isnan(result) and math.isnan(value)), (mode, value)
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    assert np.array_equal(family.run(f"cvt_{kind}_f16", every), every.astype(DTYPES[kind]), equal_nan=True)


def test_single_and_double(family):
    singles, doubles = floats("f32", N, 5), floats("f64", N, 6)
    assert np.array_equal(family.run("cvt_f64_f32", singles), singles.astype(np.float64), equal_nan=True)
    for mode in ("rn", "rz", "rm", "rp"):
        found = family.run(f"cvt_{mode}_f32_f64", doubles).tolist()
        for value, result in zip(doubles.tolist(), found, strict=True):
            expected = rounded(Fraction(value), "f32", mode) if math.isfinite(value) and value else value
            assert result == expected or (math.isnan(result) and math.isnan(value)), (mode, value)


def test_a_byte_is_extended_to_its_register(family):
    assert family.run("cvt_widens_in_a_register", [0x1FF, 0x7F, 0x80]).tolist() == [-1, 127, -128]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_float_comparisons(family, kind):
    a, b = floats(kind, N, 7), floats(kind, N, 8)
    b[::3] = a[::3]
    nan = np.isnan(a) | np.isnan(b)
    ordered = {"eq": a == b, "ne": (a != b) & ~nan, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    expected = {**ordered, **{f"{test}u": value | nan for test, value in ordered.items() if test != "ne"}}
    expected |= {"neu": a != b, "num": ~nan, "nan": nan}
    for test in FLOAT_TESTS:
        assert np.array_equal(family.run(f"setp_{test}_{kind}", a, b).astype(bool), expected[test]), test


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_whole_comparisons(family, kind):
    a, b = integers(kind, N, 9), integers(kind, N, 10)
    b[::3] = a[::3]
    tests = {**WHOLE_TESTS, **(UNSIGNED_TESTS if kind[0] == "u" else {})}
    operators = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    for test, symbol in tests.items():
        assert np.array_equal(family.run(f"setp_{test}_{kind}", a, b).astype(bool), operators[symbol]), test


def test_comparisons_with_logic(family):
    a, b, p = integers("s32", N, 11), integers("s32", N, 12), integers("u8", N, 13) % 2
    logic = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    for name, combine in logic.items():
        assert np.array_equal(family.run(f"setp_lt_{name}", a, b, p).astype(bool), combine(a < b, p == 0))
        assert np.array_equal(family.run(f"setp_second_{name}", a, b, p).astype(bool), combine(~(a < b), p == 1))
    assert family.run("set_u32", [1.0, 3.0, np.nan], [2.0, 2.0, 1.0]).tolist() == [0xFFFFFFFF, 0, 0]
    assert family.run("set_f16", [1, 3], [2, 2]).tolist() == [1.0, 0.0]
    assert family.run("set_f32", [3, 3, 1], [2, 2, 2], [1, 0, 1]).tolist() == [1.0, 0.0, 0.0]


def test_choices(family):
    for kind in ("b16", "s32", "u64", "f32", "f64"):
        assert family.run(f"selp_{kind}", [1, 2], [3, 4], [1, 0]).tolist() == [1, 4], kind
    assert family.run("slct_s32", [1, 2, 3], [4, 5, 6], [0, -1, 7]).tolist() == [1, 5, 3]
    assert family.run("slct_f32", [1, 2, 3], [4, 5, 6], [-0.0, -1.5, np.nan]).tolist() == [1, 5, 6]


def test_moves(family):
    assert family.run("mov_pack", [10], [3]).tolist() == [7]
    assert family.run("mov_bytes", [0x12345678]).tolist() == [0x56781234]
    assert family.run("mov_halves_of_double", [math.pi]).tolist() == [math.pi]
    assert family.run("pred_logic", [0, 0, 1, 1], [0, 1, 0, 1]).tolist() == [1, 1, 0, 1]
    assert family.run("constants", [0.5]).tolist() == [3.0]
