"""Floating-point instructions, bit by bit, against exact fractions; approximate ones against a tolerance."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

from ptx_exact import operation, rounded  # noqa: E402
from ptx_family import DTYPES, Case, Family, floats  # noqa: E402

N = 250
MODES = ("rn", "rz", "rm", "rp")
CASES: dict[str, Case] = {}


def case(name, code, result, *sources, extra=""):
    CASES[name] = Case(name, code, result, sources, extra)


for kind in ("f32", "f64"):
    for mode in MODES:
        for op in ("add", "sub", "mul", "div"):
            case(f"{op}_{mode}_{kind}", f"{op}.{mode}.{kind} %d, %a, %b;", kind, kind, kind)
        case(f"fma_{mode}_{kind}", f"fma.{mode}.{kind} %d, %a, %b, %c;", kind, kind, kind, kind)
        case(f"sqrt_{mode}_{kind}", f"sqrt.{mode}.{kind} %d, %a;", kind, kind)
        case(f"rcp_{mode}_{kind}", f"rcp.{mode}.{kind} %d, %a;", kind, kind)
    for op in ("min", "max"):
        case(f"{op}_{kind}", f"{op}.{kind} %d, %a, %b;", kind, kind, kind)
    for op in ("abs", "neg"):
        case(f"{op}_{kind}", f"{op}.{kind} %d, %a;", kind, kind)
    case(f"copysign_{kind}", f"copysign.{kind} %d, %a, %b;", kind, kind, kind)
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        case(f"testp_{test}_{kind}", f"testp.{test}.{kind} %d, %a;", "pred", kind)
case("min_nan", "min.NaN.f32 %d, %a, %b;", "f32", "f32", "f32")
case("max_nan", "max.NaN.f32 %d, %a, %b;", "f32", "f32", "f32")
case("max_three", "max.f32 %d, %a, %b, %c;", "f32", "f32", "f32", "f32")
case("add_ftz", "add.ftz.f32 %d, %a, %b;", "f32", "f32", "f32")
case("mul_ftz", "mul.ftz.f32 %d, %a, %b;", "f32", "f32", "f32")
case("add_sat", "add.sat.f32 %d, %a, %b;", "f32", "f32", "f32")
case("fma_sat", "fma.rn.sat.f32 %d, %a, %b, %c;", "f32", "f32", "f32", "f32")
case("mad_rn", "mad.rn.f64 %d, %a, %b, %c;", "f64", "f64", "f64", "f64")
case("bits_in_float", "add.f32 %x, %x, %x; mov.b32 %d, %x;", "u32", "f32", extra=".reg .b32 %x; ")
for name, spelling in {
    "sin": "sin.approx.f32",
    "cos": "cos.approx.ftz.f32",
    "lg2": "lg2.approx.f32",
    "ex2": "ex2.approx.ftz.f32",
    "tanh": "tanh.approx.f32",
    "rsqrt": "rsqrt.approx.f32",
    "rcpa": "rcp.approx.ftz.f32",
    "sqrta": "sqrt.approx.f32",
}.items():
    case(f"approx_{name}", f"{spelling} %d, %a;", "f32", "f32")
case("approx_div", "div.approx.f32 %d, %a, %b;", "f32", "f32", "f32")
case("full_div", "div.full.f32 %d, %a, %b;", "f32", "f32", "f32")
case("approx_rsqrt64", "rsqrt.approx.f64 %d, %a;", "f64", "f64")
case("approx_rcp64", "rcp.approx.ftz.f64 %d, %a;", "f64", "f64")
CASES["bits_in_float"] = CASES["bits_in_float"]._replace(code="mov.b32 %x, %a; add.f32 %x, %x, %x; mov.b32 %d, %x;")

for op in ("add", "sub", "mul", "min", "max"):
    case(f"half_{op}", f"{op}.f16 %d, %a, %b;", "f16", "f16", "f16")
case("half_fma", "fma.rn.f16 %d, %a, %b, %c;", "f16", "f16", "f16", "f16")
PAIR = ".reg .b32 %xx, %yy; .reg .b16 %hi, %z; "
case(
    "half2_add",
    "mov.b32 %xx, {%a, %b}; mov.b32 %yy, {%b, %a}; add.f16x2 %xx, %xx, %yy; mov.b32 {%d, %hi}, %xx;",
    "f16",
    "f16",
    "f16",
    extra=PAIR,
)
case("half_lt", "setp.lt.f16 %d, %a, %b;", "pred", "f16", "f16")
case(
    "bf16_fma",
    "cvt.rn.bf16.f32 %x, %a; cvt.rn.bf16.f32 %y, %b; fma.rn.bf16 %x, %x, %y, %x; cvt.u32.u16 %d, %x;",
    "u32",
    "f32",
    "f32",
    extra=".reg .b16 %x, %y; ",
)


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    return Family(CASES.values(), tmp_path_factory.mktemp("floating"), "floating")


def same(found, expected):
    """Equal bit by bit, any NaN for a NaN."""
    if math.isnan(expected):
        return math.isnan(found)
    return found == expected and math.copysign(1, found) == math.copysign(1, expected)


def sources(row, seed=0):
    return [floats(kind, N, seed * 10 + index) for index, kind in enumerate(row.sources)]


def with_sign(value):
    """Orders -0 before +0."""
    return value, math.copysign(1, value)


def close_pairs(kind, seed):
    """Pairs whose sums cancel and whose last places matter."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=N).astype(DTYPES[kind])
    scale = 2.0 ** rng.integers(-60, 60, N)
    return a, (a * scale * rng.choice([-1, 1, 1 + 2.0**-20], N)).astype(DTYPES[kind])


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "fma"])
def test_arithmetic_is_exactly_rounded(family, op, mode, kind):
    name = f"{op}_{mode}_{kind}"
    row = CASES[name]
    for arrays in (sources(row), [*close_pairs(kind, 3), close_pairs(kind, 4)[1]][: len(row.sources)]):
        found = family.run(name, *arrays)
        for *values, result in zip(*(array.tolist() for array in arrays), found.tolist(), strict=True):
            assert same(result, operation(op, kind, mode, *values)), values


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_sqrt_and_rcp_are_exactly_rounded(family, mode, kind):
    values = np.abs(floats(kind, N, 5))
    for value, result in zip(values.tolist(), family.run(f"sqrt_{mode}_{kind}", values).tolist(), strict=True):
        if not math.isfinite(value) or value == 0:
            assert same(result, value)
            continue
        digits = 140  # enough that the root's rounding error never matters
        root = Fraction(math.isqrt(Fraction(value).numerator * 4**digits * 4**600 // Fraction(value).denominator))
        exact = root / Fraction(2) ** (digits + 600)
        if exact * exact != Fraction(value):
            exact += Fraction(1, 2 ** (digits + 601))
        assert same(result, rounded(exact, kind, mode)), value
    values = floats(kind, N, 6)
    for value, result in zip(values.tolist(), family.run(f"rcp_{mode}_{kind}", values).tolist(), strict=True):
        assert same(result, operation("div", kind, mode, 1.0, value)), value


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_min_and_max(family, kind):
    a, b = sources(CASES[f"min_{kind}"])
    for op, choose in (("min", min), ("max", max)):
        for x, y, result in zip(a.tolist(), b.tolist(), family.run(f"{op}_{kind}", a, b).tolist(), strict=True):
            expected = y if math.isnan(x) else x if math.isnan(y) else choose(x, y, key=with_sign)
            assert same(result, expected), (x, y)


def test_min_and_max_that_keep_nan(family):
    a, b = sources(CASES["min_nan"], 2)
    for name, reference in (("min_nan", np.minimum), ("max_nan", np.maximum)):
        found = family.run(name, a, b)
        assert np.array_equal(found, reference(a, b), equal_nan=True)
        assert (found[np.isnan(found)].view(np.uint32) == 0x7FFFFFFF).all()
    a, b, c = sources(CASES["max_three"], 2)
    assert np.array_equal(family.run("max_three", a, b, c), np.fmax(np.fmax(a, b), c), equal_nan=True)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_signs_and_properties(family, kind):
    a, b = sources(CASES[f"copysign_{kind}"])
    assert np.array_equal(family.run(f"abs_{kind}", a), np.abs(a), equal_nan=True)
    assert np.array_equal(family.run(f"neg_{kind}", a), -a, equal_nan=True)
    assert np.array_equal(family.run(f"copysign_{kind}", a, b), np.copysign(b, a), equal_nan=True)
    tiny = np.finfo(DTYPES[kind]).tiny
    normal = np.isfinite(a) & (np.abs(a) >= tiny)
    for test, expected in {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": normal,
        "subnormal": np.isfinite(a) & (a != 0) & ~normal,
    }.items():
        assert np.array_equal(family.run(f"testp_{test}_{kind}", a).astype(bool), expected), test


def test_flush_to_zero(family):
    a, b = sources(CASES["add_ftz"], 4)
    tiny = np.finfo(np.float32).tiny

    def flush(x):
        return np.where(np.abs(x) < tiny, np.copysign(np.float32(0), x), x).astype(np.float32)

    with np.errstate(all="ignore"):
        assert np.array_equal(family.run("add_ftz", a, b), flush(flush(a) + flush(b)), equal_nan=True)
        assert np.array_equal(family.run("mul_ftz", a, b), flush(flush(a) * flush(b)), equal_nan=True)


def test_saturation(family):
    a = np.array([0.25, 0.75, -1.0, np.nan, 0.5, np.inf, -np.inf, 1e-40], np.float32)
    b = np.array([0.25, 0.75, 0.5, 1.0, 0.5, 1.0, 1.0, 0.0], np.float32)
    expected = np.array([0.5, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1e-40], np.float32)
    assert np.array_equal(family.run("add_sat", a, b), expected)
    assert np.array_equal(family.run("fma_sat", a, np.ones_like(a), b), expected)


def test_float_arithmetic_on_untyped_registers(family):
    a = np.array([1.5, -2.25], np.float32)
    assert family.run("bits_in_float", a).view(np.float32).tolist() == [3.0, -4.5]


APPROXIMATE = {
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcpa": lambda x: 1 / x,
    "sqrta": np.sqrt,
}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximations_are_close(family, name):
    values = np.random.default_rng(1).uniform(0.1, 6, 1000).astype(np.float32)
    found = family.run(f"approx_{name}", values)
    assert np.allclose(found, APPROXIMATE[name](values.astype(np.float64)), rtol=3e-7, atol=3e-7)


def test_other_approximations(family):
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 500)).astype(np.float32)
    for name in ("approx_div", "full_div"):
        assert np.allclose(family.run(name, a, b), a / b, rtol=3e-7)
    wide = rng.uniform(1e-3, 1e3, 500)
    assert np.allclose(family.run("approx_rsqrt64", wide), 1 / np.sqrt(wide), rtol=1e-14)
    assert np.allclose(family.run("approx_rcp64", wide), 1 / wide, rtol=1e-14)
    assert family.run("approx_rcp64", [0.0, np.inf, 1e-310]).tolist() == [np.inf, 0.0, np.inf]


@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_halves_are_rounded_once(family, op):
    row = CASES[f"half_{op}"]
    arrays = sources(row, 7)
    found = family.run(f"half_{op}", *arrays).astype(np.float64)
    for *values, result in zip(*(array.astype(float).tolist() for array in arrays), found.tolist(), strict=True):
        assert same(result, operation(op, "f16", "rn", *values)), values


def test_half_pairs_and_comparisons(family):
    a, b = sources(CASES["half2_add"], 8)
    with np.errstate(all="ignore"):
        assert np.array_equal(family.run("half2_add", a, b), (a + b).astype(np.float16), equal_nan=True)
        assert np.array_equal(family.run("half_lt", a, b).astype(bool), a < b)
        assert np.array_equal(family.run("half_max", a, b), np.fmax(a, b), equal_nan=True)


def test_bfloat(family):
    a, b = np.array([1.0, 2.5, -3.0], np.float32), np.array([4.0, 0.5, 0.25], np.float32)
    assert ((family.run("bf16_fma", a, b).astype(np.uint32) << 16).view(np.float32)).tolist() == [5.0, 3.75, -3.75]
