"""Reads conditions of a policy as formulas (truth.py) over what they compare: signals with the numbers they are
compared with, facts about a tenant with the texts, hours with the minutes of a week.
"""

import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import compress, pairwise, product
from typing import Any

from attrs import define, field

from gpud.policies.check import week
from gpud.policies.check.truth import (
    FALSE,
    OPEN,
    TRUE,
    Budget,
    Cell,
    Formula,
    Key,
    Variable,
    and_,
    atom,
    cells,
    constant,
    not_,
    or_,
    same,
)  # fmt: skip
from gpud.policies.check.walk import parts
from gpud.policies.globs import covers, fits
from gpud.policies.hours import WEEK_MIN
from gpud.policies.ir import (
    Any_,
    Const,
    HoursRead,
    IrEach,
    IrExpr,
    IrPolicy,
    LetRead,
    Op,
    OperatorCall,
    PureCall,
    Read,
    TenantRead,
)  # fmt: skip
from gpud.policies.schema import SIGNALS
from gpud.policies.types import Type

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_MOST_SIZE = 64
"""A let with a longer condition is one thing that may be true or false."""
_MOST_LETS = 12
"""Likewise one that is read through a longer chain of others."""
_CLOCK_STEP_MIN = 180
"""No zone changes its clocks by more in one night; what is `early` may be off by so much then."""
_WEEK = "week"
_WHOLE_NUMBERS = frozenset({"queued", "tenants", "waiters"})


