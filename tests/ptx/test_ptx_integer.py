"""Whole-number instructions against Python's integers, with the corner cases of the PTX manual."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

from ptx_family import DTYPES, Case, Family, integers  # noqa: E402

N = 300
TYPES = ["u16", "s16", "u32", "s32", "u64", "s64"]


def width(kind):
    return DTYPES[kind].itemsize * 8


def wrap(value, kind):
    """`value` modulo the type, as the type reads it."""
    bits = width(kind)
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def quotient(a, b, kind):
    if b == 0:
        return -1
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def remainder(a, b, kind):
    return a if b == 0 else a - quotient(a, b, kind) * b


def shifted(a, amount, kind, left):
    bits = width(kind)
    if left:
        return 0 if amount >= bits else a << amount
    if amount >= bits:
        return -1 if kind[0] == "s" and a < 0 else 0
    return a >> amount


def bfe(a, pos, length, kind):
    """The manual's pseudo-code, bit by bit."""
    bits = width(kind)
    pos, length = pos & 255, length & 255
    top = bits - 1
    image = a & ((1 << bits) - 1)
    sign = 0 if kind[0] == "u" or length == 0 else image >> min(pos + length - 1, top) & 1
    found = 0
    for i in range(bits):
        bit = image >> (pos + i) & 1 if i < length and pos + i <= top else sign
        found |= bit << i
    return found


def bfi(a, b, pos, length, kind):
    bits = width(kind)
    pos, length = pos & 255, length & 255
    for i in range(length):
        if pos + i < bits:
            b = b & ~(1 << pos + i) | (a >> i & 1) << pos + i
    return b


def bfind(a, kind, amount):
    bits = width(kind)
    image = a if a >= 0 else ~a
    if image == 0:
        return -1
    return bits - image.bit_length() if amount else image.bit_length() - 1


def byte_of(both, selector):
    byte = both >> 8 * (selector & 7) & 255
    return (255 if byte & 128 else 0) if selector & 8 else byte


def prmt(a, b, selectors):
    return sum(byte_of(b << 32 | a, selectors >> 4 * i & 15) << 8 * i for i in range(4))


CASES: dict[str, tuple[Case, object]] = {}


def case(name, code, result, sources, reference, extra=""):
    CASES[name] = (Case(name, code, result, sources, extra), reference)


