"""GP905: a class, let, param or hours that nothing uses."""

from collections.abc import Set

from gpud.policies.check.walk import lets
from gpud.policies.ir import IrClass, IrPolicy
from gpud.policies.resolve.findings import Findings
from gpud.policies.source import Span


def check_unused(policy: IrPolicy, elsewhere: Set[str], found: Findings) -> None:
    """`elsewhere`: names that tests of this policy read."""
    used = policy.used_names | elsewhere
    for param in policy.params:
        if param.name not in used:
            _report(found, "param", param.name, param.span)
    for hours in policy.hours:
        if hours.name not in used:
            _report(found, "hours", hours.name, hours.span)
    for let, _ in lets(policy):
        if let.name not in used:
            _report(found, "let", let.name, let.name_span)
    if policy.mode not in ("", "open"):
        return  # in a class is who is ranked, has a share, or takes turns: each has an effect
    if policy.classes and any(_is_used(one, used) for one in policy.classes):
        last = policy.classes[-1]
        if not _is_used(last, used):  # one further up at least keeps its members out of those below it
            _report(found, "class", last.name, last.name_span)


def _is_used(one: IrClass, used: Set[str]) -> bool:
    return one.name in used or bool(one.settings) or one.limit is not None


def _report(found: Findings, kind: str, name: str, span: Span) -> None:
    what = {
        "class": "no rule and no limit is about it",
        "hours": "no rule and no condition reads them",
    }.get(kind, "nothing reads it")
    found.add("GP905", span, f"{kind} `{name}` is never used", what, helps=["use it, or delete it"])
