"""GP901: a guard that ends as soon as its condition does."""

from gpud.policies.ir import Const, IrPolicy
from gpud.policies.resolve.findings import Findings


def check_guards(policy: IrPolicy, found: Findings) -> None:
    for guard in policy.guards:
        if guard.until is None and guard.condition is not None and not isinstance(guard.condition.condition, Const):
            found.add(
                "GP901",
                guard.head,
                "this guard has no `until`",
                "it ends as soon as its condition does, and may flap",
                helps=["say when all is well again: until … for …"],
            )