for kind in TYPES:
    bits = width(kind)
    two, three = (kind, kind), (kind, kind, kind)
    untyped = f"b{bits}"
    wide = f"{kind[0]}{bits * 2}"
    case(f"add_{kind}", f"add.{kind} %d, %a, %b;", kind, two, lambda a, b, k=kind: a + b)
    case(f"sub_{kind}", f"sub.{kind} %d, %a, %b;", kind, two, lambda a, b, k=kind: a - b)
    case(f"mul_lo_{kind}", f"mul.lo.{kind} %d, %a, %b;", kind, two, lambda a, b, k=kind: a * b)
    case(f"mul_hi_{kind}", f"mul.hi.{kind} %d, %a, %b;", kind, two, lambda a, b, n=bits: (a * b) >> n)
    case(f"mad_lo_{kind}", f"mad.lo.{kind} %d, %a, %b, %c;", kind, three, lambda a, b, c: a * b + c)
    case(f"mad_hi_{kind}", f"mad.hi.{kind} %d, %a, %b, %c;", kind, three, lambda a, b, c, n=bits: ((a * b) >> n) + c)
    if bits < 64:
        case(f"mul_wide_{kind}", f"mul.wide.{kind} %d, %a, %b;", wide, two, lambda a, b: a * b)
        case(f"mad_wide_{kind}", f"mad.wide.{kind} %d, %a, %b, %c;", wide, (*two, wide), lambda a, b, c: a * b + c)
    case(f"div_{kind}", f"div.{kind} %d, %a, %b;", kind, two, lambda a, b, k=kind: quotient(a, b, k))
    case(f"rem_{kind}", f"rem.{kind} %d, %a, %b;", kind, two, lambda a, b, k=kind: remainder(a, b, k))
    case(f"min_{kind}", f"min.{kind} %d, %a, %b;", kind, two, min)
    case(f"max_{kind}", f"max.{kind} %d, %a, %b;", kind, two, max)
    case(f"sad_{kind}", f"sad.{kind} %d, %a, %b, %c;", kind, three, lambda a, b, c: c + abs(a - b))
    if kind[0] == "s":
        case(f"abs_{kind}", f"abs.{kind} %d, %a;", kind, (kind,), abs)
        case(f"neg_{kind}", f"neg.{kind} %d, %a;", kind, (kind,), lambda a: -a)
    case(f"shr_{kind}", f"shr.{kind} %d, %a, %b;", kind, (kind, "u32"), lambda a, b, k=kind: shifted(a, b, k, False))
    if kind[0] == "u":
        case(
            f"shl_{bits}",
            f"shl.{untyped} %d, %a, %b;",
            kind,
            (kind, "u32"),
            lambda a, b, k=kind: shifted(a, b, k, True),
        )
        case(f"and_{bits}", f"and.{untyped} %d, %a, %b;", kind, two, lambda a, b: a & b)
        case(f"or_{bits}", f"or.{untyped} %d, %a, %b;", kind, two, lambda a, b: a | b)
        case(f"xor_{bits}", f"xor.{untyped} %d, %a, %b;", kind, two, lambda a, b: a ^ b)
        case(f"not_{bits}", f"not.{untyped} %d, %a;", kind, (kind,), lambda a: ~a)
        case(f"cnot_{bits}", f"cnot.{untyped} %d, %a;", kind, (kind,), lambda a: int(a == 0))
    if bits > 16:
        fields = (kind, "u32", "u32")
        case(f"bfe_{kind}", f"bfe.{kind} %d, %a, %b, %c;", kind, fields, lambda a, b, c, k=kind: bfe(a, b, c, k))
        case(f"bfind_{kind}", f"bfind.{kind} %d, %a;", "u32", (kind,), lambda a, k=kind: bfind(a, k, False))
        case(f"bfind_s_{kind}", f"bfind.shiftamt.{kind} %d, %a;", "u32", (kind,), lambda a, k=kind: bfind(a, k, True))
    if kind in ("u32", "u64"):
        case(f"popc_{bits}", f"popc.{untyped} %d, %a;", "u32", (kind,), lambda a: a.bit_count())
        case(f"clz_{bits}", f"clz.{untyped} %d, %a;", "u32", (kind,), lambda a, n=bits: n - a.bit_length())
        case(f"brev_{bits}", f"brev.{untyped} %d, %a;", kind, (kind,), lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2))
        case(
            f"bfi_{bits}",
            f"bfi.{untyped} %d, %a, %b, %c, %e;",
            kind,
            (kind, kind, "u32", "u32"),
            lambda a, b, p, n, k=kind: bfi(a, b, p, n, k),
        )

SATURATED = 1 << 31


def saturate(value):
    return max(-SATURATED, min(SATURATED - 1, value))


case("add_sat", "add.sat.s32 %d, %a, %b;", "s32", ("s32", "s32"), lambda a, b: saturate(a + b))
case("sub_sat", "sub.sat.s32 %d, %a, %b;", "s32", ("s32", "s32"), lambda a, b: saturate(a - b))


def signed24(a, kind):
    a &= 0xFFFFFF
    return a - (1 << 24) if kind == "s32" and a >> 23 else a


for kind in ("u32", "s32"):
    case(
        f"mul24_lo_{kind}",
        f"mul24.lo.{kind} %d, %a, %b;",
        kind,
        (kind, kind),
        lambda a, b, k=kind: signed24(a, k) * signed24(b, k),
    )
    case(
        f"mul24_hi_{kind}",
        f"mul24.hi.{kind} %d, %a, %b;",
        kind,
        (kind, kind),
        lambda a, b, k=kind: (signed24(a, k) * signed24(b, k)) >> 16,
    )
    case(
        f"mad24_lo_{kind}",
        f"mad24.lo.{kind} %d, %a, %b, %c;",
        kind,
        (kind, kind, kind),
        lambda a, b, c, k=kind: signed24(a, k) * signed24(b, k) + c,
    )

