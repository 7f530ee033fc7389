"""What this version of gpud enforces; `apply` refuses the rest, by name. Tests compare it with what the engine does."""

from gpud.policies.enforce import THIS_VERSION

ENFORCED = THIS_VERSION
