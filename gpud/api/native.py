"""The hook in this process, if there is one: the two functions that `gpud.h` calls, by ctypes."""

import ctypes
import os
from collections.abc import Callable
from functools import cache

from gpud.api.errors import NO_HOOK, UNLOCKED

FOREVER = 2**64 - 1
CURRENT = -1
"""The calling thread's current device."""
MOST = 2**31 - 1
"""The greatest ordinal: a C int. ctypes would cut a greater one down to another device's."""
_DEVICE = ctypes.CFUNCTYPE(ctypes.c_int)
_TURNS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_uint, ctypes.c_uint64)
_TURNS_FOR = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_uint, ctypes.c_uint64, ctypes.c_char_p
)
_KINDS = {"gpud_hook_current": _DEVICE, "gpud_hook_acquire_for": _TURNS_FOR}


@cache
def _function(name: str) -> Callable[..., int] | None:
    """The hook is there before the program starts, or never. The call drops the interpreter's lock."""
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        return None
    assert address is not None
    return _KINDS.get(name, _TURNS)(address)


def current() -> int:
    """Ordinal of the calling thread's current device, the process's first where it has none; CURRENT without a hook."""
    function = _function("gpud_hook_current")
    return CURRENT if function is None else max(function(), CURRENT)


def has_hook() -> bool:
    return _function("gpud_hook_acquire") is not None


def acquire(devices: tuple[int, ...], timeout_ns: int, reason: bytes) -> int:
    """A code of errors.py. Blocks the calling thread for at most timeout_ns. `reason`: UTF-8 without zeros."""
    if _function("gpud_hook_acquire_for") is None:  # none, or that of an earlier gpud
        return _call("gpud_hook_acquire", devices, timeout_ns)
    return _call("gpud_hook_acquire_for", devices, timeout_ns, reason)


def release(devices: tuple[int, ...]) -> int:
    return _call("gpud_hook_release", devices, 0)


def _call(name: str, devices: tuple[int, ...], *more: int | bytes) -> int:
    function = _function(name)
    if function is None:
        return UNLOCKED if os.environ.get("GPUD_OPTIONAL") == "1" else NO_HOOK
    return function((ctypes.c_int * len(devices))(*devices), len(devices), *more)
