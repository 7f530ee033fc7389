"""Calls in expressions: `min`, operators with a state, plugins' functions, values that are made once."""

from fractions import Fraction

from gpud.policies import ast
from gpud.policies.ir import Const, IrExpr, OperatorCall, PureCall, TenantRead
from gpud.policies.plugins.declare import Function
from gpud.policies.quantities import kept
from gpud.policies.resolve.arguments import in_range, lay_out, report_lacking, whole_percent
from gpud.policies.resolve.expressions import constant, resolve, resolve_exact, settled
from gpud.policies.resolve.findings import alternatives
from gpud.policies.resolve.phases import report_fact
from gpud.policies.resolve.scope import Scope, fixed
from gpud.policies.resolve.wants import Want
from gpud.policies.schema import (
    CONSTRUCTORS,
    LABEL_FUNCTIONS,
    OPERATORS,
    SHARES,
    TENANT_FIELDS,
    Operator,
    Parameter,
)
from gpud.policies.types import CAPS, Type
from gpud.policies.values import LabelValue, Share

_HOME = {
    "host": "in `tiers` of `swap`",
    "disk": "in `tiers` of `swap`",
    "wait": "in `over_memory` of `limit`",
    "spill": "in `over_memory` of `limit`",
    "queue": "in `when_full` of `admit`",
    "soft": "in `compute` of `limit`",
}
_STEERED = (Type.RATE, Type.RATIO)
_FUNCTIONS = ("min", "max", *SHARES, *OPERATORS, *LABEL_FUNCTIONS)


def resolve_call(call: ast.Call, scope: Scope, want: Type | None) -> IrExpr | None:
    """What a call gives; None: reported."""
    word = call.function.text
    if len(call.function.parts) > 1:
        return _plugin_call(call, scope)
    if word in OPERATORS:
        return _operator(call, OPERATORS[word], scope, want)
    if word in ("min", "max"):
        return _extreme(call, scope)
    if word in SHARES:
        share = make_share(call, scope)
        return Const(share, Type.SHARE, call.span) if share is not None else None
    if word in LABEL_FUNCTIONS:
        return _label(call, scope)
    if word in _HOME:
        scope.findings.add("GP209", call.span, f"`{word}(…)` cannot stand here", helps=(f"it belongs {_HOME[word]}",))
        return None
    if word in TENANT_FIELDS:
        helps: tuple[str, ...] = (f"write `{word}` alone",)
    elif word in scope.names():
        helps = (f"write `{word}` alone: it is a name, not a function",)
    else:
        helps = scope.findings.did_you_mean(word, _FUNCTIONS) or (f"there are {alternatives(_FUNCTIONS, 'and')}",)
    scope.findings.add("GP201", call.function.span, f"there is no function `{word}`", helps=helps)
    for arg in call.args:
        resolve_exact(arg.value, scope)
    return None


# ------------------------------------------------------------------------------------------------- without a state


def _extreme(call: ast.Call, scope: Scope) -> IrExpr | None:
    """`min(a, b, …)`, `max(a, b, …)`: numbers or quantities of one type; `unlimited` fits."""
    word = call.function.text
    for arg in call.args:
        if arg.name is not None:
            scope.findings.add(
                "GP204", arg.name.span, f"values of `{word}` have no names", helps=(f"write {word}(a, b)",)
            )
            return None
    if len(call.args) < 2:
        scope.findings.add("GP203", call.function.span, f"`{word}` needs two values at least")
    found = [resolve_exact(arg.value, scope) for arg in call.args]
    operands = [operand for operand in found if operand is not None]
    if len(operands) < max(2, len(found)):
        return None
    type = next((operand.type for operand in operands if operand.type in CAPS), Type.UNLIMITED)
    fitting = []
    for arg, operand in zip(call.args, operands, strict=True):
        if operand.type is Type.UNLIMITED and isinstance(operand, Const):
            operand = operand.but(type=type)
        if operand.type is not type or type is Type.UNLIMITED:
            reason = f"values of `{word}` must be of one kind" if type in CAPS else f"`{word}` compares numbers"
            scope.findings.add(
                "GP202", arg.value.span, f"{reason}, but this is {operand.type.value}", operand.type.value,
                also=((call.args[0].value.span, operands[0].type.value),) if arg is not call.args[0] else (),
                helps=(f"write {type.value} here" if type in CAPS else "write numbers or quantities",),
            )  # fmt: skip
            return None
        fitting.append(operand)
    constants = [operand.value for operand in fitting if isinstance(operand, Const) and operand.value is not None]
    if len(constants) == len(fitting):
        return Const(min(constants) if word == "min" else max(constants), type, call.span)
    return PureCall(word, tuple(settled(operand) for operand in fitting), type, call.span)


