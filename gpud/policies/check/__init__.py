"""What can be known of a policy without running it: one concern a file. whole.py looks at a whole set."""

from collections.abc import Set

from gpud.policies.check.baseline import check_baseline
from gpud.policies.check.bounds import check_bounds
from gpud.policies.check.calendar import check_calendar
from gpud.policies.check.claims import check_claims
from gpud.policies.check.conflicts import check_conflicts
from gpud.policies.check.constant import check_constant
from gpud.policies.check.cost import NO_PLUGINS, check_cost
from gpud.policies.check.effect import check_effect
from gpud.policies.check.feedback import check_feedback
from gpud.policies.check.guards import check_guards
from gpud.policies.check.order import check_order
from gpud.policies.check.reach import check_reach
from gpud.policies.check.shares import check_shares
from gpud.policies.check.unused import check_unused
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.ir import IrPolicy
from gpud.policies.plugins.declare import Plugins
from gpud.policies.resolve.findings import Findings


def check_policy(
    policy: IrPolicy,
    plugins: Plugins = NO_PLUGINS,
    *,
    claims: frozenset[str] | None = None,
    elsewhere: Set[str] = frozenset(),
) -> list[Diagnostic]:
    """Findings beyond names and types. `claims`: label keys that everybody may claim, None: not known (no GP902).
    `elsewhere`: names that tests of this policy read (for GP905)."""
    found = Findings(policy.source)
    check_bounds(policy, found)
    if any(diagnostic.code == "GP504" for diagnostic in found.found):
        return found.found  # what else there is takes time that grows with the square
    check_reach(policy, found)
    check_order(policy, found)
    check_effect(policy, found)
    check_conflicts(policy, found)
    check_constant(policy, found)
    check_shares(policy, found)
    check_cost(policy, found, plugins)
    check_guards(policy, found)
    check_claims(policy, claims, found)
    check_calendar(policy, found)
    check_unused(policy, elsewhere, found)
    check_feedback(policy, found)
    check_baseline(policy, found)
    return found.found
