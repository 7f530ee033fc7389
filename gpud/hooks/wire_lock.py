"""The messages of wire.py about the device lock: `struct gpud_msg_lock`, all of the same fields and in its order."""

from typing import NamedTuple

from gpud.model.errors import ProtocolError

EXPLICIT = 1
OVERRUN = 2
SHORT = 4
NEVER = 8
AGAIN = 16
LEVEL = 32
AND_ASKS = 64
SWAPS = 128
OUT = 256
FOR_EVER = 2**64 - 1
"""In LockAsked: it waits for ever."""


class LockAsked(NamedTuple):
    """`epoch`: the client's own number of the request; `time_ns`: it waits at most so long; `bytes`: must come in."""

    slots: int
    flags: int
    epoch: int
    time_ns: int
    bytes: int


class LockWithdrawn(NamedTuple):
    """Nobody in the client waits any more; `epoch`: the number of the request."""

    slots: int
    flags: int
    epoch: int
    time_ns: int
    bytes: int


class LockIsIn(NamedTuple):
    """Memory is in, or with SHORT not all of it; `time_ns`: how long it took, `bytes`: what came."""

    slots: int
    flags: int
    epoch: int
    time_ns: int
    bytes: int


class LockBack(NamedTuple):
    """Drained and given back, or OVERRUN (with NEVER: a stream capture is open), or NEVER; `time_ns`: how long it took.
    With AND_ASKS it is a LockAsked, too: `bytes`: the number of the request, `time_ns`: as there."""

    slots: int
    flags: int
    epoch: int
    time_ns: int
    bytes: int


class LockGranted(NamedTuple):
    """`time_ns`: end of the turn; `bytes`: so much of its memory may be on the device."""

    slots: int
    flags: int
    epoch: int
    time_ns: int
    bytes: int


class LockRevoked(NamedTuple):
    """`time_ns`: deadline for LOCK_BACK."""

    slots: int
    flags: int
    epoch: int
    time_ns: int
    bytes: int


class LockRefused(NamedTuple):
    """No, and why, a sentence for the user."""

    request: int
    text: str


Said = LockAsked | LockWithdrawn | LockIsIn | LockBack
SAID = (LockAsked, LockWithdrawn, LockIsIn, LockBack)
"""By clients."""
_FLAGS: dict[type, int] = {
    LockAsked: EXPLICIT | SWAPS | OUT,
    LockWithdrawn: EXPLICIT,
    LockIsIn: SHORT
    | OVERRUN
    | NEVER
    | SWAPS
    | OUT,  # a hook has one word for both: who owed IS_IN when it overran says both
    LockBack: SHORT | OVERRUN | NEVER | AND_ASKS | EXPLICIT | SWAPS | OUT,
}


def check(message: Said, name: str, slots: int) -> None:
    """Raises ProtocolError when a client's message is nonsense. `slots`: bits of the device slots it may name."""
    if message.slots == 0:
        raise ProtocolError(f"{name} names no device")
    if message.slots & ~slots:
        raise ProtocolError(f"{name} names device slots {message.slots:#x}; the client has {slots:#x}")
    if message.flags & ~_FLAGS[type(message)]:
        raise ProtocolError(f"{name} has unknown flags {message.flags:#x}")
    if message.flags & AND_ASKS and message.flags & (SHORT | OVERRUN | NEVER):
        raise ProtocolError(f"{name} asks for devices that it has yet to give back")
    if message.epoch == 0 or (message.flags & AND_ASKS and message.bytes == 0):
        raise ProtocolError(f"{name} has number 0; numbers begin with 1")
