"""Floating point by exact fractions: what IEEE 754 says a result must be, in every rounding mode."""

from __future__ import annotations

import math
from fractions import Fraction

PRECISION = {"f16": (11, -14, 15), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}


def rounded(exact: Fraction, kind: str, mode: str = "rn") -> float:
    """`exact` (not zero) rounded to the format: rn, rz, rm or rp."""
    digits, low, high = PRECISION[kind]
    negative = exact < 0
    size = -exact if negative else exact
    exponent = max(_log2(size), low)
    quantum = Fraction(2) ** (exponent - digits + 1)
    units, rest = divmod(size, quantum)
    if rest and _up(rest / quantum, int(units), negative, mode):
        units += 1
    found = units * quantum
    limit = (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** high
    if found > limit:
        outwards = mode == "rn" or mode == ("rm" if negative else "rp")
        value = math.inf if outwards else float(limit)
    else:
        value = float(found)
    return -value if negative else value


def _log2(size: Fraction) -> int:
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if Fraction(2) ** guess <= size else guess - 1


def _up(rest: Fraction, units: int, negative: bool, mode: str) -> bool:
    if mode == "rn":
        return rest > Fraction(1, 2) or (rest == Fraction(1, 2) and units % 2 == 1)
    return mode == ("rm" if negative else "rp")


def operation(name: str, kind: str, mode: str, *values: float) -> float:
    """add, sub, mul, div, fma of finite or infinite values; NaN where IEEE says so."""
    if name == "sub":
        name, values = "add", (values[0], -values[1])
    if any(math.isnan(value) or math.isinf(value) for value in values) or (name == "div" and values[1] == 0):
        return _special(name, values)
    exact = _exact(name, values)
    if exact:
        return rounded(exact, kind, mode)
    return _zero(name, mode, values)


def _exact(name: str, values: tuple[float, ...]) -> Fraction:
    a, b, *c = map(Fraction, values)
    return {"add": lambda: a + b, "mul": lambda: a * b, "div": lambda: a / b, "fma": lambda: a * b + c[0]}[name]()


def _sign(value: float) -> int:
    return -1 if math.copysign(1, value) < 0 else 1


def _special(name: str, values: tuple[float, ...]) -> float:
    if any(map(math.isnan, values)):
        return math.nan
    a, b = values[:2]
    if name == "add":
        return a + b
    if name == "div":
        if b == 0:
            return math.nan if a == 0 else _sign(a) * _sign(b) * math.inf
        return a / b
    product = math.nan if (a == 0 or b == 0) and (math.isinf(a) or math.isinf(b)) else None
    if product is None:
        product = _sign(a) * _sign(b) * (math.inf if math.isinf(a) or math.isinf(b) else 1.0)
    return product + values[2] if name == "fma" else product


def _zero(name: str, mode: str, values: tuple[float, ...]) -> float:
    signs = [_sign(value) for value in values]
    if name in ("mul", "div"):
        return math.copysign(0.0, signs[0] * signs[1])
    parts = (signs[0] * signs[1], signs[2]) if name == "fma" else (signs[0], signs[1])
    both_zero = (values[0] == 0 or values[1] == 0) and values[2] == 0 if name == "fma" else values[0] == values[1] == 0
    if both_zero and parts[0] == parts[1]:
        return math.copysign(0.0, parts[0])
    return -0.0 if mode == "rm" else 0.0
