"""Where a knob's value can come from: every binding of a policy, and the base."""

from collections.abc import Iterator
from typing import NamedTuple

from gpud.policies.check.walk import Path, Step, bodies, conditions, parts
from gpud.policies.ir import (
    IrBinding,
    IrBody,
    IrEach,
    IrExpr,
    IrLet,
    IrPolicy,
    KnobRef,
    LetRead,
    Read,
    SignalRef,
)
from gpud.policies.program import Site
from gpud.policies.wording import line_of, quoted

BASE = Site(KnobRef("", ""), 0, "base", (), "", (), ())
"""Where nothing else holds; `explain` says for each knob what that is."""
ALWAYS = "always"


class Place(NamedTuple):
    """A binding and what encloses it."""

    binding: IrBinding
    path: Path
    enclosing: tuple[IrBody, ...]
    """The bodies of the path, and the outermost one first."""
    each: IrEach | None


def places(ir: IrPolicy) -> Iterator[Place]:
    """In the order in which `explain` lists them: guards, then what is inside before what is around it."""
    for guard in ir.guards:
        yield from _places(guard.body, (Step(guard),), (ir.body,), None)
    for each in ir.eaches:
        yield from _places(each.body, (), (), each)
    yield from _places(ir.body, (), (), None)


def _places(body: IrBody, path: Path, around: tuple[IrBody, ...], each: IrEach | None) -> Iterator[Place]:
    for rule in body.rules:
        for step, inner in bodies(rule):
            yield from _places(inner, (*path, step), (*around, body), each)
    for binding in body.bindings:
        yield Place(binding, path, (*around, body), each)


def site_of(ir: IrPolicy, place: Place) -> Site:
    signals, lets = inputs(ir, place)
    because = next((step.rule.because for step in reversed(place.path) if step.rule.because), "")
    return Site(
        knob=place.binding.knob,
        line=line_of(ir, place.binding.span),
        text=rule_text(ir, place),
        inside=tuple(inside(ir, place)),
        because=because,
        inputs=signals,
        lets=lets,
    )


def rule_text(ir: IrPolicy, place: Place) -> str:
    """`guard serving.wait_p99 > 20ms for 1s`, `during day, else`, `always`."""
    text = step_text(ir, place.path[-1]) if place.path else ALWAYS
    return f"{text}, for each {place.each.job_class}" if place.each is not None else text


def step_text(ir: IrPolicy, step: Step) -> str:
    return quoted(ir, step.rule.head) + (", else" if step.otherwise else "")


def inside(ir: IrPolicy, place: Place) -> Iterator[str]:
    """Enclosing rules, innermost first: the line of what they set themselves, else that of the rule."""
    for depth in range(len(place.path) - 1, 0, -1):
        step = place.path[depth - 1]
        yield f"line {outer_line(ir, place, depth) or line_of(ir, step.rule.span)}  {step_text(ir, step)}"


def outer_line(ir: IrPolicy, place: Place, depth: int) -> int | None:
    """Line of the same knob's binding in the body at that depth, which the inner one refines."""
    own = next((found for found in place.enclosing[depth].bindings if found.knob == place.binding.knob), None)
    return line_of(ir, own.span) if own is not None else None


def inputs(ir: IrPolicy, place: Place) -> tuple[tuple[SignalRef, ...], tuple[str, ...]]:
    """Signals and lets that the value and the conditions depend on, through lets; each once."""
    exprs = [condition for step in reversed(place.path) for condition in conditions(step.rule)]
    exprs.append(place.binding.value)
    signals: dict[SignalRef, None] = {}
    lets: dict[str, None] = {}
    for expr in exprs:
        _collect(ir, place.each, expr, signals, lets)
    return tuple(signals), tuple(lets)


def _collect(
    ir: IrPolicy, each: IrEach | None, expr: IrExpr, signals: dict[SignalRef, None], lets: dict[str, None]
) -> None:
    for part in parts(expr):
        if isinstance(part, Read):
            signals[part.signal] = None
        elif isinstance(part, LetRead):
            let = _let(ir, each, part)
            if let.name not in lets:
                lets[let.name] = None
                _collect(ir, each, let.value, signals, lets)


def _let(ir: IrPolicy, each: IrEach | None, read: LetRead) -> IrLet:
    return each.lets[read.index] if read.tenant and each is not None else ir.lets[read.index]
