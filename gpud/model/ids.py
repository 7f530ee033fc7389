"""Names of things. Most are small integers; the types keep them apart."""

from typing import NewType

JobId = NewType("JobId", int)
"""A job (inside: tenant). Never used twice while a state file lives."""
ClientId = NewType("ClientId", int)
"""An attached process. Never used twice while a state file lives."""
Slot = NewType("Slot", int)
"""A device's node-wide number in the pages, 0 … 7."""
Generation = NewType("Generation", int)
"""Of pages: grows always, over restarts too (it begins at the boot clock's nanoseconds)."""
SessionId = NewType("SessionId", int)
"""One connection to hook.sock."""
UnitName = tuple[str, str, str]
"""(policy, class, member by its `per`): what tenants are counted together as."""


def uuid_text(raw: bytes) -> str:
    """A device's UUID, 16 bytes → `GPU-8a5b…`, as the driver's tools print it."""
    digits = raw.hex()
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
