"""An expression with its names resolved, its type known and its constants folded. scope.py says how tests use this.

While an expression is resolved, numbers of constants are exact fractions; what is returned holds them as types.py says.
An erroneous part is None, a value of unknown type that silences what would follow from it.
"""

from fractions import Fraction
from typing import Any

from gpud.policies import ast
from gpud.policies.globs import fits
from gpud.policies.ir import Const, IrExpr, Op
from gpud.policies.printer import print_expr
from gpud.policies.quantities import TIME_WORDS, instead_of, kept, read_quantity, show_value, wrong_quantity
from gpud.policies.resolve.arithmetic import COMPARE, ORDERING, Impossible, calculate
from gpud.policies.resolve.scope import Scope
from gpud.policies.resolve.wants import Want, as_wanted, compare_help, instead, is_literal
from gpud.policies.source import Span
from gpud.policies.types import ARITHMETIC, CAPS, Type, per_second
from gpud.policies.values import Share


def resolve(expr: ast.Expr, scope: Scope, want: Want | None = None) -> IrExpr | None:
    """None: reported. With `want`, the result is of that type."""
    found = resolve_exact(expr, scope, want)
    return settled(found) if found is not None else None


def resolve_exact(expr: ast.Expr, scope: Scope, want: Want | None = None) -> IrExpr | None:
    """As `resolve`, but a number that is constant as a whole stays an exact fraction."""
    found = _resolve(expr, scope, want.type if want else None)
    if found is None or want is None:
        return found
    return as_wanted(found, expr, scope, want)


def constant(expr: ast.Expr, scope: Scope, want: Want) -> Const | None:
    """An exact constant of a type; for places where nothing else can be (`scope.place` is fixed)."""
    found = resolve_exact(expr, scope, want)
    if found is None or isinstance(found, Const):
        return found
    message = f"{want.what} can be read from a label, but nothing is calculated with it"
    scope.findings.add("GP209", expr.span, message, helps=("let the function that reads the label stand alone",))
    return None


def settled(expr: IrExpr) -> IrExpr:
    """The expression as programs hold it."""
    if isinstance(expr, Const) and isinstance(expr.value, Fraction):
        return expr.but(value=kept(expr.value, expr.type))
    return expr


# ------------------------------------------------------------------------------------------------------- each kind


def _resolve(expr: ast.Expr, scope: Scope, want: Type | None) -> IrExpr | None:
    match expr:
        case ast.Quantity():
            return _quantity(expr, scope)
        case ast.String():
            return Const(expr.text, Type.TEXT, expr.span)
        case ast.Bool():
            return Const(expr.value, Type.BOOL, expr.span)
        case ast.Unlimited():
            return Const(float("inf"), Type.UNLIMITED, expr.span)
        case ast.Ref():
            return scope.read(expr, want)
        case ast.Call():
            from gpud.policies.resolve.functions import resolve_call

            return resolve_call(expr, scope, want)
        case ast.Listing():
            scope.findings.add("GP202", expr.span, "a list cannot stand here", "a list", helps=("write one value",))
            for item in expr.items:
                _resolve(item, scope, None)
            return None
        case ast.Not():
            operand = _condition(expr.operand, scope, "not")
            if isinstance(operand, Const):
                return Const(not operand.value, Type.BOOL, expr.span)
            return Op("not", (operand,), Type.BOOL, expr.span) if operand is not None else None
        case ast.Logic():
            return _logic(expr, scope)
        case ast.Binary():
            if expr.op == "in":
                return _membership(expr, scope)
            if _is_spaced_rate(expr, scope) or _is_list_compared(expr, scope):
                return None
            left = _resolve(expr.left, scope, None)
            right = _resolve(expr.right, scope, left.type if left is not None else None)
            if left is None or right is None:
                return None
            if expr.op in "+-*/":
                return _arithmetic(expr, left, right, scope)
            return _comparison(expr, left, right, scope)


def _quantity(expr: ast.Quantity, scope: Scope) -> Const | None:
    found = read_quantity(expr.number, expr.unit)
    if found is not None:
        type, value = found
        if type in (Type.DURATION, Type.BYTES) and value.denominator != 1:
            unit = "nanoseconds" if type is Type.DURATION else "bytes"
            near = [show_value(int(value) + more, type) for more in (0, 1) if int(value) + more]
            scope.findings.add(
                "GP501", expr.span, f"{type.value} is kept in whole {unit}", helps=(f"write {' or '.join(near)}",)
            )
            return Const(Fraction(round(value)), type, expr.span)
        return Const(value, type, expr.span)
    wrong = wrong_quantity(expr.number, expr.unit)
    span = Span(expr.span.end - len(expr.unit), expr.span.end) if wrong.unit_only else expr.span
    scope.findings.add(wrong.code, span, wrong.message, helps=(wrong.help,))
    return None


