"""The library in this process, by ctypes: the hook that `gpud run` has preloaded, whose functions `gpud.h` calls; else
the same library, loaded for turns alone at the first one. Nothing of the program passes through it then.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache

from gpud.api.errors import NO_HOOK, OK, UNLOCKED
from gpud.native import hook_library

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
FAILED, MOVED, WAS_OUT = range(3)
_ONE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
_KINDS = {
    "gpud_hook_current": _DEVICE,
    "gpud_hook_acquire_for": _TURNS_FOR,
    "gpud_hook_swaps": _ONE,
    "gpud_hook_swap_wait": _DEVICE,
    "gpud_hook_swap_done": _ONE,
}
_LOCALLY = os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_NODELETE


class _Library:
    """One of the two. `hook`: preloaded, and the program runs under it; `why` says why there is none at all."""

    def __init__(self) -> None:
        self.why, self.hook = "", True
        self.found: ctypes.CDLL | None = ctypes.CDLL(None)
        if hasattr(self.found, "gpud_hook_acquire"):
            return
        self.hook = False
        try:
            self.found = ctypes.CDLL(str(hook_library()), mode=_LOCALLY)
            if self.found.gpud_hook_hookless() == OK:
                return
            self.why = f"{hook_library()} is in use by another way"
        except OSError as error:
            self.why = str(error)
        except AttributeError:
            self.why = f"{hook_library()} is of another version"
        self.found = None


@cache
def _library() -> _Library:
    """The hook is there before the program starts, or never."""
    return _Library()


@cache
def _function(name: str) -> Callable[..., int] | None:
    """The call drops the interpreter's lock."""
    try:
        address = ctypes.cast(getattr(_library().found, name), ctypes.c_void_p).value
    except AttributeError:
        return None
    assert address is not None
    return _KINDS.get(name, _TURNS)(address)


def current() -> int:
    """Ordinal of the calling thread's current device, the process's first where it has none; CURRENT without a
    library."""
    function = _function("gpud_hook_current")
    return CURRENT if function is None else max(function(), CURRENT)


def has_hook() -> bool:
    """The program was started under gpud."""
    return _library().hook


def missing() -> str:
    """Why there is no library."""
    return _library().why


def acquire(devices: tuple[int, ...], timeout_ns: int, reason: bytes) -> int:
    """A code of errors.py. Blocks the calling thread for at most timeout_ns. `reason`: UTF-8 without zeros."""
    if _function("gpud_hook_acquire_for") is None:  # none, or that of an earlier gpud
        return _call("gpud_hook_acquire", devices, timeout_ns)
    return _call("gpud_hook_acquire_for", devices, timeout_ns, reason)


def release(devices: tuple[int, ...]) -> int:
    return _call("gpud_hook_release", devices, 0)


def swaps(*, out: bool) -> None:
    """The process moves its memory itself when asked; `out`: it has, and has yet to bring it in. Without effect under
    the hook, which does that."""
    if not has_hook() and (function := _function("gpud_hook_swaps")) is not None:
        function(int(out))


def swap_wait() -> bool:
    """Blocks until the memory shall leave; False: nobody will ever ask."""
    function = None if has_hook() else _function("gpud_hook_swap_wait")
    return function is not None and function() == OK


def swap_done(moved: int) -> None:
    """FAILED, MOVED, or WAS_OUT already."""
    function = _function("gpud_hook_swap_done")
    if function is not None:
        function(moved)


def _call(name: str, devices: tuple[int, ...], *more: int | bytes) -> int:
    function = _function(name)
    if function is None:
        return UNLOCKED if os.environ.get("GPUD_OPTIONAL") == "1" else NO_HOOK
    return function((ctypes.c_int * len(devices))(*devices), len(devices), *more)
