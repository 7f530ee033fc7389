"""The messages of wire.py about memory of one device: `struct gpud_msg_memory`, all of the same fields."""

from typing import NamedTuple


class AllocAsked(NamedTuple):
    """An allocation of so many bytes does not fit; `time_ns`: it waits at most so long, 0: as long as the policy lets
    it. 0 bytes: it waits no more. In the order of `struct gpud_msg_memory`, as the five after it."""

    slot: int
    code: int
    request: int
    bytes: int
    time_ns: int


class AllocReply(NamedTuple):
    """`code` 0: there is room, try again; else GPUD_MEMORY_NO_*."""

    slot: int
    code: int
    request: int
    bytes: int
    time_ns: int


class SwapOut(NamedTuple):
    """So many bytes at least shall leave the device; its gate is shut and drained."""

    slot: int
    code: int
    request: int
    bytes: int
    time_ns: int


class Swapped(NamedTuple):
    """`code` 0: goes on, 1: done, 2: failed, 3: its context is broken; `bytes`: gone so far."""

    slot: int
    code: int
    request: int
    bytes: int
    time_ns: int


class SlotsAsked(NamedTuple):
    """Host slots for so many bytes more."""

    slot: int
    code: int
    request: int
    bytes: int
    time_ns: int


class Slots(NamedTuple):
    """`code` 0: comes with one descriptor, a sealed memory file of so many bytes; else why not."""

    slot: int
    code: int
    request: int
    bytes: int
    time_ns: int
