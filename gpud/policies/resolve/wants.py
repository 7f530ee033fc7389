"""What is expected of a value, and what to write where something else stands."""

from typing import NamedTuple

from gpud.policies import ast
from gpud.policies.ir import Const, IrExpr
from gpud.policies.quantities import read_quantity, show_value
from gpud.policies.resolve.scope import Scope
from gpud.policies.types import CAPS, EXAMPLES, Type
from gpud.policies.values import RESIDENCIES


class Want(NamedTuple):
    """What is expected of a value."""

    what: str
    """Who expects it: "`low.max_launch_rate`"."""
    type: Type
    unlimited: bool = False
    """`unlimited` fits as well."""
    help: str = ""
    """Instead of an example of the type."""


def as_wanted(found: IrExpr, expr: ast.Expr, scope: Scope, want: Want) -> IrExpr | None:
    """The same if it is of the type that is wanted; else it is reported."""
    if found.type is want.type:
        if want.unlimited or not _is_unlimited(found):
            return found
        scope.findings.add("GP206", expr.span, f"{want.what} cannot be `unlimited`", helps=(_example(want, expr),))
        return None
    if found.type is Type.UNLIMITED:
        if want.unlimited and want.type in CAPS:
            return found.but(type=want.type) if isinstance(found, Const) else found
        if want.type in CAPS:
            scope.findings.add("GP206", expr.span, f"{want.what} cannot be `unlimited`", helps=(_example(want, expr),))
            return None
    if isinstance(expr, ast.Quantity) and not expr.unit and want.type in CAPS:
        named = _with_unit(expr.number, want.type)
        message = f"{want.what} needs {want.type.value}, and `{expr.number}` has no unit"
        scope.findings.add("GP103", expr.span, message, helps=(f"write for example {named}",))
        return None
    message = f"{want.what} needs {want.type.value}, but this is {found.type.value}"
    helped = _example(want, expr)
    if want.type is Type.BOOL and not want.help and found.type in CAPS and not is_literal(expr):
        helped = compare_help(found.type)
    scope.findings.add("GP202", expr.span, message, found.type.value, helps=(helped,))
    return None


def _is_unlimited(found: IrExpr) -> bool:
    return isinstance(found, Const) and found.value == float("inf")


def _example(want: Want, expr: ast.Expr) -> str:
    if want.help:
        return want.help
    if bare := _without_quotes(expr, want.type):
        return bare
    if want.type is Type.BOOL:
        return "write true, false or a condition"
    if want.type is Type.SHARE:
        if isinstance(expr, ast.Quantity) and expr.unit == "%":
            return f"write fixed({expr.number}%)"
        return "write fixed(30%), weight(2), equal or burst(weight = 2)"
    return f"for example {EXAMPLES[want.type]}" if want.type in EXAMPLES else ""


_WORDS_OF = {Type.BOOL: ("true", "false"), Type.RESIDENCY: RESIDENCIES}


def _without_quotes(expr: ast.Expr, type: Type) -> str:
    """Of a text where a word is meant; "" of anything else."""
    if isinstance(expr, ast.String) and (type is Type.CLASS or expr.text in _WORDS_OF.get(type, ())):
        return f"a word stands without quotes: write {expr.text}"
    return ""


def _as_percentage(number: str) -> str:
    """What is meant by a number without `%`: 0.3 and 1.5 are factors."""
    found = read_quantity(number, "")
    return show_value(found[1], Type.RATIO) if found is not None and 0 < found[1] <= 2 else f"{number}%"


def _with_unit(number: str, type: Type) -> str:
    if type is Type.RATIO:
        return _as_percentage(number)
    units = {
        Type.DURATION: ("ms", "s"), Type.BYTES: ("MiB", "GiB"), Type.RATE: ("/s",),
        Type.BANDWIDTH: ("MiB/s", "GiB/s"),
    }.get(type, ("",))  # fmt: skip
    return " or ".join(f"{number}{unit}" for unit in units)


def compare_help(type: Type) -> str:
    sample = EXAMPLES.get(type)
    return f"compare it, for example with `> {sample}`" if type in CAPS else f"compare it with `== {sample or '…'}`"


def instead(literal: ast.Expr, type: Type) -> str:
    """What could stand instead of a literal of the wrong type."""
    if type is Type.TEXT and isinstance(literal, ast.Quantity):
        return f'write "{literal.number}{literal.unit}"'
    if bare := _without_quotes(literal, type):
        return bare
    if type is Type.BOOL:
        return "a condition is compared with true or false, or stands alone"
    if type is Type.RATIO and isinstance(literal, ast.Quantity) and not literal.unit:
        return f"write a percentage such as {_as_percentage(literal.number)}"
    return f"write {type.value} such as {EXAMPLES[type]}" if type in EXAMPLES else f"compare it with {type.value}"


def is_literal(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Quantity | ast.String | ast.Bool | ast.Unlimited)