def _condition(expr: ast.Expr, scope: Scope, word: str, before: ast.Expr | None = None) -> IrExpr | None:
    """`before`: the operand before it."""
    found = _resolve(expr, scope, Type.BOOL)
    if found is None or found.type is Type.BOOL:
        return found
    scope.findings.add(
        "GP202", expr.span, f"`{word}` needs a condition, but this is {found.type.value}", found.type.value,
        helps=(_like_before(expr, before) or compare_help(found.type),),
    )  # fmt: skip
    return None


def _like_before(expr: ast.Expr, before: ast.Expr | None) -> str:
    """`user == "a" or "b"`"""
    if not is_literal(expr) or not isinstance(before, ast.Binary) or before.op not in (*COMPARE, "~"):
        return ""
    return f"a comparison has two sides: write {print_expr(before.left)} {before.op} {print_expr(expr)}"


def _logic(expr: ast.Logic, scope: Scope) -> IrExpr | None:
    befores = (None, *expr.operands)
    found = [
        _condition(operand, scope, expr.op, before) for operand, before in zip(expr.operands, befores, strict=False)
    ]
    operands = [operand for operand in found if operand is not None]
    if len(operands) < len(found):
        return None
    decides = expr.op == "or"
    """An operand with this value decides alone, whatever the others are, unknown or not."""
    left = [operand for operand in operands if not isinstance(operand, Const)]
    if any(isinstance(operand, Const) and operand.value is decides for operand in operands):
        return Const(decides, Type.BOOL, expr.span)
    if not left:
        return Const(not decides, Type.BOOL, expr.span)
    return Op(expr.op, tuple(left), Type.BOOL, expr.span) if len(left) > 1 else left[0]


# -------------------------------------------------------------------------------------------------------- arithmetic

_CANNOT = {
    "+": "cannot add {0} and {1}",
    "-": "cannot subtract {1} from {0}",
    "*": "cannot multiply {0} by {1}",
    "/": "cannot divide {0} by {1}",
}


def _arithmetic(expr: ast.Binary, left: IrExpr, right: IrExpr, scope: Scope) -> IrExpr | None:
    for side, ir in ((expr.left, left), (expr.right, right)):
        if ir.type is Type.SHARE:
            scope.findings.add(
                "GP209", side.span, "a share is no number: nothing can be calculated with it", "a share",
                helps=("calculate inside the parentheses: fixed(20% + 10%)",),
            )  # fmt: skip
            return None
        if ir.type is Type.UNLIMITED:
            scope.findings.add(
                "GP202", side.span, "nothing can be calculated with `unlimited`", helps=("write a number instead",)
            )
            return None
    type = ARITHMETIC.get((expr.op, left.type, right.type))
    if type is None:
        _report_arithmetic(expr, left, right, scope)
        return None
    if isinstance(left, Const) and isinstance(right, Const) and left.value is not None and right.value is not None:
        try:
            return Const(
                calculate(expr.op, left.value, right.value, per_second(expr.op, left.type, right.type)), type, expr.span
            )
        except Impossible as why:
            scope.findings.add("GP206", expr.span, str(why))
            return None
    if expr.op == "/" and isinstance(right, Const) and right.value == 0:
        scope.findings.add("GP206", expr.right.span, "this divides by zero")
        return None
    return Op(expr.op, (settled(left), settled(right)), type, expr.span)


def _report_arithmetic(expr: ast.Binary, left: IrExpr, right: IrExpr, scope: Scope) -> None:
    primary, other = (expr.left, expr.right) if _bare(expr.left) else (expr.right, expr.left)
    types = {id(expr.left): left.type, id(expr.right): right.type}
    helps: tuple[str, ...] = ()
    sides = (left.type, right.type)
    if not all(type in CAPS for type in sides):
        helps = ("only numbers and quantities can be calculated with",)
    elif expr.op in "+-":
        wanted = types[id(other)]
        helps = (instead(primary, wanted) if _bare(primary) else "both sides must be of one kind",)
    else:
        *some, last = (type.value for op, of, type in ARITHMETIC if (op, of) == (expr.op, left.type))
        helps = (f"{'multiply' if expr.op == '*' else 'divide'} by {', '.join(some)} or {last}",)
    scope.findings.add(
        "GP202",
        primary.span,
        _CANNOT[expr.op].format(left.type.value, right.type.value),
        types[id(primary)].value,
        also=((other.span, types[id(other)].value),),
        helps=helps,
    )


def _is_spaced_rate(expr: ast.Binary, scope: Scope) -> bool:
    """`2000 / s`, `2000/sec`: a rate that is not written as one. Reports it."""
    left, right = expr.left, expr.right
    if expr.op != "/" or not isinstance(right, ast.Ref) or not (isinstance(left, ast.Quantity) and not left.unit):
        return False
    word = right.text
    if word not in TIME_WORDS or word in scope.names():
        return False
    scope.findings.add("GP103", expr.span, f"unknown unit `/{word}`", helps=(instead_of(f"/{word}", left.number),))
    return True


def _bare(expr: ast.Expr) -> bool:
    """A number without a unit, as written."""
    return isinstance(expr, ast.Quantity) and not expr.unit


