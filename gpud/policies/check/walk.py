"""Goes through a policy's rules and expressions in text order."""

from collections.abc import Iterator
from typing import NamedTuple

from gpud.policies.ir import (
    IrBinding,
    IrBody,
    IrEach,
    IrExpr,
    IrLet,
    IrPolicy,
    IrRule,
    Op,
    OperatorCall,
    PureCall,
)
from gpud.policies.source import Source, Span


class Step(NamedTuple):
    """A rule, and which of its bodies."""

    rule: IrRule
    otherwise: bool = False


Path = tuple[Step, ...]
"""From the outermost rule to the innermost."""


class Writer(NamedTuple):
    """A binding and what encloses it."""

    binding: IrBinding
    path: Path
    each: IrEach | None


class Found(NamedTuple):
    """A rule and what encloses it."""

    rule: IrRule
    path: Path
    each: IrEach | None
    guard: bool


def parts(expr: IrExpr) -> Iterator[IrExpr]:
    """The expression and all it is made of; what a `let` stands for is not followed."""
    yield expr
    for inner in children(expr):
        yield from parts(inner)


def children(expr: IrExpr) -> tuple[IrExpr, ...]:
    match expr:
        case Op() | PureCall():
            return expr.args
        case OperatorCall():
            return tuple(value for _, value in expr.args)
        case _:
            return ()


def lets(policy: IrPolicy) -> Iterator[tuple[IrLet, IrEach | None]]:
    for let in policy.lets:
        yield let, None
    for each in policy.eaches:
        for let in each.lets:
            yield let, each


def rules(policy: IrPolicy) -> Iterator[Found]:
    """All of them, each before those inside it."""
    yield from _rules(policy.body, (), None)
    for guard in policy.guards:
        yield Found(guard, (), None, True)
        yield from _rules(guard.body, (Step(guard),), None)
    for each in policy.eaches:
        yield from _rules(each.body, (), each)


def _rules(body: IrBody, path: Path, each: IrEach | None) -> Iterator[Found]:
    for rule in body.rules:
        yield Found(rule, path, each, False)
        for step, inner in bodies(rule):
            yield from _rules(inner, (*path, step), each)


def bodies(rule: IrRule) -> Iterator[tuple[Step, IrBody]]:
    yield Step(rule), rule.body
    if rule.otherwise is not None:
        yield Step(rule, True), rule.otherwise


def writers(policy: IrPolicy) -> Iterator[Writer]:
    """Every binding but those of guards."""
    yield from _writers(policy.body, (), None)
    for each in policy.eaches:
        yield from _writers(each.body, (), each)


def _writers(body: IrBody, path: Path, each: IrEach | None) -> Iterator[Writer]:
    for binding in body.bindings:
        yield Writer(binding, path, each)
    for rule in body.rules:
        for step, inner in bodies(rule):
            yield from _writers(inner, (*path, step), each)


def all_writers(policy: IrPolicy) -> Iterator[Writer]:
    """Those of guards too, last."""
    yield from writers(policy)
    for guard in policy.guards:
        yield from _writers(guard.body, (Step(guard),), None)


def conditions(rule: IrRule) -> Iterator[IrExpr]:
    for held in (rule.condition, rule.until):
        if held is not None:
            yield held.condition


def expressions(policy: IrPolicy) -> Iterator[tuple[IrExpr, IrEach | None]]:
    """All that a tick computes, and the `each` it stands in: lets, conditions and values."""
    for let, each in lets(policy):
        yield let.value, each
    for found in rules(policy):
        for condition in conditions(found.rule):
            yield condition, found.each
    for writer in all_writers(policy):
        yield writer.binding.value, writer.each


def head_of(source: Source, span: Span) -> Span:
    """The part of a block before its `{`."""
    end = source.text.find("{", span.start, span.end)
    return Span(span.start, span.start + len(source.text[span.start : end].rstrip())) if end > 0 else span
