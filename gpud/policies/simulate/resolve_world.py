"""`simulate contention(capacity = 3_000/s, …)` → what a world begins with."""

from collections.abc import Iterable
from typing import Any

from gpud.policies import ast
from gpud.policies.ir import Const
from gpud.policies.quantities import show_value
from gpud.policies.resolve.expressions import resolve
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.resolve.nearest import did_you_mean
from gpud.policies.resolve.scope import Place
from gpud.policies.resolve.wants import Want
from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.naming import TestScope
from gpud.policies.simulate.plan import WorldPlan
from gpud.policies.simulate.worlds import WORLDS
from gpud.policies.simulate.worlds.kind import WorldKind, WorldParameter
from gpud.policies.source import Span
from gpud.policies.types import Type


def resolve_world(step: ast.Simulate, scope: TestScope) -> WorldPlan | None:
    """None: reported."""
    findings = scope.findings
    kind = WORLDS.get(step.world.text)
    if kind is None:
        helps = did_you_mean(step.world.text, WORLDS) or (f"there are {alternatives(WORLDS, 'and')}",)
        findings.add("GP701", step.world.span, f"there is no world `{step.world.text}`", helps=helps)
        return None
    if scope.mode not in kind.modes:
        what = f"arbitrate {scope.mode}" if scope.mode else "a policy without `arbitrate`"
        findings.add(
            "GP701", step.world.span, f"`{kind.name}` does not know what {what} does",
            helps=(f"worlds for it: {alternatives(_fitting(scope.mode), 'and')}",),
        )  # fmt: skip
        return None
    before = len(findings.found)
    for parameter in kind.parameters:
        if parameter.type is Type.CLASS and scope.tenants:
            findings.add(
                "GP701", step.world.span, f"`{kind.name}` is about whole classes; this test attaches tenants",
                helps=("make two tests of it",),
            )  # fmt: skip
            return None
    given = _given(step, kind, scope)
    arguments: dict[str, Any] = {}
    for parameter in kind.parameters:
        arg = given.pop(parameter.name, None)
        if arg is not None:
            arguments[parameter.name] = _value(arg, parameter, kind, scope)
        elif parameter.default is None:
            findings.add(
                "GP203", step.world.span, f"`{kind.name}` also needs `{parameter.name}`", helps=(parameter.doc,)
            )
        else:
            arguments[parameter.name] = _default(parameter, step.world.span, kind, scope)
    for name, arg in given.items():
        assert kind.of_member is not None
        arguments[name] = _constant(arg, kind.of_member, kind, scope)
    if kind.of_member is not None and not given and len(findings.found) == before:
        findings.add(
            "GP203", step.world.span, f"`{kind.name}` needs a class or an attached tenant, with {kind.of_member_doc}",
            helps=(f"for example {next(iter(scope.known.visible('class')), 'low')} = …",),
        )  # fmt: skip
    return WorldPlan(kind, arguments, tuple(given)) if len(findings.found) == before else None


def world_names(plan: WorldPlan) -> dict[str, Type]:
    """What `world.x` may be in this test, to be read."""
    kind = plan.kind
    names: dict[str, Type] = {row.name: row.type for row in kind.parameters if row.type is not Type.CLASS}
    for name in plan.members:
        assert kind.of_member is not None
        names[name] = kind.of_member
    return names | {name: type for name, type, _ in kind.readings}


def _fitting(mode: str) -> Iterable[str]:
    return (name for name, kind in WORLDS.items() if mode in kind.modes)


def _given(step: ast.Simulate, kind: WorldKind, scope: TestScope) -> dict[str, ast.Arg]:
    """Arguments by name; what is wrong with the names is reported."""
    known = [parameter.name for parameter in kind.parameters]
    members = [*scope.known.visible("class"), *scope.tenants] if kind.of_member is not None else []
    given: dict[str, ast.Arg] = {}
    for arg in step.args:
        if arg.name is None:
            scope.findings.add(
                "GP204", arg.span, "arguments of a world have names", helps=(f"write {(known + members)[0]} = …",)
            )
        elif arg.name.text in given:
            scope.findings.add("GP303", arg.span, f"`{arg.name.text}` is given twice")
        elif arg.name.text not in known and arg.name.text not in members:
            scope.findings.add(
                "GP204", arg.name.span, f"`{kind.name}` has no `{arg.name.text}`",
                helps=did_you_mean(arg.name.text, known + members)
                or (f"it takes {alternatives(known + members, 'and')}",),
            )  # fmt: skip
        elif arg.name.text in scope.tenants.values():
            names = [tenant for tenant, its_class in scope.tenants.items() if its_class == arg.name.text]
            scope.findings.add(
                "GP701", arg.name.span, f"`{arg.name.text}` has attached tenants; the world needs those",
                helps=(f"write {alternatives(names, 'and')} instead",),
            )  # fmt: skip
        else:
            given[arg.name.text] = arg
    return given


def _value(arg: ast.Arg, parameter: WorldParameter, kind: WorldKind, scope: TestScope) -> Any:
    if parameter.type is not Type.CLASS:
        return _constant(arg, parameter.type, kind, scope)
    found = resolve(arg.value, scope, Want(f"`{parameter.name}`", Type.CLASS, help="name one of the policy's classes"))
    return found.value if isinstance(found, Const) else None


def _constant(arg: ast.Arg, type: Type, kind: WorldKind, scope: TestScope) -> Any:
    name = arg.name.text if arg.name else ""
    found = resolve(
        arg.value, scope.at(Place("step", f"`{name}`")), Want(f"`{name}`", type, kind.range_of(name).holds(UNLIMITED))
    )
    if isinstance(found, Const) and found.value is not None:
        return found.value if in_range(scope.findings, arg.value.span, name, found, kind) else None
    if found is not None:
        scope.findings.add("GP202", arg.value.span, f"`{name}` needs a constant value")
    return None


def in_range(findings: Findings, span: Span, name: str, value: Const, kind: WorldKind) -> bool:
    """Is this a value that the world can have? Reports it otherwise."""
    allowed = kind.range_of(name)
    if allowed.holds(value.value):
        return True
    if value.value < 0:
        findings.add("GP206", span, f"`{name}` is less than nothing")
    else:
        findings.add(
            "GP206", span, f"`{name}` is too large here", helps=(f"at most {show_value(allowed.most, value.type)}",)
        )
    return False


def _default(parameter: WorldParameter, span: Span, kind: WorldKind, scope: TestScope) -> Any:
    if parameter.type is Type.CLASS and parameter.default not in scope.known.visible("class"):
        scope.findings.add(
            "GP203", span, f"the policy has no class `{parameter.default}`",
            helps=(f"say which class it is: {parameter.name} = {next(iter(scope.known.visible('class')), '…')}",),
        )  # fmt: skip
    return parameter.default


def driven_by(plan: WorldPlan) -> tuple[str, ...]:
    """Signals that the world sets."""
    return plan.kind.drives(plan.arguments, plan.members)


def not_driven(findings: Findings, span: Span, key: str, plan: WorldPlan) -> bool:
    """May the test set this signal? Reports it otherwise."""
    if key not in driven_by(plan):
        return True
    names = [p.name for p in plan.kind.parameters if p.type is not Type.CLASS] + list(plan.members)
    findings.add(
        "GP701", span, f"`{key}` comes from the world `{plan.kind.name}`", "the world sets it",
        helps=(f"change the world: {alternatives([f'world.{name}' for name in names])}",),
    )  # fmt: skip
    return False
