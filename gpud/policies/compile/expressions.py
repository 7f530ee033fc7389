"""An expression of the language → Python text of the same value.

Unknown is None. `and`, `or` and `not` are three-valued, everything else is unknown if a part of it is; so is what has
no value: something divided by zero, unlimited minus unlimited. Where nothing can be unknown, nothing is looked after.
"""

from gpud.policies.compile.calls import operator_value
from gpud.policies.compile.context import Context, Value
from gpud.policies.globs import fits
from gpud.policies.ir import (
    Any_,
    Const,
    HoursRead,
    IrExpr,
    LetRead,
    Op,
    OperatorCall,
    PureCall,
    Read,
)
from gpud.policies.types import per_second

_SECOND = "1000000000.0"
_COMPARE = frozenset({"==", "!=", "<", "<=", ">", ">="})


def value_of(context: Context, expr: IrExpr) -> Value:
    """May write lines that come first. Raises TypeError for what has no place in a rule."""
    match expr:
        case Const():
            return Value(context.code.constant(expr.value), expr.value is None, True)
        case Read():
            return Value(context.signals[expr.signal], True, True)
        case LetRead():
            lets = context.tenant_lets if expr.tenant else context.lets
            assert lets is not None
            return lets[expr.index]
        case HoursRead():
            return Value(context.hours[expr.index, 0], False, True)
        case Any_():
            return Value("True", False, True)
        case OperatorCall():
            found = context.operators.get(id(expr))
            return operator_value(context, expr, value_of) if found is None else found
        case PureCall():
            return _extreme(context, expr)
        case Op(op="and" | "or"):
            return _logic(context, expr)
        case Op(op="not"):
            inner = value_of(context, expr.args[0])
            if not inner.maybe_unknown:
                return Value(f"(not {inner.code})")
            operand = name_of(context, inner)
            return Value(f"(None if {operand} is None else not {operand})", True)
        case Op():
            return _operation(context, expr)
        case _:
            raise TypeError(f"{type(expr).__name__} has no place in a rule")


def name_of(context: Context, value: Value) -> str:
    """Something to say more than once."""
    return value.code if value.is_name else context.code.temp(value.code)


def named(context: Context, value: Value) -> Value:
    return value if value.is_name else Value(context.code.temp(value.code), value.maybe_unknown, True)


def if_known(values: list[Value], code: str) -> Value:
    """`code`, unless one of these names is None."""
    unknown = dict.fromkeys(value.code for value in values if value.maybe_unknown)
    if not unknown:
        return Value(f"({code})")
    return Value(f"(None if {' or '.join(f'{name} is None' for name in unknown)} else {code})", True)


def _operands(context: Context, args: tuple[IrExpr, ...]) -> list[Value]:
    """Names wherever something may be unknown."""
    found = [value_of(context, arg) for arg in args]
    return [named(context, value) if value.maybe_unknown else value for value in found]


def _logic(context: Context, expr: Op) -> Value:
    values = [value_of(context, arg) for arg in expr.args]
    known = [value.code for value in values if not value.maybe_unknown]
    unknown = [name_of(context, value) for value in values if value.maybe_unknown]
    if not unknown:
        return Value(f"({f' {expr.op} '.join(known)})")
    if expr.op == "and":
        if len(unknown) == 1:  # the last operand decides, so None comes out only if all others are true
            return Value(f"({' and '.join([*known, *unknown])})", True)
        no = [f"not {code}" for code in known] + [f"{name} is False" for name in unknown]
        return Value(f"(False if {' or '.join(no)} else {' and '.join(unknown)})", True)
    none = " or ".join(f"{name} is None" for name in unknown)
    if len(unknown) == 1:
        return Value(f"({' or '.join([*known, *unknown])})", True)
    return Value(f"(True if {' or '.join([*known, *unknown])} else None if {none} else False)", True)


def _operation(context: Context, expr: Op) -> Value:
    values = _operands(context, expr.args)
    codes = [value.code for value in values]
    if expr.op in _COMPARE:
        return if_known(values, f"{codes[0]} {expr.op} {codes[1]}")
    if expr.op == "in":
        return if_known(values, f"{codes[0]} in ({', '.join(codes[1:])},)")
    if expr.op == "~":
        return if_known(values, f"{context.code.use('fits', fits)}({codes[0]}, {codes[1]})")
    return _arithmetic(context, expr, values)


def _arithmetic(context: Context, expr: Op, values: list[Value]) -> Value:
    left, right = expr.args
    a, b = values
    harmless = _is_tame(left) or _is_tame(right)
    maybe_zero = False
    if expr.op == "/":
        harmless = True if _is_tame(right) else _is_finite(left)
        maybe_zero = not _is_tame(right)
        if maybe_zero:
            b = named(context, b)
    elif expr.op in "+-":
        harmless = _is_finite(left) or _is_finite(right)
    code = f"{a.code} {expr.op} {b.code}"
    if expr.op == "*" and not (_is_float(left) or _is_float(right)):
        code = f"1.0 * {code}"  # products of whole numbers know no bound, floats do
    code = _scaled(code, expr)
    if maybe_zero:
        code = f"{code} if {b.code} else None"
    value = if_known([a, b], code)
    if harmless:
        return Value(value.code, value.maybe_unknown or maybe_zero)
    name = context.code.temp(value.code)  # unlimited - unlimited, unlimited * 0: not a number, nor equal to itself
    context.code.line(f"if {name} != {name}: {name} = None")
    return Value(name, True, True)


def _scaled(code: str, expr: Op) -> str:
    left, right = expr.args
    scale = per_second(expr.op, left.type, right.type)
    return f"{code} {'*' if scale > 0 else '/'} {_SECOND}" if scale else code


def _is_finite(expr: IrExpr) -> bool:
    return isinstance(expr, Const) and isinstance(expr.value, int | float) and abs(expr.value) < 1e300


def _is_float(expr: IrExpr) -> bool:
    return isinstance(expr, Const) and isinstance(expr.value, float)


def _is_tame(expr: IrExpr) -> bool:
    """A factor that makes no other value of unlimited than unlimited."""
    return _is_finite(expr) and isinstance(expr, Const) and bool(expr.value)


def _extreme(context: Context, expr: PureCall) -> Value:
    values = [named(context, value) for value in _operands(context, expr.args)]
    if expr.function not in ("min", "max"):
        raise TypeError(f"{expr.function} is not known here")
    code = values[0].code
    for value in values[1:]:
        sign = "<" if expr.function == "min" else ">"
        code = context.code.temp(if_known(values, f"{code} if {code} {sign} {value.code} else {value.code}").code)
    return Value(code, any(value.maybe_unknown for value in values), True)
