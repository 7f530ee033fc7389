"""Conditions as functions of what they read, over a few values that stand for all: enough to prove that two cannot
hold at once, or that one never does.

A truth here is a set of possible truths, as bits: what depends on things left open may be any of them.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from attrs import define, field

TRUE, FALSE, UNKNOWN = 1, 2, 4
ANY = TRUE | FALSE | UNKNOWN
NOT_TRUE = FALSE | UNKNOWN
MOST_WORK = 1 << 15
"""Atoms looked at for one question; where it would take more, nothing is proved."""
MOST_WORK_IN_ALL = 1 << 18
"""For one kind of question about one policy."""

Key = Hashable
Cell = Mapping[Key, Any]
"""A value for some variables; None: not known. Those without a value may have any."""


def negate(truth: int) -> int:
    return truth & UNKNOWN | (truth & TRUE) << 1 | (truth & FALSE) >> 1


def _both(left: int, right: int) -> int:
    truth = 0
    if left & TRUE and right & TRUE:
        truth |= TRUE
    if left & FALSE or right & FALSE:
        truth |= FALSE
    if (left & UNKNOWN and right & (TRUE | UNKNOWN)) or (left & TRUE and right & UNKNOWN):
        truth |= UNKNOWN
    return truth


_BOTH = tuple(tuple(_both(left, right) for right in range(8)) for left in range(8))


class Formula(NamedTuple):
    """A condition."""

    variables: tuple[Key, ...]
    """That it depends on, each once."""
    size: int
    """How much an evaluation looks at, and more than it is deep."""
    truth: Callable[[Cell], int]


def constant(value: bool | None) -> Formula:
    truth = UNKNOWN if value is None else TRUE if value else FALSE
    return Formula((), 1, lambda _: truth)


OPEN = Formula((), 1, lambda _: ANY)
"""Nothing is known of it."""


def atom(key: Key, test: Callable[[Any], bool | int]) -> Formula:
    """`test` of the value; it may answer with a set of truths."""

    def truth(cell: Cell) -> int:
        if key not in cell:
            return ANY
        value = cell[key]
        if value is None:
            return UNKNOWN
        answer = test(value)
        return (TRUE if answer else FALSE) if isinstance(answer, bool) else answer

    return Formula((key,), 1, truth)


def not_(operand: Formula) -> Formula:
    return Formula(operand.variables, operand.size + 1, lambda cell: negate(operand.truth(cell)))


def and_(operands: Sequence[Formula]) -> Formula:
    def truth(cell: Cell) -> int:
        held = TRUE
        for operand in operands:
            held = _BOTH[held][operand.truth(cell)]
        return held

    return Formula(_variables(operands), 1 + sum(operand.size for operand in operands), truth)


def or_(operands: Sequence[Formula]) -> Formula:
    return not_(and_([not_(operand) for operand in operands]))


def same(left: Formula, right: Formula) -> Formula:
    """`left == right` of two conditions."""
    return or_([and_([left, right]), and_([not_(left), not_(right)])])


def _variables(operands: Sequence[Formula]) -> tuple[Key, ...]:
    return tuple(dict.fromkeys(key for operand in operands for key in operand.variables))


@define
class Budget:
    """Work that is left."""

    left: int = MOST_WORK_IN_ALL


@define
class Variable:
    """Something that conditions read, and the values that are told apart."""

    values: Callable[["Variable"], list[Any]]
    may_be_unknown: bool = True
    points: list[Any] = field(factory=list)
    """What it is compared with."""


def cells(
    variables: Mapping[Key, Variable], keys: Sequence[Key], work: int, budget: Budget, *, unknown: bool = False
) -> Iterator[Cell] | None:
    """Every combination of values of these variables; None if trying them, `work` atoms each, took too long. `unknown`:
    also those in which some are not known."""
    axes: list[list[Any]] = []
    for key in keys:
        variable = variables[key]
        values = variable.values(variable)
        axes.append([*values, None] if unknown and variable.may_be_unknown else values)
        work *= len(axes[-1])
        if work > min(MOST_WORK, budget.left):
            return None
    budget.left -= work
    return (dict(zip(keys, values, strict=True)) for values in product(*axes))
