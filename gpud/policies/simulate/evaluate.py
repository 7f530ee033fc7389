"""The value of an expression of a test: three-valued, as in rules. None is unknown."""

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from gpud.policies.globs import fits
from gpud.policies.ir import Const, HoursRead, IrExpr, LetRead, Observed, Op, PureCall, Read
from gpud.policies.resolve.arithmetic import COMPARE
from gpud.policies.types import per_second

Reading = Read | LetRead | HoursRead | Observed
Look = Callable[[Reading], Any]
"""What is there now."""
_SECOND = 1_000_000_000.0

_CALCULATE: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "/": operator.truediv}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {**COMPARE, "~": fits}


def evaluate(expr: IrExpr, look: Look) -> Any:
    match expr:
        case Const():
            return expr.value
        case Read() | LetRead() | HoursRead() | Observed():
            return look(expr)
        case Op(op="and" | "or"):
            return _logic(expr, look)
        case Op(op="not"):
            value = evaluate(expr.args[0], look)
            return None if value is None else not value
        case Op(op="+" | "-" | "*" | "/"):
            return _arithmetic(expr, *(evaluate(arg, look) for arg in expr.args))
        case Op():
            return _comparison(expr.op, [evaluate(arg, look) for arg in expr.args])
        case PureCall(function="min" | "max"):
            values = [evaluate(arg, look) for arg in expr.args]
            if None in values:
                return None
            return min(values) if expr.function == "min" else max(values)
    raise TypeError(f"{type(expr).__name__} cannot stand in a test")


def _logic(expr: Op, look: Look) -> Any:
    decides = expr.op == "or"
    unknown = False
    for arg in expr.args:
        value = evaluate(arg, look)
        if value is None:
            unknown = True
        elif value is decides:
            return decides
    return None if unknown else not decides


def _arithmetic(expr: Op, left: Any, right: Any) -> Any:
    """None too where no value comes out: something by zero, unlimited less unlimited."""
    if left is None or right is None or (expr.op == "/" and not right):
        return None
    # Products of whole numbers know no bound, floats do.
    result = 1.0 * left * right if expr.op == "*" else _CALCULATE[expr.op](left, right)
    scale = per_second(expr.op, expr.args[0].type, expr.args[1].type)
    if scale:
        result = result * _SECOND if scale > 0 else result / _SECOND
    return None if math.isnan(result) else result


def _comparison(op: str, values: list[Any]) -> bool | None:
    if None in values:
        return None
    return values[0] in values[1:] if op == "in" else _COMPARE[op](values[0], values[1])


def readings(expr: IrExpr) -> Iterator[Reading]:
    """What it reads, in text order, twice what stands there twice."""
    match expr:
        case Read() | LetRead() | HoursRead() | Observed():
            yield expr
        case Op() | PureCall():
            for arg in expr.args:
                yield from readings(arg)