for side in "lr":
    for mode in ("clamp", "wrap"):

        def funnel(a, b, n, side=side, mode=mode):
            n = n & 31 if mode == "wrap" else min(n, 32)
            both = b << 32 | a
            return both << n >> 32 if side == "l" else both >> n

        case(f"shf_{side}_{mode}", f"shf.{side}.{mode}.b32 %d, %a, %b, %c;", "u32", ("u32",) * 3, funnel)

for table in (0x00, 0x01, 0x80, 0x96, 0xE8, 0xC0, 0x3C, 0xFF, 0x1B):

    def lop3(a, b, c, table=table):
        return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))

    case(f"lop3_{table:02x}", f"lop3.b32 %d, %a, %b, %c, {table};", "u32", ("u32",) * 3, lop3)

case("prmt", "prmt.b32 %d, %a, %b, %c;", "u32", ("u32",) * 3, prmt)
MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232) * 2,
}
for mode, tables in MODES.items():
    case(
        f"prmt_{mode}",
        f"prmt.b32.{mode} %d, %a, %b, %c;",
        "u32",
        ("u32",) * 3,
        lambda a, b, c, t=tables: prmt(a, b, t[c & 3]),
    )


def lanes(a, signed, count=4):
    size = 32 // count
    values = [a >> size * i & ((1 << size) - 1) for i in range(count)]
    return [value - (1 << size) if signed and value >> (size - 1) else value for value in values]


for x in "us":
    for y in "us":

        def dp4a(a, b, c, x=x, y=y):
            return c + sum(p * q for p, q in zip(lanes(a, x == "s"), lanes(b, y == "s"), strict=True))

        def dp2a(a, b, c, x=x, y=y):
            return c + sum(p * q for p, q in zip(lanes(a, x == "s", 2), lanes(b, y == "s")[2:], strict=True))

        case(f"dp4a_{x}{y}", f"dp4a.{x}32.{y}32 %d, %a, %b, %c;", "u32", ("u32",) * 3, dp4a)
        case(f"dp2a_{x}{y}", f"dp2a.hi.{x}32.{y}32 %d, %a, %b, %c;", "u32", ("u32",) * 3, dp2a)

for x in "us":
    for op, reference in (("add", lambda a, b: a + b), ("min", min), ("max", max)):

        def packed(a, b, x=x, reference=reference):
            pairs = zip(lanes(a, x == "s", 2), lanes(b, x == "s", 2), strict=True)
            low, high = (reference(p, q) & 0xFFFF for p, q in pairs)
            return high << 16 | low

        case(f"{op}_{x}16x2", f"{op}.{x}16x2 %d, %a, %b;", "u32", ("u32",) * 2, packed)