# -------------------------------------------------------------------------------------------------------- comparison


def _comparison(expr: ast.Binary, left: IrExpr, right: IrExpr, scope: Scope) -> IrExpr | None:
    if expr.op == "~":
        return _glob(expr, left, right, scope)
    if left.type is Type.UNLIMITED and right.type in CAPS and isinstance(left, Const):
        left = left.but(type=right.type)
    elif right.type is Type.UNLIMITED and left.type in CAPS and isinstance(right, Const):
        right = right.but(type=left.type)
    if left.type is not right.type:
        _report_comparison(expr, left, right, scope)
        return None
    if expr.op in ORDERING and left.type not in CAPS | {Type.UNLIMITED}:
        scope.findings.add(
            "GP202", expr.op_span, f"{_many(left.type)} can only be compared with `==` and `!=`",
            helps=("write `==`, `!=`, or a condition",),
        )  # fmt: skip
        return None
    if isinstance(left, Const) and isinstance(right, Const) and left.value is not None and right.value is not None:
        return Const(bool(COMPARE[expr.op](left.value, right.value)), Type.BOOL, expr.span)
    return Op(expr.op, (settled(left), settled(right)), Type.BOOL, expr.span)


def _is_list_compared(expr: ast.Binary, scope: Scope) -> bool:
    """`label("t") == ["a", "b"]`; reports it."""
    if expr.op not in ("==", "!=") or not isinstance(expr.right, ast.Listing):
        return False
    _resolve(expr.left, scope, None)
    negated = "not " if expr.op == "!=" else ""
    scope.findings.add(
        "GP202", expr.right.span, f"`{expr.op}` compares with one value", "a list",
        helps=(f"write `{negated}{print_expr(expr.left)} in {print_expr(expr.right)}`",),
    )  # fmt: skip
    return True


def _many(type: Type) -> str:
    return {
        Type.BOOL: "conditions", Type.TEXT: "texts", Type.SHARE: "shares", Type.RESIDENCY: "places for memory",
        Type.CLASS: "classes",
    }.get(type, "these values")  # fmt: skip


def _report_comparison(expr: ast.Binary, left: IrExpr, right: IrExpr, scope: Scope) -> None:
    for side in (expr.left, expr.right):
        if isinstance(side, ast.Binary) and side.op in (*COMPARE, "~"):
            scope.findings.add(
                "GP202", expr.op_span, "comparisons do not chain", helps=("write two, joined by `and`",),
                also=((side.op_span, "already compared here"),),
            )  # fmt: skip
            return
    primary, other, is_type, other_type = expr.right, expr.left, right.type, left.type
    if is_literal(expr.left) and not is_literal(expr.right):
        primary, other, is_type, other_type = other, primary, other_type, is_type
    scope.findings.add(
        "GP202",
        primary.span,
        f"cannot compare {left.type.value} with {right.type.value}",
        is_type.value,
        also=((other.span, other_type.value),),
        helps=(instead(primary, other_type),),
    )


def _glob(expr: ast.Binary, left: IrExpr, right: IrExpr, scope: Scope) -> IrExpr | None:
    for side, ir in ((expr.left, left), (expr.right, right)):
        if ir.type is not Type.TEXT:
            scope.findings.add(
                "GP202", side.span, f"`~` matches a text against a pattern, but this is {ir.type.value}",
                ir.type.value, helps=('for example exe ~ "*/python*"',),
            )  # fmt: skip
            return None
    if not isinstance(right, Const):
        scope.findings.add(
            "GP202", expr.right.span, "the pattern after `~` must be a constant text",
            helps=('for example exe ~ "*/python*"',),
        )  # fmt: skip
        return None
    if isinstance(left, Const) and left.value is not None and right.value is not None:
        return Const(fits(left.value, right.value), Type.BOOL, expr.span)
    return Op("~", (left, right), Type.BOOL, expr.span)


def _membership(expr: ast.Binary, scope: Scope) -> IrExpr | None:
    left = _resolve(expr.left, scope, None)
    items = expr.right.items if isinstance(expr.right, ast.Listing) else (expr.right,)
    hint = left.type if left is not None else None
    found: list[Any] = [_resolve(item, scope, hint) for item in items]
    if left is None or None in found:
        return None
    if not items:
        scope.findings.add("GP202", expr.right.span, "nothing is in an empty list", helps=("name at least one value",))
        return None
    for item, ir in zip(items, found, strict=True):
        if ir.type is not left.type or isinstance(left.value if isinstance(left, Const) else None, Share):
            scope.findings.add(
                "GP202", item.span, f"cannot compare {left.type.value} with {ir.type.value}", ir.type.value,
                also=((expr.left.span, left.type.value),), helps=(instead(item, left.type),),
            )  # fmt: skip
            return None
    if isinstance(left, Const) and all(isinstance(ir, Const) for ir in found):
        return Const(any(ir.value == left.value for ir in found), Type.BOOL, expr.span)
    return Op("in", (settled(left), *(settled(ir) for ir in found)), Type.BOOL, expr.span)
