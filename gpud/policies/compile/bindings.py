"""A binding in force → lines that give its knob the value of its expression."""

from contextlib import nullcontext
from typing import TYPE_CHECKING

from gpud.policies.combine import RANKS, tighter_code
from gpud.policies.compile.calls import calls_in, due_lines, is_controller, signature
from gpud.policies.compile.context import Context, Value
from gpud.policies.compile.expressions import value_of
from gpud.policies.held import GRACE_NS
from gpud.policies.ir import Const, IrBinding, OperatorCall
from gpud.policies.operators import BUILT_IN
from gpud.policies.rounding import round_knob, rounding_of
from gpud.policies.schema import KNOBS

if TYPE_CHECKING:
    from gpud.policies.compile.knobs import Target


def write_own(context: Context, binding: IrBinding, target: "Target") -> bool:
    """Returns whether it may turn out to be None: its value is not known, and has not been for longer than the grace.
    A guard goes on with the last value that was known."""
    site = str(context.sites[id(binding)])
    if isinstance(binding.value, Const):
        target.take(context, constant_code(context, target.knob.name, binding.value.value), site)
        return False
    for call in calls_in(binding.value):
        if is_controller(call):
            context.operators[id(call)] = _write_controller(context, call, binding, target)
    value = value_of(context, binding.value)
    if not value.maybe_unknown:
        target.take(context, _rounded(context, target.knob.name, value.code), site)
        return False
    _write_remembering(context, binding, target, value, site)
    return True


def constant_code(context: Context, knob: str, value: object) -> str:
    if knob in KNOBS and KNOBS[knob].combine == "furthest":
        return str(RANKS[str(value)])
    return context.code.constant(round_knob(knob, value))


def _rounded(context: Context, knob: str, code: str) -> str:
    if knob in KNOBS and KNOBS[knob].combine == "furthest":
        return f"{context.code.use('ranks', RANKS)}[{code}]"
    rounding = rounding_of(knob)
    return code if rounding is None else f"{context.code.use(rounding.__name__, rounding)}({code})"


def _write_remembering(context: Context, binding: IrBinding, target: "Target", value: Value, site: str) -> None:
    line, block = context.code.line, context.code.block
    key = (target.knob.text, *context.places[id(binding)])
    last = context.slot("l", None, "last", *key, signature=(binding.value.type.name,))
    unknown = context.slot("lu", None, "last unknown", *key, signature=(binding.value.type.name,))
    was, since = _forgotten_unless_in_force(context, last), _forgotten_unless_in_force(context, unknown)
    found = context.code.temp(value.code)
    with block(f"if {found} is None"):
        line(f"{found} = {last} = {was}")
        line(f"{unknown} = t if {since} is None else {since}")
        if not target.guard:
            with block(f"if t - {unknown} >= {GRACE_NS}"):
                line(f"{found} = None")
    with block("else"):
        line(f"{last} = {found} = {_rounded(context, target.knob.name, found)}")
    target.take(context, found, site)
    if not target.guard:
        timer = context.timer(f"{unknown} + {GRACE_NS}")
        context.timers += [f"if {unknown} is not None:", *("    " + part for part in timer)]


def _forgotten_unless_in_force(context: Context, slot: str) -> str:
    """The slot is None after this tick unless the binding comes into force in it; returns what it was before."""
    context.early.append(f"{slot}_was = {slot}")
    context.early.append(f"{slot} = None")
    return f"{slot}_was"


def _write_controller(context: Context, call: OperatorCall, binding: IrBinding, target: "Target") -> Value:
    """One step, unless it is beaten: by a guard or a rule whose value is tighter, or as the class is paused. (Where
    another binding holds instead, these lines are not reached.) A beaten controller stands still."""
    line, block, code = context.code.line, context.code.block, context.code
    built = BUILT_IN[call.operator]
    assert built.resume is not None
    own, label = signature(call), f"{context.ir.name}.{call.identity.partition('/')[0]}"
    state = context.slot("o", built.initial, "operator", call.identity, signature=own, label=label)
    value = context.slot("ov", None, "value", call.identity, signature=own)
    beaten = context.slot("ob", None, "beaten", call.identity, signature=own)
    context.early.append(f"{beaten}_was = {beaten}")
    context.early.append(f"if {beaten} is None: {beaten} = t")
    arguments = "".join(f", {value_of(context, argument).code}" for _, argument in call.args)
    wins = []
    if target.paused:
        wins.append(f"not {target.paused}")
    if binding.value is call:
        rounded = _rounded(context, target.knob.name, value)
        for other in target.others:
            tighter = tighter_code(target.combine, other, rounded)
            wins.append(f"({other} is None or not ({tighter}))")
    with block(f"if {value} is None or ({' and '.join(wins)})") if wins else nullcontext():
        with block(f"if {beaten}_was is not None"):
            line(f"{state} = {code.use(f'{call.operator}_resume', built.resume)}({state}, {beaten}_was, t{arguments})")
        line(f"{beaten} = None")
        line(f"{state}, {value} = {code.use(f'{call.operator}_step', built.step)}({state}, t{arguments})")
    context.timers += [f"if {beaten} is None:", *("    " + part for part in due_lines(context, call, state))]
    return Value(value, False, True)