WIDE = ".reg .b32 %l0, %h0, %l1, %h1, %lo, %hi; "
SPLIT = "mov.b64 {%l0, %h0}, %a; mov.b64 {%l1, %h1}, %b; "
case(
    "carry_add",
    SPLIT + "add.cc.u32 %lo, %l0, %l1; addc.u32 %hi, %h0, %h1; mov.b64 %d, {%lo, %hi};",
    "u64",
    ("u64", "u64"),
    lambda a, b: a + b,
    WIDE,
)
case(
    "carry_sub",
    SPLIT + "sub.cc.u32 %lo, %l0, %l1; subc.u32 %hi, %h0, %h1; mov.b64 %d, {%lo, %hi};",
    "u64",
    ("u64", "u64"),
    lambda a, b: a - b,
    WIDE,
)
case(
    "carry_mad",
    SPLIT + "mul.lo.u32 %lo, %l0, %l1; mul.hi.u32 %hi, %l0, %l1; mad.lo.cc.u32 %lo, %l0, %h1, %lo;"
    "madc.hi.u32 %hi, %l0, %h1, %hi; mov.b64 %d, {%lo, %hi};",
    "u64",
    ("u64", "u64"),
    lambda a, b: (a & M) * (b & M) + (a & M) * (b >> 32),
    WIDE,
)
M = 0xFFFFFFFF
case("carry_long", "add.cc.u64 %d, %a, %b; addc.u64 %d, 0, 0;", "u64", ("u64", "u64"), lambda a, b: (a + b) >> 64)
case("borrow_long", "sub.cc.u64 %d, %a, %b; subc.u64 %d, 0, 0;", "u64", ("u64", "u64"), lambda a, b: -(a < b))
case(
    "addc_cc",
    "add.cc.u32 %d, %a, %b; addc.cc.u32 %d, %a, %b; addc.u32 %d, 0, 0;",
    "u32",
    ("u32", "u32"),
    lambda a, b: (a + b + ((a + b) >> 32)) >> 32,
)


AMOUNTS = {"shl": (1,), "shr": (1,), "shf": (2,), "bfe": (1, 2), "bfi": (2, 3)}


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    return Family([row for row, _ in CASES.values()], tmp_path_factory.mktemp("integer"), "integer")


@pytest.mark.parametrize("name", CASES)
def test_instruction(family, name):
    row, reference = CASES[name]
    arrays = [integers(kind, N, seed) for seed, kind in enumerate(row.sources)]
    rng = np.random.default_rng(9)
    for index in AMOUNTS.get(name.partition("_")[0], ()):  # around the width as well as wild ones
        near = rng.integers(0, 70, N)
        arrays[index] = np.where(rng.random(N) < 0.8, near, arrays[index]).astype(np.uint32)
    found = family.run(name, *arrays)
    for values in zip(*(array.tolist() for array in arrays), found.tolist(), strict=True):
        assert values[-1] == wrap(reference(*values[:-1]), row.result), values


def test_fns(tmp_path):
    cases = [Case("fns", "fns.b32 %d, %a, %b, %c;", "u32", ("u32", "u32", "s32"))]
    family = Family(cases, tmp_path, "fns")
    found = family.run("fns", [0b1011, 0b1011, 0b1011, 0b1011, 0b1000], [0, 0, 0, 3, 0], [1, 3, 4, -2, 0])
    assert found.tolist() == [0, 3, M, 1, M]


def test_masks_and_extensions(tmp_path):
    cases = [
        Case("bmsk", "bmsk.clamp.b32 %d, %a, %b;", "u32", ("u32", "u32")),
        Case("szext_u", "szext.clamp.u32 %d, %a, %b;", "u32", ("u32", "u32")),
        Case("szext_s", "szext.wrap.s32 %d, %a, %b;", "s32", ("s32", "u32")),
    ]
    family = Family(cases, tmp_path, "masks")
    assert family.run("bmsk", [0, 4, 31, 32, 8], [4, 8, 5, 1, 40]).tolist() == [15, 0xFF0, 1 << 31, 0, 0xFFFFFF00]
    assert family.run("szext_u", [0xFFFF, 0xFFFF, 7], [8, 40, 0]).tolist() == [0xFF, 0xFFFF, 0]
    assert family.run("szext_s", [0x80, 0x7F, 5], [8, 8, 32]).tolist() == [-128, 127, 0]


def test_lop3_with_a_predicate(tmp_path):
    extra = ".reg .b32 %x; "
    cases = [Case("lop3p", "lop3.or.b32 %x|%d, %a, %b, %b, 0xC0, %c;", "pred", ("u32", "u32", "pred"), extra)]
    family = Family(cases, tmp_path, "lop3p")
    assert family.run("lop3p", [3, 1, 1], [4, 1, 2], [0, 0, 1]).tolist() == [0, 1, 1]
