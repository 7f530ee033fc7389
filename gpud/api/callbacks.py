"""`on_swap_out` and `on_swap_in`: a program without hook moves its memory itself, when another one needs the room.

A process has one pair: the one that was given last. A thread of gpud's waits for the daemon to ask, and calls
`on_swap_out`; the library lets no turn begin meanwhile. The next `acquire` calls `on_swap_in`.
"""

import os
import threading
from collections.abc import Callable

from gpud.api import native

Callback = Callable[[], object] | None
_CO_COROUTINE = 0x80
"""As in `inspect`, which takes longer to import than all of this."""


class Mover:
    """Of the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # on_swap_in may take turns itself
        self._pair: tuple[Callback, Callback] = (None, None)
        self._later: tuple[Callback, Callback] | None = None
        """Given while the memory of `_pair` is out: that comes in by its own function first."""
        self._out = False
        self._serves = False
        self._moving: int | None = None
        """The thread that is in on_swap_out."""

    def use(self, on_swap_out: Callback, on_swap_in: Callback) -> None:
        """From now on. Nothing given, nothing changed."""
        if on_swap_out is None:
            return
        with self._lock:
            if self._out:
                self._later = on_swap_out, on_swap_in
            else:
                self._pair = on_swap_out, on_swap_in
            if not self._serves:
                self._serves = True
                threading.Thread(target=self._serve, name="gpud swap", daemon=True).start()
                native.swaps(out=self._out)

    def is_here(self) -> bool:
        """The calling thread is in on_swap_out: a turn that it asks for would wait for its own end."""
        return self._moving == threading.get_ident()

    def bring_in(self) -> None:
        """The process has the device. Raises what `on_swap_in` does; then the memory is still out."""
        with self._lock:
            if not self._out:
                return
            self._out = False
            try:
                if self._pair[1] is not None:
                    self._pair[1]()
            except BaseException:
                self._out = True
                raise
            if self._later is not None:
                self._pair, self._later = self._later, None
            native.swaps(out=False)

    def _serve(self) -> None:
        while native.swap_wait():
            native.swap_done(self._move_out())

    def _move_out(self) -> int:
        with self._lock:
            if self._out:
                return native.WAS_OUT
            function = self._pair[0]
        assert function is not None
        try:
            self._moving = threading.get_ident()
            function()
        except BaseException:  # whatever it is, it is told; the thread goes on
            import logging

            logging.getLogger("gpud").warning("on_swap_out failed, nothing counts as moved", exc_info=True)
            return native.FAILED
        finally:
            self._moving = None
        with self._lock:
            self._out = True
            native.swaps(out=True)
        return native.MOVED


def checked(on_swap_out: Callback, on_swap_in: Callback) -> None:
    """Raises TypeError, ValueError for what can be no callbacks."""
    for name, given in (("on_swap_out", on_swap_out), ("on_swap_in", on_swap_in)):
        is_async = getattr(getattr(given, "__code__", None), "co_flags", 0) & _CO_COROUTINE
        if given is not None and (not callable(given) or is_async):
            raise TypeError(f"{name}: {given!r} is not a plain function")
    if on_swap_in is not None and on_swap_out is None:
        raise ValueError("on_swap_in: without on_swap_out nothing ever has to come in")


mover = Mover()


def _forked() -> None:
    """The child has neither the thread nor the memory."""
    global mover
    mover = Mover()


os.register_at_fork(after_in_child=_forked)
