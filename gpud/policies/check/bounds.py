"""GP504: at most so many classes, rules and levels."""

from gpud.policies.check.walk import rules
from gpud.policies.ir import IrPolicy
from gpud.policies.resolve.findings import Findings
from gpud.policies.schema import MAX_CLASSES, MAX_NESTING, MAX_RULES


def check_bounds(policy: IrPolicy, found: Findings) -> None:
    if len(policy.classes) > MAX_CLASSES:
        found.add(
            "GP504",
            policy.classes[MAX_CLASSES].name_span,
            f"{len(policy.classes)} classes; {MAX_CLASSES} are allowed",
            "the first too many",
            helps=["`per = user` or `per = label(…)` divides one class into many units"],
        )
    every = list(rules(policy))
    if len(every) > MAX_RULES:
        found.add(
            "GP504",
            every[MAX_RULES].rule.head,
            f"{len(every)} rules; {MAX_RULES} are allowed",
            "the first too many",
            helps=["put bindings that hold together into one rule"],
        )
    for one in every:
        if len(one.path) == MAX_NESTING:  # those inside it are too deep as well, which need not be said
            found.add(
                "GP504",
                one.rule.head,
                f"rules are nested more than {MAX_NESTING} deep",
                f"level {MAX_NESTING + 1}",
                also=[(one.path[0].rule.head, "the outermost")],
                helps=["join conditions with `and`, or name one with `let`"],
            )