def arguments(call: ast.Call, scope: Scope) -> dict[str, Const] | None:
    """Those of a constructor, as exact constants, defaults filled in where there are any; None: reported."""
    word = call.function.text
    parameters = CONSTRUCTORS[word]
    given = lay_out(call, parameters, scope.findings)
    found, wrong = dict[str, Const](), given is None
    for parameter in parameters:
        assert parameter.type is not None
        what = f"`{parameter.name}` of `{word}`"
        if given is not None and parameter.name in given:
            value = given[parameter.name].value
            want = Want(what, parameter.type, parameter.unlimited)
            const = constant(value, scope.at(fixed(what)), want)
            if const is None or not in_range(const, parameter.range, what, value.span, scope.findings):
                wrong = True
            else:
                found[parameter.name] = const
        elif parameter.default is not None:
            found[parameter.name] = Const(Fraction(parameter.default), parameter.type, call.span)
    return None if wrong else found


def make_share(call: ast.Call, scope: Scope) -> Share | None:
    """`fixed(30%)`, `weight(2)`, `burst(weight = 4, max = 50%)`."""
    found = arguments(call, scope)
    if found is None:
        return None
    word = call.function.text
    if word == "fixed":
        return Share("fixed", percent=whole_percent(found["part"], found["part"].span, scope.findings))
    weight = kept(found["weight"].value, Type.NUMBER)
    if word == "weight":
        return Share("weight", weight=weight)
    most = whole_percent(found["max"], found["max"].span, scope.findings)
    return Share("burst", weight=weight, max_percent=most)


def label_value(call: ast.Call, scope: Scope) -> LabelValue | None:
    """`label_bytes("k", default = 8GiB)` in `limit`; its default may be any constant."""
    found = arguments(call, scope)
    if found is None or not _labelled(found, scope):
        return None
    default = found.get("default")
    value = kept(default.value, default.type) if default is not None else None
    return LabelValue(call.function.text.removeprefix("label_"), found["key"].value, value)


def _label(call: ast.Call, scope: Scope) -> IrExpr | None:
    """`label("tier")` in `match`."""
    word = call.function.text
    if not scope.place.facts:
        report_fact(scope.findings, scope.place, call.span, word)
        return None
    found = arguments(call, scope)
    if found is None or not _labelled(found, scope):
        return None
    default = found.get("default")
    value = kept(default.value, default.type) if default is not None else None
    type = {"label_bytes": Type.BYTES, "label_percent": Type.RATIO}.get(word, Type.TEXT)
    return TenantRead(word, found["key"].value, call.span, type, value)


def _labelled(found: dict[str, Const], scope: Scope) -> bool:
    key = found["key"]
    if key.value and "=" not in key.value and not any(char.isspace() for char in key.value):
        return True
    scope.findings.add(
        "GP206", key.span, "no label can be called that", helps=('for example label("tier") for a label tier=online',)
    )
    return False


# --------------------------------------------------------------------------------------------------- with a state


def _operator(call: ast.Call, operator: Operator, scope: Scope, want: Type | None) -> IrExpr | None:
    word = operator.name
    if not scope.place.operators:
        _report_misplaced(call, scope)
        return None
    identity = scope.identity(word)
    given = lay_out(call, operator.parameters, scope.findings)
    if given is None:
        for arg in call.args:
            if arg.name is None or any(arg.name.text == parameter.name for parameter in operator.parameters):
                _look_only(arg, operator, scope)
        return None
    if word == "aimd" and want in CAPS and want not in _STEERED:
        assert want is not None
        scope.findings.add(
            "GP202", call.function.span, f"`aimd` steers a rate or a percentage, not {want.value}",
            helps=("steer `max_launch_rate` or `max_compute` with it, for example",),
        )  # fmt: skip
        return None
    variable = _steered(given, operator, scope, want) if word == "aimd" else None
    found: dict[str, IrExpr] = {}
    wrong = False
    for parameter in operator.parameters:
        type = parameter.type or variable
        if parameter.name not in given:
            assert type is not None
            found[parameter.name] = Const(parameter.default, type, call.span)
            continue
        value = _argument(given[parameter.name].value, parameter, word, type, scope)
        if value is None:
            wrong = True
            continue
        if parameter.type is None and variable is None:
            variable = value.type
        found[parameter.name] = value
    result = operator.result or variable
    if wrong or result is None:
        return None
    if word == "aimd" and not _aimd_fits(given, found, scope):
        return None
    return OperatorCall(
        word, identity, tuple((name, settled(value)) for name, value in found.items()), result, call.span
    )


def _argument(expr: ast.Expr, parameter: Parameter, word: str, type: Type | None, scope: Scope) -> IrExpr | None:
    """One argument of an operator, of its type and in its range."""
    what = f"`{parameter.name}` of `{word}`"
    inner = scope if parameter.live else scope.at(fixed(what))
    if type is None:
        value = resolve_exact(expr, inner)
        if value is not None and value.type not in CAPS:
            scope.findings.add(
                "GP202", expr.span, f"{what} needs a number or a quantity, but this is {value.type.value}",
                value.type.value, helps=("for example the signal of a class: `high.launch_rate`",),
            )  # fmt: skip
            return None
    else:
        value = resolve_exact(expr, inner, Want(what, type, parameter.unlimited))
    if isinstance(value, Const) and not parameter.live:
        return value if in_range(value, parameter.range, what, expr.span, scope.findings) else None
    return value


