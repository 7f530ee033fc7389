"""GP904: hours without a time zone. GP903: hours that look meant to share out the week, and leave a gap or overlap."""

from itertools import combinations

from gpud.policies.check import week
from gpud.policies.check.walk import bodies
from gpud.policies.ir import IrBody, IrPolicy, IrRule
from gpud.policies.resolve.findings import Findings
from gpud.policies.schema import KNOBS

_SMALL = week.length(week.WHOLE) // 8
"""Minutes: less was hardly left out, or doubled, on purpose."""


def check_calendar(policy: IrPolicy, found: Findings) -> None:
    if policy.hours and policy.timezone is None:
        found.add(
            "GP904",
            policy.hours[0].span,
            f"`hours {policy.hours[0].name}` without a time zone",
            "in the zone of whichever machine reads this",
            helps=['write for example timezone "Europe/Berlin" at the top of the policy'],
        )
    _look(policy, policy.body, found)
    for each in policy.eaches:
        _look(policy, each.body, found)


def _look(policy: IrPolicy, body: IrBody, found: Findings) -> None:
    by_knob: dict[str, list[IrRule]] = {}
    for rule in body.rules:
        for step, inner in bodies(rule):
            _look(policy, inner, found)
            if rule.hours is not None and rule.otherwise is None and not step.otherwise:
                for binding in inner.bindings:
                    by_knob.setdefault(binding.knob.text, []).append(rule)
    seen: set[tuple[int, ...]] = set()
    for knob, rules in by_knob.items():
        names = tuple(dict.fromkeys(rule.hours for rule in rules if rule.hours is not None))
        if len(names) > 1 and names not in seen:
            seen.add(names)
            _compare(policy, knob, rules, found)


def _compare(policy: IrPolicy, knob: str, rules: list[IrRule], found: Findings) -> None:
    weeks = [week.week_of(policy.hours[rule.hours]) for rule in rules if rule.hours is not None]
    gap = week.rest(week.union(weeks))
    named = [f"`{policy.hours[rule.hours].name}`" for rule in rules if rule.hours is not None]
    names = " and ".join([", ".join(dict.fromkeys(named[:-1])), named[-1]])
    if 0 < week.length(gap) <= _SMALL:
        found.add(
            "GP903",
            rules[-1].head,
            f"{names} leave a gap",
            week.show(gap),
            also=[(rule.head, f"sets `{knob}` too") for rule in rules[:-1]],
            helps=["close it, or write `else` for the rest of the week"],
        )
    combines = KNOBS[knob.rpartition(".")[2]].combine != "none" if knob.rpartition(".")[2] in KNOBS else True
    for (one, its), (other, theirs) in combinations(zip(rules, weeks, strict=True), 2):
        both = week.common(its, theirs)
        if combines and both and both not in (its, theirs) and week.length(both) <= _SMALL:
            found.add(
                "GP903",
                other.head,
                f"`{policy.hours[one.hours or 0].name}` and `{policy.hours[other.hours or 0].name}` overlap",
                week.show(both),
                also=[(one.head, f"sets `{knob}` too")],
                helps=["end one where the other begins, or put one rule inside the other (the inner one wins)"],
            )
