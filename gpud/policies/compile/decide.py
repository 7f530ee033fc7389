"""All knobs of a tick: rules, own binding or base, guards."""

from attrs import evolve, frozen

from gpud.policies.combine import combine_of
from gpud.policies.compile.bases import Base, base_of
from gpud.policies.compile.bindings import constant_code
from gpud.policies.compile.context import Context
from gpud.policies.compile.knobs import Sets, Target, write_body, write_guards
from gpud.policies.compile.rules import Flags
from gpud.policies.ir import IrBody, KnobRef


@frozen
class Decided:
    """Where a knob's value is, once it has been found."""

    target: Target | None
    """None: nothing sets it, it is the base."""
    base: Base
    rules: Target | None = None
    """What the rules alone say, without the policy's own binding; only for knobs that `each` may set."""
    guards: Target | None = None
    """What the guards say; None: none of them sets it."""

    def value_code(self, context: Context, knob: KnobRef) -> str:
        """As it goes out."""
        if self.target is None:
            return context.code.constant(self.base.value)
        if self.target.combine == "furthest":
            return f"places[{self.target.value}]"
        return self.target.value

    @property
    def site_code(self) -> str:
        return "0" if self.target is None else self.target.site


def write_knobs(
    context: Context, knobs: tuple[KnobRef, ...], flags: Flags, each: frozenset[KnobRef]
) -> dict[KnobRef, Decided]:
    """`pause` of a class comes before its other knobs, as in the schema: a controller holds while its class is held."""
    found: dict[KnobRef, Decided] = {}
    for number, knob in enumerate(knobs):
        found[knob] = _write_knob(context, knob, number, flags, found, knob in each)
    return found


def paused(found: dict[KnobRef, Decided], knob: KnobRef) -> str:
    """The variable of its class's `pause`, if anything sets that."""
    pause = found.get(KnobRef(knob.job_class, "pause"))
    return pause.target.value if pause is not None and pause.target is not None else ""


def _write_knob(
    context: Context, knob: KnobRef, number: int, flags: Flags, found: dict[KnobRef, Decided], in_each: bool
) -> Decided:
    base = base_of(context.ir, knob, context.plugins)
    combine = combine_of(knob.name, context.plugins)
    held = paused(found, knob) if knob.name != "pause" else ""
    guards = Target(knob=knob, combine=combine, value=f"g{number}", site=f"gy{number}", paused=held)
    guarded = write_guards(context, guards, flags)
    target = Target(
        knob=knob,
        combine=combine,
        value=f"k{number}",
        site=f"y{number}",
        others=(guards.value,) if guarded is not Sets.NEVER else (),
        paused=held,
    )
    body, rules = context.ir.body, None
    if in_each:
        rules = evolve(target, value=f"r{number}", site=f"ry{number}")
        if write_body(context, IrBody((), body.rules, body.span), rules, flags) is Sets.NEVER:
            rules.take(context, "None", "0")
        target.take(context, rules.value, rules.site)
        own = IrBody(body.bindings, (), body.span)
        with context.code.block(f"if {target.value} is None"):
            _write_or_base(context, own, target, flags, base)
    elif knob in context.sets(body) or guarded is not Sets.NEVER:
        context.code.line(f"# {knob.text}")
        _write_or_base(context, body, target, flags, base)
    else:
        return Decided(None, base)
    if guarded is not Sets.NEVER:
        with context.code.block(f"if {guards.value} is not None"):
            target.meet(context, guards.value, guards.site)
    return Decided(target, base, rules, guards if guarded is not Sets.NEVER else None)


def _write_or_base(context: Context, body: IrBody, target: Target, flags: Flags, base: Base) -> None:
    value = constant_code(context, target.knob.name, base.value)
    match write_body(context, body, target, flags):
        case Sets.NEVER:
            target.take(context, value, "0")
        case Sets.MAYBE:
            with context.code.block(f"if {target.value} is None"):
                target.take(context, value, "0")
        case Sets.ALWAYS:
            pass
