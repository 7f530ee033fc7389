"""GP304: a rule that can never hold, never ends, or always holds."""

import re

from gpud.policies.check.holding import holding, possible
from gpud.policies.check.space import Space
from gpud.policies.check.truth import FALSE, TRUE, Budget, Formula
from gpud.policies.check.walk import Found, Step, rules
from gpud.policies.ir import Const, IrHeld, IrPolicy
from gpud.policies.resolve.findings import Findings
from gpud.policies.source import Span

_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_NEVER, _ALWAYS = "can never hold", "always holds"


def check_constant(policy: IrPolicy, found: Findings) -> None:
    budget = Budget()
    for one in rules(policy):
        if not _alone(policy, one, budget, found):
            _inside_others(policy, one, budget, found)


def _alone(policy: IrPolicy, one: Found, budget: Budget, found: Findings) -> bool:
    """Looks at the rule itself. Has anything been said?"""
    rule, space = one.rule, Space(policy, budget)
    if rule.hours is not None:
        hours = policy.hours[rule.hours]
        if _truths(space, space.hours(rule.hours, rule.early_ns)) == TRUE:
            _report(found, one, rule.head, _ALWAYS, f"`{hours.name}` has every hour of the week", _unwrap(one))
            return True
        return False
    if rule.condition is None:
        return False
    condition = space.formula(rule.condition.condition, one.each)
    truths = 0 if _is_meant(policy, rule.condition, one.guard) else _truths(space, condition)
    if truths in (TRUE, FALSE):
        never = truths == FALSE
        said = "this can never be true" if never else "this is always true"
        helps = "change the condition, or delete the rule" if never else _unwrap(one)
        _report(found, one, rule.condition.condition.span, _NEVER if never else _ALWAYS, said, helps)
        return True
    if rule.until is None:
        return False
    until = space.formula(rule.until.condition, one.each)
    span = rule.until.condition.span
    if _is_meant(policy, rule.until, False):
        return False
    truths = _truths(space, until)
    if truths == FALSE:
        _report(found, one, span, "never ends once it holds", "this can never be true", "change what ends the rule")
        return True
    tried = space.cells([condition, until])
    if truths == TRUE or (
        tried is not None and all(until.truth(cell) == TRUE for cell in tried if condition.truth(cell) & TRUE)
    ):
        found.add(
            "GP304",
            span,
            f"this `{rule.kind}` {_NEVER}",
            "already true whenever the condition is",
            also=[(rule.condition.condition.span, "the condition")],
            helps=["a rule begins only while its `until` is not true: let `until` say when it is over"],
        )
        return True
    return False


def _inside_others(policy: IrPolicy, one: Found, budget: Budget, found: Findings) -> None:
    """Can it hold while the rules around it do?"""
    space = Space(policy, budget)
    own = holding(space, Step(one.rule), one.each)
    for around in one.path:
        outer = holding(space, around, one.each)
        keys = {key for formula in outer.formulas for key in formula.variables}
        shared = list(dict.fromkeys(key for formula in own.formulas for key in formula.variables if key in keys))
        if not shared:
            continue
        tried = space.cells((*own.formulas, *outer.formulas), shared)
        if tried is not None and not any(possible(own.enters, cell) and possible(outer.stays, cell) for cell in tried):
            text = "while this does not hold" if around.otherwise else "while this holds"
            found.add(
                "GP304",
                one.rule.head,
                f"this `{one.rule.kind}` {_NEVER}",
                "inside the other rule, it contradicts it",
                also=[(around.rule.head, f"rules inside hold only {text}")],
                helps=["move it out of the other rule, or change one of the two conditions"],
            )
            return


def _truths(space: Space, formula: Formula) -> int:
    """What it may be when everything is known; 0 if there is too much to try."""
    tried = space.cells([formula])
    truths = 0
    for cell in tried or ():
        truths |= formula.truth(cell)
        if truths not in (TRUE, FALSE):
            return truths
    return truths


def _is_meant(policy: IrPolicy, held: IrHeld, guard: bool) -> bool:
    """`guard true`; or constant because a parameter is, which an argument changes."""
    if not isinstance(held.condition, Const):
        return False
    if guard and held.condition.value is True:
        return True
    span = held.condition.span
    words = set(_WORD.findall(policy.source.text[span.start : span.end]))
    return any(param.name in words for param in policy.params)


def _unwrap(one: Found) -> str:
    return "write `guard true` if it shall always hold" if one.guard else "take its bindings out of the rule"


def _report(found: Findings, one: Found, span: Span, what: str, label: str, help: str) -> None:
    found.add("GP304", span, f"this `{one.rule.kind}` {what}", label, helps=[help])
