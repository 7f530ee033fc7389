"""Why a session is refused: the codes of GPUD_MSG_REFUSED in gpud_wire.h. `gpud run` imports this."""

VERSION = 1
"""No common version of the protocol."""
IDENTITY = 2
"""Not who it was, dead, or in a PID namespace that the daemon cannot see."""
POLICY = 3
"""The policy says no: an unknown class, one that may not be claimed."""
PROTOCOL = 4
"""Malformed."""
RESOURCES = 5
"""The daemon has no room."""
DRAINING = 6
"""The daemon is ending."""
ADMISSION = 7
"""The policy lets no further job in now. (A launcher hears POLICY.)"""
