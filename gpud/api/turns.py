"""`acquire()` and `release()`: a turn on one or several GPUs, for the whole process.

    with gpud.acquire():
        train_one_batch()

Turns nest and count; every thread of the process may launch while one is held. Each is released once, by whichever
thread.
"""

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from gpud.api import callbacks, native
from gpud.api.callbacks import Callback
from gpud.api.errors import NO_HOOK, NOT_HELD, UNLOCKED, NoHookWarning, TurnError, error_of

P = ParamSpec("P")
R = TypeVar("R")
Devices = int | Sequence[int] | None
_WITHOUT_HOOK = (
    "this program was not started under gpud: it takes turns, but nothing holds what it launches without one, and its "
    "memory is moved by its own callbacks (on_swap_out) or not at all; start it with `gpud run` for that"
)
_warned = False


class Turn:
    """A turn that is held until `release()`, or the end of its `with` block. Made by `acquire()`."""

    __slots__ = ("_released", "devices", "locked")

    def __init__(self, devices: tuple[int, ...], *, locked: bool) -> None:
        self.devices = devices
        """Ordinals as the program sees them; (-1,): none is known."""
        self.locked = locked
        """False: nobody takes turns on these devices, so the turn excludes nobody."""
        self._released = threading.Lock()

    def release(self) -> None:
        """Gives the turn back. The device leaves when somebody else wants it, once the work submitted so far is done.

        Raises NotHeld if it was released before.
        """
        if not self._released.acquire(blocking=False):
            raise error_of(NOT_HELD, self.devices)
        if self.locked:
            _check(native.release(self.devices), self.devices)

    def __enter__(self) -> "Turn":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._released.locked():
            self.release()

    def __repr__(self) -> str:
        state = "released" if self._released.locked() else "held" if self.locked else "not needed"
        return f"<gpud.Turn of {self.devices}: {state}>"


def acquire(
    device: Devices = None,
    *,
    timeout: float | None = None,
    reason: str = "",
    on_swap_out: Callback = None,
    on_swap_in: Callback = None,
) -> Turn:
    """Waits until this process may use the device and its memory is there; returns the turn.

    `device`: an ordinal, several (all or nothing), or None for the current one. `timeout`: seconds; 0 asks without
    waiting; None waits for ever. `reason`: what for, a few words; `gpud ps` and `gpud why` show them to those who wait
    for this process, until its last turn there is released. Beyond 36 bytes of UTF-8 they are cut.

    `on_swap_out`, `on_swap_in`: of a program that was not started under gpud, which moves its memory itself. The first
    is called when another job needs the room, by a thread of gpud's and never during a turn; the second once by the
    next `acquire`, before it returns. A process has one such pair, the one given last. Under gpud neither is called.

    Raises TurnTimeout, NoHook, NoDaemon, TurnError; ValueError for a negative timeout or no device, TypeError for a
    reason that is no text, or callbacks that are no plain functions; whatever `on_swap_in` raises.
    """
    return take(devices_of(device), timeout=timeout, reason=reason, swap=(on_swap_out, on_swap_in))


def take(
    devices: tuple[int, ...], *, timeout: float | None, reason: str, swap: tuple[Callback, Callback] = (None, None)
) -> Turn:
    """`acquire()` of devices that are known by ordinal. `swap`: its two callbacks."""
    callbacks.checked(*swap)
    if not native.has_hook():
        if callbacks.mover.is_here():
            raise TurnError("on_swap_out takes no turn: none begins before it has returned")
        callbacks.mover.use(*swap)
    code = native.acquire(devices, _nanoseconds(timeout), _text(reason))
    _check(code, devices)
    turn = Turn(devices, locked=code != UNLOCKED)
    if not native.has_hook():
        try:
            if turn.locked:
                _warn()
            callbacks.mover.bring_in()
        except BaseException:  # warnings may be errors
            turn.release()
            raise
    return turn


def _warn() -> None:
    """Once per process, whatever filters say."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(_WITHOUT_HOOK, NoHookWarning, stacklevel=4)


def release(device: Devices = None) -> None:
    """Undoes one `acquire()` whose turn was not kept. Raises NotHeld without one."""
    devices = devices_of(device)
    _check(native.release(devices), devices)


def on_gpu(
    device: Devices = None,
    *,
    timeout: float | None = None,
    reason: str = "",
    on_swap_out: Callback = None,
    on_swap_in: Callback = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: each call of the function is one turn. Parameters as of `acquire`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with take(devices_of(device), timeout=timeout, reason=reason, swap=(on_swap_out, on_swap_in)):
                return function(*args, **kwargs)

        return call

    return decorate


def devices_of(device: Devices) -> tuple[int, ...]:
    """Ordinals, in order. None: the current device of the calling thread."""
    if device is None:
        return (native.current(),)
    devices = (device,) if isinstance(device, int) else tuple(device)
    if not devices or any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in devices):
        raise ValueError(f"device: {device!r} is neither an ordinal from 0 on nor a list of such")
    if max(devices) > native.MOST:
        raise ValueError(f"device: {max(devices)} is no ordinal: none is above {native.MOST}")
    return tuple(sorted(set(devices)))


def _nanoseconds(timeout: float | None) -> int:
    if timeout is None:
        return native.FOREVER
    if not timeout >= 0:
        raise ValueError(f"timeout: {timeout!r} is not a number of seconds from 0 on")
    return min(int(min(timeout, 1e9) * 1e9), native.FOREVER - 1)


def _text(reason: str) -> bytes:
    if not isinstance(reason, str):
        raise TypeError(f"reason: {reason!r} is no text")
    return reason.replace("\0", " ").encode(errors="replace")


def _check(code: int, devices: tuple[int, ...]) -> None:
    if code < 0:
        raise error_of(code, devices, native.missing() if code == NO_HOOK else "")