def _look_only(arg: ast.Arg, operator: Operator, scope: Scope) -> None:
    """Names in an argument are looked up even if the call is wrong."""
    named = next((p for p in operator.parameters if arg.name is not None and p.name == arg.name.text), None)
    live = named is None or named.live
    resolve_exact(
        arg.value, scope if live else scope.at(fixed(f"`{named.name}` of `{operator.name}`" if named else ""))
    )


def _steered(given: dict[str, ast.Arg], operator: Operator, scope: Scope, want: Type | None) -> Type:
    """What `aimd` steers: what the knob wants, else what most of its arguments are."""
    if want in _STEERED:
        assert want is not None
        return want
    quiet = _quiet(scope)
    types = []
    for parameter in operator.parameters:
        if parameter.type is None and parameter.name in given:
            value = resolve_exact(given[parameter.name].value, quiet.at(fixed("")))
            types.append(value.type if value is not None else None)
    return max(_STEERED, key=types.count)


def _quiet(scope: Scope) -> Scope:
    """The same scope, reporting nowhere: for a first look at what will be resolved again."""
    from copy import copy

    from gpud.policies.resolve.findings import Findings

    quiet = copy(scope)
    quiet.findings = Findings(scope.findings.source)
    return quiet


def _aimd_fits(given: dict[str, ast.Arg], found: dict[str, IrExpr], scope: Scope) -> bool:
    """floor ≤ start ≤ ceiling; a step down goes down."""
    at = {name: value.value for name, value in found.items() if isinstance(value, Const)}

    def report(name: str, text: str, other: str, helped: str) -> bool:
        also = ((given[other].value.span, f"`{other}`"),) if other else ()
        scope.findings.add("GP206", given[name].value.span, text, also=also, helps=(helped,))
        return False

    if at["floor"] > at["ceiling"]:
        return report("floor", "`floor` lies above `ceiling`", "ceiling", "exchange the two")
    if not at["floor"] <= at["start"] <= at["ceiling"]:
        other, where = ("floor", "below") if at["start"] < at["floor"] else ("ceiling", "above")
        return report("start", f"`start` lies {where} `{other}`", other, "write a value from `floor` to `ceiling`")
    if at["multiply"] >= 1:
        return report("multiply", "with 100% it never goes down", "", "for example 70%")
    return True


def _report_misplaced(call: ast.Call, scope: Scope) -> None:
    word, place = call.function.text, scope.place
    if place.kind == "rule":
        message = f"`{word}` keeps a state from tick to tick; {place.what} has no place for it"
        helped = f"name it above: `let x = {word}(…)`, and use `x` here"
    else:
        message = f"`{word}` keeps a state from tick to tick; it cannot stand in {place.what}"
        helped = "it can stand in `let` and in bindings of knobs"
    scope.findings.add("GP209", call.span, message, helps=(helped,))


# ------------------------------------------------------------------------------------------------------- plugins


def _plugin_call(call: ast.Call, scope: Scope) -> IrExpr | None:
    """`vllm.smooth(x, …)`"""
    parts = call.function.parts
    if len(parts) > 2 or parts[0].text in scope.names() or parts[0].text in ("gpu", "host"):
        scope.findings.add(
            "GP201", call.function.span, f"there is no function `{call.function.text}`",
            helps=(f"write `{call.function.text}` without parentheses, if it is a signal",),
        )  # fmt: skip
        return None
    plugin = scope.plugin(parts[0])
    if plugin is None:
        return None
    function = next((function for function in plugin.functions if function.name == parts[1].text), None)
    if function is None:
        names = [function.name for function in plugin.functions]
        helps = scope.findings.did_you_mean(parts[1].text, names)
        if not helps and names:
            helps = (f"it has {alternatives(names, 'and')}",)
        scope.findings.add("GP201", parts[1].span, f"`{plugin.name}` has no function `{parts[1].text}`", helps=helps)
        return None
    if not scope.place.operators:
        _report_misplaced(call, scope)
        return None
    return _plugin_function(call, function, scope)


def _plugin_function(call: ast.Call, function: Function, scope: Scope) -> IrExpr | None:
    word = call.function.text
    identity = scope.identity(word)
    given = lay_out(call, function.parameters, scope.findings)
    if given is None:
        return None
    found: dict[str, IrExpr] = {}
    for parameter in function.parameters:
        if parameter.name not in given:
            found[parameter.name] = Const(parameter.default, parameter.type, call.span)
            continue
        want = Want(f"`{parameter.name}` of `{word}`", parameter.type, parameter.type in CAPS)
        value = resolve(given[parameter.name].value, scope, want)
        if value is not None:
            found[parameter.name] = value
    if len(found) < len(function.parameters):
        return None
    return OperatorCall(word, identity, tuple(found.items()), function.result, call.span)


__all__ = ["arguments", "label_value", "make_share", "report_lacking", "resolve_call"]
