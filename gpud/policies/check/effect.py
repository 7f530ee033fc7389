"""GP403: what can never act in this policy, whatever happens. site.py knows beside which arbiter it stands."""

import re

from gpud.policies.check.walk import Writer, all_writers
from gpud.policies.ir import Const, IrPolicy
from gpud.policies.quantities import show_value
from gpud.policies.resolve.findings import Findings
from gpud.policies.schema import KNOBS, UNLIMITED
from gpud.policies.values import RESIDENCIES

_LOOSEST = {"any": False, "all": True, "min": UNLIMITED, "furthest": RESIDENCIES[0]}
"""Combined with anything, this leaves it as it is."""


def check_effect(policy: IrPolicy, found: Findings) -> None:
    if policy.arbiter is None:
        _only_loose(policy, found)
    elif policy.mode == "preempt":
        _first_rank(policy, found)


def _only_loose(policy: IrPolicy, found: Findings) -> None:
    """In a policy that only tightens: a knob of a class that it nowhere tightens."""
    for text, first in never_tightened(policy).items():
        if first.path and first.path[0].rule.kind == "guard":
            continue  # GP307 has said it
        value = first.binding.value
        shown = show_value(value.value, value.type) if isinstance(value, Const) else ""
        message = f"`{text}` has no effect: a policy without `arbitrate` only tightens, and `{shown}` does not"
        helps = ["leave it out, or set it in the policy that arbitrates"]
        found.add("GP403", first.binding.span, message, "without effect", helps=helps)


def never_tightened(policy: IrPolicy) -> dict[str, Writer]:
    """Knobs of a policy without `arbitrate` that are set to their loosest values only, and where first."""
    bindings: dict[str, list[Writer]] = {}
    for writer in all_writers(policy):
        bindings.setdefault(writer.binding.knob.text, []).append(writer)
    return {text: all_[0] for text, all_ in bindings.items() if all(_is_loosest(policy, one) for one in all_)}


def _is_loosest(policy: IrPolicy, writer: Writer) -> bool:
    """A constant, and none that `apply` may change."""
    knob, value = KNOBS.get(writer.binding.knob.name), writer.binding.value
    if knob is None or knob.combine not in _LOOSEST or not isinstance(value, Const) or value.value is None:
        return False
    words = re.findall(r"\w+", policy.source.text[slice(*writer.binding.span)].partition("=")[2])
    return value.value == _LOOSEST[knob.combine] and not any(param.name in words for param in policy.params)


def _first_rank(policy: IrPolicy, found: Findings) -> None:
    """Above the first rank there is nothing to yield to, and nowhere to rise."""
    assert policy.arbiter is not None
    order = policy.arbiter.settings.get("order")
    if order is None or not order.value:
        return
    top, also = order.value[0], [(order.value_span, "the highest comes first")]
    for one in policy.classes:
        rise = one.settings.get("rise_after")
        if rise is not None and one.name in top:
            message = f"`rise_after` has no effect: no rank is above that of `{one.name}`"
            found.add("GP403", rise.span, message, "without effect", also=also, helps=["leave it out"])
    said: set[str] = set()
    for writer in all_writers(policy):
        knob = writer.binding.knob
        if knob.name == "yield" and knob.job_class in top and knob.job_class not in said:
            said.add(knob.job_class)
            message = f"`{knob.text}` has no effect: no rank is above that of `{knob.job_class}`"
            found.add("GP403", writer.binding.target_span, message, "without effect", also=also, helps=["leave it out"])
