"""`match`: which class takes a tenant. Decided once, so it is computed from the tree as it is."""

import re
from typing import Any

from gpud.policies.globs import fits
from gpud.policies.ir import Any_, Const, IrClass, IrExpr, IrPolicy, Op, PureCall, TenantRead
from gpud.policies.quantities import kept, read_quantity
from gpud.policies.tenants import TenantFacts
from gpud.policies.types import Type

_QUANTITY = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)([A-Za-z%]+)")
_LONGEST = 32
_FORMS = {
    "label_bytes": (Type.BYTES, "an amount of memory such as 8GiB"),
    "label_percent": (Type.RATIO, "a percentage such as 15%"),
}


class BadLabel(ValueError):
    """A label that cannot be read as a policy needs it. The text has key, value and the right form."""


def classify(ir: IrPolicy, facts: TenantFacts) -> IrClass | None:
    """First match wins, top to bottom; None: no class takes it. Raises BadLabel."""
    for job_class in ir.classes:
        if _value(job_class.match, facts) is True:
            return job_class
    return None


def _value(expr: IrExpr, facts: TenantFacts) -> Any:
    """None: unknown, an amount in a label that is not there."""
    match expr:
        case Any_():
            return True
        case Const():
            return expr.value
        case TenantRead():
            return _read(expr, facts)
        case Op(op="and"):
            return _all([_value(arg, facts) for arg in expr.args])
        case Op(op="or"):
            found = _all([_not(_value(arg, facts)) for arg in expr.args])
            return _not(found)
        case Op(op="not"):
            return _not(_value(expr.args[0], facts))
        case Op() | PureCall():
            values = [_value(arg, facts) for arg in expr.args]
            return None if None in values else _apply(expr, values)
    raise TypeError(f"{type(expr).__name__} has no place in `match`")


def _all(values: list[Any]) -> bool | None:
    return False if False in values else None if None in values else True


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _apply(expr: Op | PureCall, values: list[Any]) -> Any:
    match expr.function if isinstance(expr, PureCall) else expr.op:
        case "==":
            return values[0] == values[1]
        case "!=":
            return values[0] != values[1]
        case "<":
            return values[0] < values[1]
        case "<=":
            return values[0] <= values[1]
        case ">":
            return values[0] > values[1]
        case ">=":
            return values[0] >= values[1]
        case "in":
            return values[0] in values[1:]
        case "~":
            return fits(values[0], values[1])
        case "+":
            return values[0] + values[1]
        case "-":
            return values[0] - values[1]
        case "*":
            return values[0] * values[1]
        case "/":
            return values[0] / values[1] if values[1] else None
        case "min":
            return min(values)
        case "max":
            return max(values)
    raise TypeError(f"{expr} has no place in `match`")


def _read(read: TenantRead, facts: TenantFacts) -> Any:
    if read.field == "label":
        return facts.labels.get(read.key, "")
    if read.field not in _FORMS:
        return getattr(facts, read.field)
    if read.key not in facts.labels:
        return read.default
    type, form = _FORMS[read.field]
    text = facts.labels[read.key]
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    quantity = read_quantity(*found.groups()) if found else None
    if quantity is None or quantity[0] is not type:
        raise BadLabel(f"the label {read.key}={text} is not {form}")
    return kept(quantity[1], type)
