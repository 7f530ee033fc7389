"""Calls of operators: the built-in ones, controllers among them, and functions of plugins."""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

from gpud.policies.compile.context import Context, Value
from gpud.policies.ir import IrExpr, Op, OperatorCall, PureCall
from gpud.policies.operators import BUILT_IN
from gpud.policies.plugins.declare import Function, Plugins
from gpud.policies.types import Type

Resolve = Callable[[Context, IrExpr], Value]


def is_controller(expr: IrExpr) -> bool:
    return isinstance(expr, OperatorCall) and expr.operator in BUILT_IN and BUILT_IN[expr.operator].resume is not None


def calls_in(expr: IrExpr) -> Iterator[OperatorCall]:
    """Innermost first, as they are computed."""
    match expr:
        case Op() | PureCall():
            for arg in expr.args:
                yield from calls_in(arg)
        case OperatorCall():
            for _, arg in expr.args:
                yield from calls_in(arg)
            yield expr


def signature(call: OperatorCall) -> tuple[str, ...]:
    """State goes from one call to another only if these are the same."""
    return (call.operator, call.type.name, *(value.type.name for _, value in call.args))


def operator_value(context: Context, call: OperatorCall, resolve: Resolve) -> Value:
    """Writes one step of an operator that runs on every tick."""
    code = context.code
    arguments = [resolve(context, value) for _, value in call.args]
    label = f"{context.ir.name}.{call.identity.partition('/')[0]}"
    result = code.name()
    if call.operator in BUILT_IN:
        built = BUILT_IN[call.operator]
        state = context.slot("o", built.initial, "operator", call.identity, signature=signature(call), label=label)
        step = code.use(f"{call.operator}_step", built.step)
        listed = "".join(f", {argument.code}" for argument in arguments)
        code.line(f"{state}, {result} = {step}({state}, t{listed})")
        context.timers += due_lines(context, call, state)
        unknown = not built.never_unknown and any(argument.maybe_unknown for argument in arguments)
        return Value(result, unknown, True)
    function = plugin_function(call.operator, context.plugins)
    initial = contained_init(function)
    state = context.slot("o", initial, "operator", call.identity, signature=signature(call), label=label)
    plugin, _, name = call.operator.partition(".")
    step = f"plugin_{len(plugin)}_{plugin}_{name}"  # `a.b_c` and `a_b.c` are two
    if step not in code.globals:
        code.use(step, contained(function))
    named = ", ".join(f"{name!r}: {argument.code}" for (name, _), argument in zip(call.args, arguments, strict=True))
    code.line(f"{state}, {result} = {step}({state}, {{{named}}}, t)")
    context.timers += ["due = t + 1"]  # what it does with time is not known
    return Value(result, True, True)


def due_lines(context: Context, call: OperatorCall, state: str) -> list[str]:
    due = context.code.use(f"{call.operator}_due", BUILT_IN[call.operator].due)
    return [f"x = {due}({state}, t)", "if x is not None and x < due: due = x"]


def plugin_function(name: str, plugins: Plugins) -> Function:
    """Raises KeyError."""
    plugin, _, function = name.partition(".")
    for found in plugins[plugin].functions:
        if found.name == function:
            return found
    raise KeyError(name)


def contained_init(function: Function) -> Any:
    try:
        return function.init()
    except Exception:  # its value will be unknown, as `step` most likely fails as well
        return None


def contained(function: Function) -> Callable[[Any, Mapping[str, Any], int], tuple[Any, Any]]:
    """A plugin's step that never raises: what goes wrong keeps the state, and the value is unknown."""
    step, result = function.step, function.result

    def call(state: Any, arguments: Mapping[str, Any], now_ns: int) -> tuple[Any, Any]:
        if None in arguments.values():
            return state, None
        try:
            following, value = step(state, arguments, now_ns)
            return following, value if _fits(value, result) else None
        except Exception:
            return state, None

    return call


def _fits(value: Any, type: Type) -> bool:
    if type is Type.BOOL:
        return isinstance(value, bool)
    if type is Type.TEXT:
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
