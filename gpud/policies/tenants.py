"""What a policy may know of a tenant when it attaches."""

from collections.abc import Mapping

from attrs import frozen


@frozen(kw_only=True)
class TenantFacts:
    """Facts, all from the kernel, the container runtime or `gpud run`. Texts are "" where there is none."""

    labels: Mapping[str, str]
    """Runtime's and claimed ones together, claims already judged."""
    exe: str = ""
    """Path of the program."""
    cgroup: str = ""
    user: str = ""
    group: str = ""
    """Primary group."""
    namespace: str = ""
    """Of the cluster engine."""
    pod: str = ""
