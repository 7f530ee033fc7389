"""The hook in this process, if there is one: the two functions that `gpud.h` calls, by ctypes."""

import ctypes
import os
from collections.abc import Callable
from functools import cache

from gpud.api.errors import NO_HOOK, UNLOCKED

FOREVER = 2**64 - 1
CURRENT = -1
"""The calling thread's current device."""
_DEVICE = ctypes.CFUNCTYPE(ctypes.c_int)
_TURNS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_uint, ctypes.c_uint64)


@cache
def _function(name: str) -> Callable[..., int] | None:
    """The hook is there before the program starts, or never. The call drops the interpreter's lock."""
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        return None
    assert address is not None
    return (_DEVICE if name == "gpud_hook_current" else _TURNS)(address)


def current() -> int:
    """Ordinal of the calling thread's current device, the process's first where it has none; CURRENT without a hook."""
    function = _function("gpud_hook_current")
    return CURRENT if function is None else max(function(), CURRENT)


def has_hook() -> bool:
    return _function("gpud_hook_acquire") is not None


def acquire(devices: tuple[int, ...], timeout_ns: int) -> int:
    """A code of errors.py. Blocks the calling thread for at most timeout_ns."""
    return _call("gpud_hook_acquire", devices, timeout_ns)


def release(devices: tuple[int, ...]) -> int:
    return _call("gpud_hook_release", devices, 0)


def _call(name: str, devices: tuple[int, ...], timeout_ns: int) -> int:
    function = _function(name)
    if function is None:
        return UNLOCKED if os.environ.get("GPUD_OPTIONAL") == "1" else NO_HOOK
    return function((ctypes.c_int * len(devices))(*devices), len(devices), timeout_ns)
