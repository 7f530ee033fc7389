"""Bindings in force → lines that find the value of one knob, and the binding that it comes from.

A rule refines what encloses it: the active rules of a body meet, and if none of them sets the knob, the body's own
binding holds. What guards say is met with the result.
"""

from collections.abc import Sequence
from enum import Enum

from attrs import evolve, frozen

from gpud.policies.combine import tighter_code
from gpud.policies.compile.bindings import write_own
from gpud.policies.compile.calls import calls_in, is_controller
from gpud.policies.compile.context import Context
from gpud.policies.compile.rules import Flags
from gpud.policies.ir import IrBinding, IrBody, IrRule, KnobRef


class Sets(Enum):
    """Whether some lines give the knob a value."""

    NEVER, MAYBE, ALWAYS = range(3)


@frozen(kw_only=True)
class Target:
    """One knob while it is written: into which variables, and what else is known."""

    knob: KnobRef
    combine: str
    value: str
    site: str
    others: tuple[str, ...] = ()
    """Variables of what meets this value: a controller that they beat holds. They may be None."""
    paused: str = ""
    """Variable that says whether the class is held altogether."""
    guard: bool = False

    def meet(self, context: Context, value: str, site: str, unless: Sequence[str] = ()) -> None:
        """Takes the other value if it is tighter, or if one of the conditions `unless` holds."""
        tighter = tighter_code(self.combine, value, self.value)
        conditions = [*unless, *([tighter] if tighter else [])]
        if conditions:
            with context.code.block(f"if {' or '.join(conditions)}"):
                self.take(context, value, site)

    def take(self, context: Context, value: str, site: str) -> None:
        context.code.line(f"{self.value} = {value}")
        context.code.line(f"{self.site} = {site}")


def write_guards(context: Context, target: Target, flags: Flags) -> Sets:
    """The meet of all guards that hold; None if none sets it."""
    guards = [guard for guard in context.ir.guards if target.knob in context.sets(guard.body)]
    if not guards:
        return Sets.NEVER
    return _write_rules(context, guards, evolve(target, guard=True), flags)


def write_body(context: Context, body: IrBody, target: Target, flags: Flags) -> Sets:
    """What a body says, its rules first. Where it says nothing, the variable is None."""
    rules = [rule for rule in body.rules if target.knob in context.sets(rule.body) or _else_sets(context, rule, target)]
    own = context.own(body, target.knob)
    if not rules:
        if own is None:
            return Sets.NEVER
        return Sets.MAYBE if write_own(context, own, target) else Sets.ALWAYS
    found = _write_rules(context, _controllers_last(context, rules, target), target, flags)
    if own is None or found is Sets.ALWAYS:
        return found
    with context.code.block(f"if {target.value} is None"):
        maybe_unknown = write_own(context, own, target)
    return Sets.MAYBE if maybe_unknown else Sets.ALWAYS


def _else_sets(context: Context, rule: IrRule, target: Target) -> bool:
    return rule.otherwise is not None and target.knob in context.sets(rule.otherwise)


def _write_rules(context: Context, rules: list[IrRule], target: Target, flags: Flags) -> Sets:
    """The meet of what the rules say."""
    target.take(context, "None", "0")
    sure = False
    for number, rule in enumerate(rules):
        holds, not_holds = flags[id(rule)]
        found: list[Sets] = []
        word = "if"
        for flag, body in ((holds, rule.body), (not_holds, rule.otherwise)):
            if body is None or target.knob not in context.sets(body):
                found.append(Sets.NEVER)
                continue
            with context.code.block(f"{word} {flag}"):
                found.append(_write_met(context, body, target, flags, first=not number))
            word = "elif"
        sure = sure or (rule.hours is not None and found == [Sets.ALWAYS, Sets.ALWAYS])
    return Sets.ALWAYS if sure else Sets.MAYBE


def _write_met(context: Context, body: IrBody, target: Target, flags: Flags, first: bool) -> Sets:
    """A body's value, met with what has been found before it."""
    if first:
        return write_body(context, body, target, flags)
    own = evolve(
        target,
        value=context.code.name("k"),
        site=context.code.name("y"),
        others=(*target.others, target.value),
    )
    found = write_body(context, body, own, flags)
    unset = f"{target.value} is None"
    if found is Sets.MAYBE:
        with context.code.block(f"if {own.value} is not None"):
            target.meet(context, own.value, own.site, [unset])
    elif found is Sets.ALWAYS:
        target.meet(context, own.value, own.site, [unset])
    return found


def _controllers_last(context: Context, rules: list[IrRule], target: Target) -> list[IrRule]:
    """They look at what the others say."""
    return sorted(rules, key=lambda rule: has_controller(context, rule, target.knob))


def has_controller(context: Context, rule: IrRule, knob: KnobRef) -> bool:
    for body in (rule.body, rule.otherwise):
        if body is not None and (
            any(binding_controls(binding) for binding in body.bindings if binding.knob == knob)
            or any(has_controller(context, inner, knob) for inner in body.rules)
        ):
            return True
    return False


def binding_controls(binding: IrBinding) -> bool:
    return any(is_controller(call) for call in calls_in(binding.value))
