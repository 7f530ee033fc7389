"""`attach a { labels = ["tier=online"] }` → what the policy may know of the tenant."""

from collections.abc import Mapping, Sequence

from gpud.policies import ast
from gpud.policies.ir import IrPolicy
from gpud.policies.resolve.findings import Findings
from gpud.policies.resolve.nearest import did_you_mean
from gpud.policies.schema import TENANT_FIELDS
from gpud.policies.simulate.naming import TestScope
from gpud.policies.tenants import TenantFacts

_SETTINGS = ("labels", *TENANT_FIELDS)


def resolve_attached(steps: Sequence[ast.Attach], scope: TestScope) -> dict[str, TenantFacts]:
    """By name, in text order; what is wrong is reported."""
    found: dict[str, TenantFacts] = {}
    for step in steps:
        name = step.name.text
        if name in found:
            scope.findings.add("GP205", step.name.span, f"`{name}` is attached twice", helps=("choose another name",))
        elif name in (*scope.known.visible(), "gpu", "host", "world", "missing"):
            scope.findings.add(
                "GP205", step.name.span, f"`{name}` has a meaning already: a tenant cannot be called that",
                helps=("choose another name",),
            )  # fmt: skip
        else:
            found[name] = _facts(step, scope)
    return found


def _facts(step: ast.Attach, scope: TestScope) -> TenantFacts:
    labels: dict[str, str] = {}
    texts: dict[str, str] = {}
    seen: set[str] = set()
    for setting in step.settings:
        word = setting.name.text
        if word in seen:
            scope.findings.add("GP303", setting.name.span, f"`{word}` is set twice")
        seen.add(word)
        if word == "labels":
            labels = _labels(setting.value, scope)
        elif word not in TENANT_FIELDS:
            helps = did_you_mean(word, _SETTINGS)
            if not helps and isinstance(setting.value, ast.String):
                helps = (f'a label stands in a list: `labels = ["{word}={setting.value.text}"]`',)
            helps = helps or ("a tenant has labels, exe, user and the like",)
            scope.findings.add("GP204", setting.name.span, f"a tenant has no `{word}`", helps=helps)
        elif isinstance(setting.value, ast.String):
            texts[word] = setting.value.text
        else:
            scope.findings.add(
                "GP202", setting.value.span, f"`{word}` needs a text", helps=(f'for example {word} = "…"',)
            )
    return TenantFacts(labels=labels, **texts)


def _labels(value: ast.Expr, scope: TestScope) -> dict[str, str]:
    labels: dict[str, str] = {}
    if not isinstance(value, ast.Listing):
        scope.findings.add(
            "GP202", value.span, "`labels` needs a list of texts", helps=('for example ["tier=online"]',)
        )
        return labels
    for item in value.items:
        key, equals, text = item.text.partition("=") if isinstance(item, ast.String) else ("", "", "")
        if not key or not equals:
            scope.findings.add("GP202", item.span, "a label is a text like `key=value`", helps=('write "tier=online"',))
        elif key in labels:
            scope.findings.add("GP303", item.span, f"the label `{key}` is given twice")
        else:
            labels[key] = text
    return labels


def classes_of(
    policy: IrPolicy, steps: Sequence[ast.Attach], tenants: Mapping[str, TenantFacts], findings: Findings
) -> dict[str, str]:
    """Tenant → its class; reports those that no class takes."""
    if not tenants:
        return {}
    from gpud.policies.compile.matching import BadLabel, classify

    found: dict[str, str] = {}
    for step in steps:
        name = step.name.text
        if name in found or name not in tenants:
            continue
        try:
            job_class = classify(policy, tenants[name])
        except BadLabel as error:
            findings.add("GP701", step.span, f"`{name}` would be refused: {error}")
            continue
        if job_class is not None:
            found[name] = job_class.name
        else:
            helps = ("give it labels that some class matches",)
            findings.add("GP701", step.name.span, f"no class of the policy takes `{name}`", helps=helps)
    return found
