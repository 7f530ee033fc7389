"""`param`s, and the arguments that replace their values: `apply "preempt-mix"(quiet = 5ms)`."""

from collections.abc import Sequence

from attrs import evolve

from gpud.policies import ast
from gpud.policies.diagnostics import Label
from gpud.policies.ir import Const, IrParam
from gpud.policies.resolve.expressions import constant, resolve_exact, settled
from gpud.policies.resolve.findings import Findings
from gpud.policies.resolve.names import Entry, may_be_called
from gpud.policies.resolve.reading import PolicyScope
from gpud.policies.resolve.scope import fixed
from gpud.policies.resolve.wants import Want
from gpud.policies.types import CAPS, EXAMPLES, Type

_TYPES = CAPS | {Type.BOOL, Type.TEXT, Type.SHARE, Type.RESIDENCY, Type.UNLIMITED}


class Arguments:
    """What an `apply` or a test gives to a policy. Reports to findings of its own source."""

    def __init__(self, policy: ast.Policy, given: Sequence[ast.Arg], findings: Findings) -> None:
        self.findings = findings
        self._by_name: dict[str, ast.Arg] = {}
        self._policy = policy.name.text
        params = [member.name.text for member in policy.members if isinstance(member, ast.Param)]
        for arg in given:
            self._take(arg, params)

    def _take(self, arg: ast.Arg, params: list[str]) -> None:
        helps: tuple[str, ...]
        if arg.name is None:
            helps = (f"write `{params[0]} = …`",) if params else (f"`{self._policy}` has no params: leave it out",)
            self.findings.add("GP204", arg.span, "arguments of a policy have names", helps=helps)
        elif arg.name.text not in params:
            helps = self.findings.did_you_mean(arg.name.text, params)
            if not helps:
                helps = (f"its params are {', '.join(params)}" if params else "it has no params",)
            message = f"`{self._policy}` has no param `{arg.name.text}`"
            self.findings.add("GP204", arg.name.span, message, helps=helps)
        elif arg.name.text in self._by_name:
            first = self._by_name[arg.name.text]
            self.findings.add(
                "GP303", arg.span, f"`{arg.name.text}` is given twice", also=((first.span, "first here"),),
                helps=("leave one of them out",),
            )  # fmt: skip
        else:
            self._by_name[arg.name.text] = arg

    def origin(self, name: str) -> Label | None:
        """Where a param's value is given."""
        arg = self._by_name.get(name)
        return Label(self.findings.source, arg.value.span, "given here") if arg is not None else None

    def value(self, default: Const, name: str, scope: PolicyScope) -> Const | None:
        """What is given for a param of that default, exactly; the default if nothing is; None: reported."""
        arg = self._by_name.get(name)
        if arg is None:
            return default
        there = evolve(scope, findings=self.findings, place=fixed(f"`{name}`"), known=type(scope.known)())
        if default.type is Type.UNLIMITED:
            found = resolve_exact(arg.value, there)
            if found is not None and found.type not in CAPS | {Type.UNLIMITED}:
                self.findings.add(
                    "GP202", arg.value.span, f"`{name}` needs a quantity or `unlimited`, not {found.type.value}",
                    found.type.value, helps=("for example 250ms, or whatever the policy uses it for",),
                )  # fmt: skip
                return None
            return found if isinstance(found, Const) else None
        return constant(arg.value, there, Want(f"`{name}`", default.type, default.type in CAPS))


def read_param(param: ast.Param, arguments: Arguments, scope: PolicyScope) -> IrParam | None:
    """Defines the name; None: its value could not be resolved."""
    name = param.name
    free = may_be_called(name, "param", scope.known, scope.uses, scope.findings)
    what = f"param `{name.text}`"
    default = resolve_exact(param.value, scope.at(fixed(what)))
    if default is not None and (default.type not in _TYPES or not isinstance(default, Const)):
        scope.findings.add(
            "GP202", param.value.span, f"{what} cannot be {default.type.value}",
            helps=(f"write a constant such as {EXAMPLES[Type.DURATION]}",),
        )  # fmt: skip
        default = None
    value = arguments.value(default, name.text, scope) if isinstance(default, Const) else None
    if not free:
        return None
    scope.known.define(Entry("param", name.text, name.span, value, "", arguments.origin(name.text)))
    if value is None or not isinstance(default, Const):
        return None
    kept_value, kept_default = settled(value), settled(default)
    assert isinstance(kept_value, Const)
    assert isinstance(kept_default, Const)
    return IrParam(name.text, kept_value.value, value.type, kept_default.value, param.span)
