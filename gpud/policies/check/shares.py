"""GP502: fixed shares that can be in force together must fit on the device; counted with one unit a class. Under
`preempt` they divide the time of one rank.
"""

from typing import NamedTuple

from gpud.policies.check.holding import exclusive
from gpud.policies.check.space import Space
from gpud.policies.check.truth import Budget
from gpud.policies.check.walk import Path, writers
from gpud.policies.ir import Const, IrPolicy
from gpud.policies.resolve.findings import Findings
from gpud.policies.source import Span
from gpud.policies.values import Share

_MOST_TRIES = 2000


class _Claim(NamedTuple):
    """One class may have this share."""

    percent: int
    span: Span
    path: Path | None
    """Of the rule that gives it; None: the class itself."""


def check_shares(policy: IrPolicy, found: Findings) -> None:
    if policy.mode not in ("share", "preempt"):
        return
    claims = _claims(policy)
    for rank in _ranks(policy):
        options = [claims[one.name] for one in policy.classes if one.name in rank]
        together = _too_much(policy, [option for option in options if option])
        if together:
            _report(found, together, policy.mode)


def _ranks(policy: IrPolicy) -> list[tuple[str, ...]]:
    order = policy.arbiter.settings.get("order") if policy.arbiter else None
    if policy.mode == "preempt" and order is not None and isinstance(order.value, tuple):
        return list(order.value)
    return [tuple(one.name for one in policy.classes)]


def _claims(policy: IrPolicy) -> dict[str, list[_Claim]]:
    """Fixed shares by class, what the class itself says first."""
    claims: dict[str, list[_Claim]] = {one.name: [] for one in policy.classes}
    for one in policy.classes:
        share = one.settings.get("share")
        if share is not None and _is_fixed(share.value):
            claims[one.name].append(_Claim(share.value.percent, share.value_span, None))
    for writer in writers(policy):
        knob, value = writer.binding.knob, writer.binding.value
        if knob.name == "share" and isinstance(value, Const) and _is_fixed(value.value) and knob.job_class in claims:
            claims[knob.job_class].append(_Claim(value.value.percent, value.span, writer.path))
    return claims


def _is_fixed(value: object) -> bool:
    return isinstance(value, Share) and value.kind == "fixed"


def _too_much(policy: IrPolicy, options: list[list[_Claim]]) -> tuple[_Claim, ...]:
    """The shares of classes as they write them, if that is too much; else the first others found that are."""
    own = tuple(option[0] for option in options if option[0].path is None)
    if _sum(own) > 100:
        return own
    most = [0]
    for option in reversed(options):
        most.append(most[-1] + max(claim.percent for claim in option))
    tries = 0
    budget = Budget()

    def search(number: int, chosen: tuple[_Claim, ...]) -> tuple[_Claim, ...]:
        nonlocal tries
        if _sum(chosen) > 100:
            return chosen
        tries += 1
        if tries > _MOST_TRIES or _sum(chosen) + most[len(options) - number] <= 100:
            return ()
        for claim in options[number]:
            if all(_together(Space(policy, budget), claim, other) for other in chosen):
                result = search(number + 1, (*chosen, claim))
                if result:
                    return result
        return search(number + 1, chosen)

    return search(0, ())


def _together(space: Space, one: _Claim, other: _Claim) -> bool:
    return one.path is None or other.path is None or not exclusive(space, one.path, other.path)


def _sum(claims: tuple[_Claim, ...]) -> int:
    return sum(claim.percent for claim in claims)


def _report(found: Findings, together: tuple[_Claim, ...], mode: str) -> None:
    *others, last = sorted(together, key=lambda claim: claim.span)
    helps = ["fixed shares may add up to 100% at most"]
    if any(claim.path for claim in together):
        helps.append("rules that are never in force at once may give more: different hours, or `else`")
    found.add(
        "GP502",
        last.span,
        f"fixed shares promise {_sum(together)}% of the GPU" + (" within one rank" if mode == "preempt" else ""),
        f"{last.percent}%",
        also=[(claim.span, f"{claim.percent}%") for claim in others],
        helps=helps,
    )
