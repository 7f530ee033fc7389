"""What a policy's `arbitrate` block says, with its defaults."""

from typing import Any

from gpud.policies.ir import IrPolicy
from gpud.policies.schema import BLOCKS


def ranks_of(policy: IrPolicy) -> dict[str, int]:
    """Class → rank, 0 the highest. Without an order all are equal."""
    order = policy.arbiter.settings.get("order") if policy.arbiter else None
    ranks = {job_class.name: 0 for job_class in policy.classes}
    for rank, entry in enumerate(order.value if order else ()):
        for name in (entry,) if isinstance(entry, str) else entry:
            ranks[name] = rank
    return ranks


def setting(policy: IrPolicy, name: str) -> Any:
    """Of its arbiter, or the default."""
    assert policy.arbiter is not None
    written = policy.arbiter.settings.get(name)
    if written is not None:
        return written.value
    return next(row.default for row in BLOCKS["arbitrate", policy.arbiter.mode] if row.name == name)