@define
class Space:
    """What has been read for one question. `budget`: of all questions of its kind."""

    policy: IrPolicy
    budget: Budget = field(factory=Budget)
    variables: dict[Key, Variable] = field(factory=dict)
    _lets: dict[Key, Formula] = field(factory=dict)
    _chain: int = 0

    def formula(self, expr: IrExpr, each: IrEach | None = None) -> Formula:
        """Of a condition."""
        expr = self._seen_through(expr, each)
        match expr:
            case Const():
                return OPEN if expr.value is None else constant(expr.value)
            case Any_():
                return constant(True)
            case HoursRead():
                return self.hours(expr.index)
            case Op(op="not"):
                return not_(self.formula(expr.args[0], each))
            case Op(op="and"):
                return and_([self.formula(operand, each) for operand in expr.args])
            case Op(op="or"):
                return or_([self.formula(operand, each) for operand in expr.args])
            case Op(op="in") if expr.args[0].type is not Type.TEXT:
                left, *others = expr.args
                return or_([self.formula(Op("==", (left, other), Type.BOOL), each) for other in others])
            case Op(op="~" | "in"):
                return self._text(expr, each)
            case Op(op="==" | "!=") if expr.args[0].type is Type.BOOL:
                equal = same(self.formula(expr.args[0], each), self.formula(expr.args[1], each))
                return equal if expr.op == "==" else not_(equal)
            case Op() if expr.op in COMPARE:
                return self._text(expr, each) if expr.args[0].type is Type.TEXT else self._numbers(expr, each)
            case LetRead():
                return self._of_let(expr, each)
        return self._truth_of(expr, each)

    def cells(self, formulas: Sequence[Formula], keys: Sequence[Key] | None = None) -> Iterator[Cell] | None:
        """Values to try these formulas with; None if that is too much. Without `keys`: of all that they read, as far as
        it is known; with them: of these only, known or not."""
        work = sum(formula.size for formula in formulas)
        if keys is None:
            every = tuple(dict.fromkeys(key for formula in formulas for key in formula.variables))
            return cells(self.variables, every, work, self.budget)
        return cells(self.variables, keys, work, self.budget, unknown=True)

    def hours(self, index: int, early_ns: int = 0) -> Formula:
        """Do they hold, at a minute of the week?"""
        hours = self.policy.hours[index]
        if not hours.spans:
            return OPEN  # none was right, which has been said
        if not early_ns:
            sure = maybe = week.week_of(hours)
        else:  # time that passes, not time that clocks show: nights when they change are not exact
            sure = week.week_of(hours, max(0, early_ns // 60_000_000_000 - _CLOCK_STEP_MIN))
            maybe = week.week_of(hours, -(-early_ns // 60_000_000_000) + _CLOCK_STEP_MIN)
        self._variable(_WEEK, _minutes, False).points += [minute for part in (*sure, *maybe) for minute in part]

        def at(minute: int) -> int:
            return TRUE if _within(sure, minute) else TRUE | FALSE if _within(maybe, minute) else FALSE

        return atom(_WEEK, at)

    def _variable(self, key: Key, values: Callable[[Variable], list[Any]], may_be_unknown: bool = True) -> Variable:
        return self.variables.setdefault(key, Variable(values, may_be_unknown))

    def _of_let(self, read: LetRead, each: IrEach | None) -> Formula:
        key, inner = self._key(read, each), self._let(read, each)
        if inner is None or self._chain >= _MOST_LETS:
            return self._truth_of(read, each)
        if key not in self._lets:
            self._chain += 1
            formula = self.formula(inner, each)
            self._chain -= 1
            self._lets[key] = formula if formula.size <= _MOST_SIZE else self._truth_of(read, each)
        return self._lets[key]

    def _let(self, read: LetRead, each: IrEach | None) -> IrExpr | None:
        lets = (each.lets if each else ()) if read.tenant else self.policy.lets
        return lets[read.index].value if read.index < len(lets) else None

    def _seen_through(self, expr: IrExpr, each: IrEach | None) -> IrExpr:
        """What a let that only renames something stands for."""
        while isinstance(expr, LetRead):
            inner = self._let(expr, each)
            if not isinstance(inner, Const | Read | HoursRead | LetRead):
                break
            expr = inner
        return expr

    def _truth_of(self, expr: IrExpr, each: IrEach | None) -> Formula:
        if any(isinstance(part, Const) and part.value is None for part in parts(expr)):
            return OPEN
        key = self._key(expr, each)
        self._variable(key, _booleans)
        return atom(key, bool)

    # ---------------------------------------------------------------------------------------------------- numbers

    def _numbers(self, expr: Op, each: IrEach | None) -> Formula:
        left, right, op = *(self._seen_through(operand, each) for operand in expr.args), expr.op
        if isinstance(left, Const):
            left, right, op = right, left, _FLIPPED[op]
        test = COMPARE[op]
        if any(isinstance(part, Const) and part.value is None for side in (left, right) for part in parts(side)):
            return OPEN
        if isinstance(left, Const) and isinstance(right, Const):
            return constant(test(left.value, right.value))
        if isinstance(right, Const):
            key, at = self._key(left, each), right.value
            variable = self._variable(key, _values_of(left))
        else:  # the sign of left - right
            one, other = self._key(left, each), self._key(right, each)
            if repr(other) < repr(one):
                one, other, test = other, one, COMPARE[_FLIPPED[op]]
            key, at = ("sign", one, other), 0
            variable = self._variable(key, _equal if one == other else _any_number)
        variable.points.append(at)
        return atom(key, lambda value: test(value, at))

    # ------------------------------------------------------------------------------------------------------ texts

    def _text(self, expr: Op, each: IrEach | None) -> Formula:
        left, others = self._seen_through(expr.args[0], each), expr.args[1:]
        if isinstance(left, Const) and isinstance(others[0], TenantRead) and expr.op in ("==", "!="):
            left, others = others[0], (left,)
        if not isinstance(left, TenantRead) or not all(isinstance(other, Const) for other in others):
            return self._truth_of(expr, each)
        texts = [other.value for other in others if isinstance(other, Const)]
        key, glob = self._key(left, each), expr.op == "~"
        self._variable(key, _texts, False).points += [(glob, text) for text in texts]
        if glob:
            return atom(key, lambda value: _fits(value, texts[0]))
        members = frozenset(texts)  # a list may be long
        member = atom(key, lambda value: value in members)
        return not_(member) if expr.op == "!=" else member

    # ------------------------------------------------------------------------------------------------------- keys

    def _key(self, expr: IrExpr, each: IrEach | None) -> Hashable:
        """Equal for what has equal values in one tick, wherever it stands."""
        expr = self._seen_through(expr, each)
        match expr:
            case Const():
                return ("const", expr.type.name, expr.value)
            case Read():
                signal = expr.signal
                return ("signal", signal.scope, signal.job_class, signal.name, signal.tenant)
            case LetRead():
                return ("let", each.span if expr.tenant and each else None, expr.index)
            case HoursRead():
                return ("hours", expr.index)
            case TenantRead():
                return ("tenant", expr.field, expr.key, expr.default)
            case Op():
                return (expr.op, *(self._key(operand, each) for operand in expr.args))
            case PureCall():
                return (expr.function, *(self._key(operand, each) for operand in expr.args))
            case OperatorCall():
                return ("operator", expr.identity)
            case _:
                return (type(expr).__name__, expr.span)


# -------------------------------------------------------------------------------------------------- values to be tried


def _booleans(_: Variable) -> list[Any]:
    return [True, False]


def _equal(_: Variable) -> list[Any]:
    return [0]


def _any_number(variable: Variable) -> list[Any]:
    points = sorted(set(variable.points))
    return [points[0] - 1, *_between(points), points[-1], _above(points[-1])]


def _values_of(expr: IrExpr) -> Callable[[Variable], list[Any]]:
    """Of a signal, within what it can be."""
    row = SIGNALS.get((expr.signal.scope, expr.signal.name)) if isinstance(expr, Read) else None
    if row is None or row.name == "temperature":
        return _any_number
    if row.name in _WHOLE_NUMBERS:
        return _counts
    most = 1 if row.name == "busy" else None
    endless = row.name == "idle_for"

    def values(variable: Variable) -> list[Any]:
        points = sorted({0, *variable.points, *((most,) if most else ())})
        found = [*_between(points), points[-1], _above(points[-1])]
        return [
            value
            for value in found
            if value >= 0 and (most is None or value <= most) and (endless or value != float("inf"))
        ]

    return values


def _counts(variable: Variable) -> list[Any]:
    near: set[int] = {0}
    for point in variable.points:
        if point < float("inf"):
            floor = int(point // 1)
            near |= {floor - 1, floor, floor + 1, floor + 2}
    return [value for value in sorted(near) if value >= 0]


def _between(points: list[Any]) -> list[Any]:
    """All but the last, each with something between it and the next."""
    found = []
    for low, high in pairwise(points):
        middle = _above(low) if high == float("inf") else low + (high - low) / 2
        found += [low, middle] if low < middle < high else [low]
    return found


def _above(point: Any) -> Any:
    return max(point + 1, point * 2)


def _minutes(variable: Variable) -> list[Any]:
    return sorted({0, *variable.points} - {WEEK_MIN})


def _within(spans: week.Week, minute: int) -> bool:
    return any(begin <= minute < end for begin, end in spans)


# ---------------------------------------------------------------------------------------------------- texts to be tried

_ANYTHING = object()
"""A text of which it is open what it fits."""


def _texts(variable: Variable) -> list[Any]:
    """The texts compared with, and for other texts a set of the globs they fit."""
    constants = sorted({text for glob, text in variable.points if not glob})
    globs = sorted({text for glob, text in variable.points if glob})
    if len(globs) > 8:
        return [*constants, _ANYTHING]
    fitted = [frozenset(compress(globs, chosen)) for chosen in product((False, True), repeat=len(globs))]
    wider = [(glob, other) for glob in globs for other in globs if glob != other and covers(other, glob)]
    every = [glob for glob in globs if covers(glob, "*")]
    others = [
        one
        for one in fitted
        if all(glob in one for glob in every) and not any(glob in one and other not in one for glob, other in wider)
    ]
    return [*constants, *others]


def _fits(value: Any, glob: str) -> bool | int:
    if value is _ANYTHING:
        return TRUE | FALSE
    return fits(value, glob) if isinstance(value, str) else glob in value
