"""When the body of a rule may be in force, and which two never are at once.

A `when` comes into force where its condition is true and its `until` is not; it stays while the condition (or what
ends it) is not known to say otherwise. If neither of two can come into force where the other stays, they never meet:
the moment both were in force for the first time, one of them had just come.
"""

from typing import NamedTuple

from gpud.policies.check.space import Space
from gpud.policies.check.truth import FALSE, NOT_TRUE, TRUE, UNKNOWN, Cell, Formula
from gpud.policies.check.walk import Path, Step, conditions, parts
from gpud.policies.ir import Const, IrEach


class Holding(NamedTuple):
    """What must be possible for a body to come into force, and to stay so: pairs of a condition and truths it may
    have then."""

    enters: tuple[tuple[Formula, int], ...]
    stays: tuple[tuple[Formula, int], ...]

    @property
    def formulas(self) -> tuple[Formula, ...]:
        return tuple(formula for formula, _ in (*self.enters, *self.stays))


def holding(space: Space, step: Step, each: IrEach | None) -> Holding:
    rule, otherwise = step
    if rule.hours is not None:
        hours = ((space.hours(rule.hours, rule.early_ns), FALSE if otherwise else TRUE),)
        return Holding(hours, hours)
    if rule.condition is None:
        return Holding((), ())
    condition = space.formula(rule.condition.condition, each)
    until = space.formula(rule.until.condition, each) if rule.until else None
    if otherwise:
        if rule.condition.for_ns > 0 or until is not None:
            return Holding((), ())  # in force until the condition has held for long enough, whatever it is
        return Holding(((condition, FALSE),), ((condition, NOT_TRUE),))
    if until is None:
        return Holding(((condition, TRUE),), ((condition, TRUE | UNKNOWN),))
    going = ((until, NOT_TRUE),)
    delayed = rule.until is not None and rule.until.for_ns > 0
    return Holding(((condition, TRUE), *going), () if delayed else going)


def possible(pairs: tuple[tuple[Formula, int], ...], cell: Cell) -> bool:
    return all(formula.truth(cell) & truths for formula, truths in pairs)


def exclusive(space: Space, one: Path, other: Path, each: IrEach | None = None) -> bool:
    """Is it sure that the innermost bodies of these paths are never in force at once? False where one encloses the
    other."""
    common = 0
    while common < min(len(one), len(other)) and _same(one[common], other[common]):
        common += 1
    one, other = one[common:], other[common:]
    if not one or not other:
        return False
    if one[0].rule is other[0].rule:
        return True  # a rule and its `else`
    if not all(_is_resolved(space, step) for step in (*one, *other)):
        return True  # that has been reported, and more cannot be said
    return any(
        _never_both(space, left, right, each)
        for i, left in enumerate(one)
        for j, right in enumerate(other)
        # An `else` begins with the body around it, even if the condition is not known: siblings begin together.
        if not (i or j) or not (_is_open_else(left) or _is_open_else(right))
    )


def _is_resolved(space: Space, step: Step) -> bool:
    if step.rule.hours is not None:
        return bool(space.policy.hours[step.rule.hours].spans)
    return step.rule.condition is not None and not any(
        isinstance(part, Const) and part.value is None
        for condition in conditions(step.rule)
        for part in parts(condition)
    )


def _same(one: Step, other: Step) -> bool:
    return one.rule is other.rule and one.otherwise == other.otherwise


def _is_open_else(step: Step) -> bool:
    return step.otherwise and step.rule.hours is None


def _never_both(space: Space, left: Step, right: Step, each: IrEach | None) -> bool:
    one, other = holding(space, left, each), holding(space, right, each)
    shared = _shared(one, other)
    if not shared:
        return False
    tried = space.cells((*one.formulas, *other.formulas), shared)
    return tried is not None and not any(
        (possible(one.enters, cell) and possible(other.stays, cell))
        or (possible(other.enters, cell) and possible(one.stays, cell))
        for cell in tried
    )


def _shared(one: Holding, other: Holding) -> list[object]:
    theirs = {key for formula in other.formulas for key in formula.variables}
    return list(dict.fromkeys(key for formula in one.formulas for key in formula.variables if key in theirs))
