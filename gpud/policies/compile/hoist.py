"""What is computed on every tick before the rules, whatever holds: lets, in text order, and operators in bindings."""

from collections.abc import Iterable

from gpud.policies.check.walk import bodies
from gpud.policies.compile.calls import calls_in, is_controller
from gpud.policies.compile.context import Context, Value
from gpud.policies.compile.expressions import value_of
from gpud.policies.ir import IrBinding, IrBody, IrExpr, IrLet, OperatorCall


def write_lets(context: Context, lets: tuple[IrLet, ...], found: list[Value], prefix: str) -> None:
    """Each in a variable of its own, appended to `found`."""
    for index, let in enumerate(lets):
        context.code.line(f"# let {let.name}")
        value = value_of(context, let.value)
        name = f"{context.prefix}{prefix}{index}"
        context.code.line(f"{name} = {value.code}")
        found.append(Value(name, value.maybe_unknown, True))


def write_operators(context: Context, outermost: Iterable[IrBody]) -> None:
    """Operators stay warm while the binding that they stand in is not in force. Controllers do not run then: they come
    with their binding."""
    for body in outermost:
        for binding in _bindings(body):
            _write(context, binding.value)


def _write(context: Context, expr: IrExpr) -> None:
    for call in calls_in(expr):
        if not _contains_controller(call):
            context.operators[id(call)] = value_of(context, call)


def _contains_controller(call: OperatorCall) -> bool:
    return any(is_controller(inner) for inner in calls_in(call))


def _bindings(body: IrBody) -> Iterable[IrBinding]:
    yield from body.bindings
    for rule in body.rules:
        for _, inner in bodies(rule):
            yield from _bindings(inner)
