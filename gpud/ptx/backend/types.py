"""Scalar types of PTX and the C types that hold them."""

from __future__ import annotations

from typing import NamedTuple


class Scalar(NamedTuple):
    """`kind` is u, s, b (bits), f (f32, f64), h (f16), e (bf16) or p (predicate)."""

    kind: str
    bits: int

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def floating(self) -> bool:
        return self.kind in "fhe"

    @property
    def signed(self) -> bool:
        return self.kind == "s"

    @property
    def c(self) -> str:
        """The C type of a value of this type; halves are carried as their 16 bits."""
        if self.kind == "f":
            return "float" if self.bits == 32 else "double"
        if self.kind == "p":
            return "uint8_t"
        if self.bits == 128:
            return "unsigned __int128"
        return f"{'int' if self.kind == 's' else 'uint'}{self.bits}_t"

    @property
    def short(self) -> str:
        """For names of helper functions: u32, s64, f32, ..."""
        return f"{'u' if self.kind == 'b' else self.kind}{self.bits}"

    def __str__(self) -> str:
        return {"h16": "f16", "e16": "bf16", "p1": "pred", "h32": "f16x2", "e32": "bf16x2"}.get(
            f"{self.kind}{self.bits}", f"{self.kind}{self.bits}"
        )


SCALARS: dict[str, Scalar] = {
    **{f"{kind}{bits}": Scalar(kind, bits) for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": Scalar("b", 128),
    "f32": Scalar("f", 32),
    "f64": Scalar("f", 64),
    "f16": Scalar("h", 16),
    "bf16": Scalar("e", 16),
    "f16x2": Scalar("h", 32),
    "bf16x2": Scalar("e", 32),
    "pred": Scalar("p", 1),
}

U8, U16, U32, U64 = (SCALARS[f"u{bits}"] for bits in (8, 16, 32, 64))
S32, S64 = SCALARS["s32"], SCALARS["s64"]
B16, B32, B64, B128 = (SCALARS[f"b{bits}"] for bits in (16, 32, 64, 128))
F32, F64, F16, BF16 = SCALARS["f32"], SCALARS["f64"], SCALARS["f16"], SCALARS["bf16"]
PRED = SCALARS["pred"]


def register_image(scalar: Scalar) -> Scalar:
    """How a register of that declared type is held in C: unsigned bits, float, double or a predicate."""
    if scalar.kind in "fp":
        return scalar
    return Scalar("u", scalar.bits)


def literal(value: int, scalar: Scalar) -> str:
    """A C constant of `value` taken modulo the type's width."""
    bits = 64 if scalar.bits > 64 else scalar.bits
    value &= (1 << bits) - 1
    if scalar.signed and value >> (bits - 1):
        value -= 1 << bits
    if bits == 64:
        if scalar.signed:
            return "INT64_MIN" if value == -(1 << 63) else f"INT64_C({value})"
        return f"UINT64_C({value})"
    if bits == 32:
        if scalar.signed:
            return "INT32_MIN" if value == -(1 << 31) else f"({value})"
        return f"{value}u"
    return f"({scalar.c})({value})"


def float_literal(image: int, bits: int) -> str:
    """A C expression of exactly that bit pattern."""
    if bits == 32:
        exponent, fraction = image >> 23 & 0xFF, image & 0x7FFFFF
        if exponent == 0xFF:
            return f"gp_f32(0x{image:08x}u)"
        sign = "-" if image >> 31 else ""
        if exponent == 0:
            return f"({sign}0x0.{fraction << 1:06x}p-126f)" if fraction else f"({sign}0.0f)"
        return f"({sign}0x1.{fraction << 1:06x}p{exponent - 127}f)"
    exponent, fraction = image >> 52 & 0x7FF, image & ((1 << 52) - 1)
    if exponent == 0x7FF:
        return f"gp_f64(UINT64_C(0x{image:016x}))"
    sign = "-" if image >> 63 else ""
    if exponent == 0:
        return f"({sign}0x0.{fraction:013x}p-1022)" if fraction else f"({sign}0.0)"
    return f"({sign}0x1.{fraction:013x}p{exponent - 1023})"
