"""GP902: a class matched on a label that anybody may claim for himself."""

from gpud.policies.check.walk import parts
from gpud.policies.ir import IrPolicy, TenantRead
from gpud.policies.resolve.findings import Findings


def check_claims(policy: IrPolicy, claims: frozenset[str] | None, found: Findings) -> None:
    """`claims`: keys that everybody may claim, those with `"*"` in gpud.toml's `[claims]`; None: not known, or a
    daemon of one user, to whom all jobs belong anyway."""
    for one in policy.classes:
        for part in parts(one.match):
            if isinstance(part, TenantRead) and part.key and part.key in (claims or ()):
                found.add(
                    "GP902",
                    part.span,
                    f"anybody may claim the label `{part.key}`, so anybody may join class `{one.name}`",
                    'open to all: `"*"` in [claims]',
                    helps=[
                        f'name who may claim it in gpud.toml: {part.key} = ["@group"]',
                        "or match on cgroup, exe, user, group, namespace or pod, which cannot be claimed",
                    ],
                )
