"""What a person has said of one job, beside the policies: `gpud set`, `gpud pause`. It holds until it is taken back."""

from attrs import frozen


@frozen(kw_only=True)
class By:
    """Who says it."""

    name: str
    """`alice (uid 1000)`"""
    operator: bool
    """Else the job's owner, who cannot take back what an operator has said."""


@frozen(kw_only=True)
class Ruling:
    """One thing said."""

    by: By
    at_ns: int
    """Unix time."""
    value: int = 0
    """Of a limit: bytes, or millionths of a device."""
