"""GP309: every class must stand in `order`, once."""

import re

from gpud.policies.ir import IrPolicy, IrSetting
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.source import Span


def check_order(policy: IrPolicy, found: Findings) -> None:
    order = policy.arbiter.settings.get("order") if policy.arbiter else None
    if order is None or not isinstance(order.value, tuple):
        return
    named = [name for rank in order.value for name in rank]
    for name in dict.fromkeys(named):
        if named.count(name) > 1:
            first, second, *_ = _places(policy, order, name)
            found.add(
                "GP309",
                second,
                f"`{name}` is in `order` more than once",
                "again",
                also=[(first, "here already")],
                helps=["a class has one rank: leave one of the two out"],
            )
    missing = [one for one in policy.classes if one.name not in named]
    if missing:
        what = alternatives((one.name for one in missing), "and")
        found.add(
            "GP309",
            order.value_span,
            f"{what} {'is' if len(missing) == 1 else 'are'} missing in `order`",
            "every class needs a rank",
            also=[(one.name_span, "not in it") for one in missing],
            helps=["classes from high to low; a list inside the list is one rank: [high, [near, low]]"],
        )


def _places(policy: IrPolicy, order: IrSetting, name: str) -> list[Span]:
    """Where the name stands in the list. (A comment inside it may name it too: then that is where it points.)"""
    begin, end = order.value_span
    text = policy.source.text[begin:end]
    spans = [Span(begin + m.start(), begin + m.end()) for m in re.finditer(rf"\b{re.escape(name)}\b", text)]
    return spans if len(spans) > 1 else [order.value_span] * 2
