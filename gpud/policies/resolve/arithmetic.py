"""Calculation with constants, exactly. Infinite stands for `unlimited`."""

import math
import operator
from fractions import Fraction

from gpud.policies.quantities import LARGEST

Exact = Fraction | float
"""A fraction; as a float only infinite."""

_FINEST = 2**200
_SECOND = Fraction(10**9)
COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ORDERING = ("<", "<=", ">", ">=")


class Impossible(Exception):
    """No value comes out; the text says why, as a message does."""


def calculate(op: str, left: Exact, right: Exact, seconds: int = 0) -> Exact:
    """`+ - * /`; `seconds` as types.per_second says. Raises Impossible."""
    if op == "/" and not right:
        raise Impossible("this divides by zero")
    if isinstance(left, float) or isinstance(right, float):
        return _with_unlimited(op, left, right)
    if op == "+":
        value = left + right
    elif op == "-":
        value = left - right
    elif op == "*":
        value = left * right
    else:
        value = left / right
    value = value * _SECOND**seconds if seconds else value
    if abs(value) > LARGEST:
        raise Impossible("this comes to more than gpud can keep")
    if value.denominator > _FINEST:  # long products of fractions must not become slow
        value = Fraction(round(value * _FINEST), _FINEST)
    return value


def _with_unlimited(op: str, left: Exact, right: Exact) -> Exact:
    both = math.isinf(left) and math.isinf(right)
    if both and op in "-/":
        raise Impossible(f"`unlimited` {op} `unlimited` has no value")
    if op == "*" and not (left and right):
        return Fraction(0)
    if op == "/" and math.isinf(right):
        return Fraction(0)
    negative = {"+": False, "-": math.isinf(right), "*": (left < 0) != (right < 0), "/": (left < 0) != (right < 0)}[op]
    if negative:
        raise Impossible("this comes to less than nothing")
    return math.inf
