"""The same under asyncio and trio: `async with gpud.aio.acquire(): …`.

A thread waits in the loop's stead, and calls `on_swap_in`. A wait that is cancelled keeps its place in line until its
turn comes, and gives that back at once.
"""

import sys
import threading
from collections.abc import Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from gpud.api.callbacks import Callback
from gpud.api.turns import Devices, Turn, devices_of, take

P = ParamSpec("P")
R = TypeVar("R")


class acquire:
    """`turn = await gpud.aio.acquire()` or `async with gpud.aio.acquire():`. Parameters and errors as of
    `gpud.acquire`."""

    def __init__(
        self,
        device: Devices = None,
        *,
        timeout: float | None = None,
        reason: str = "",
        on_swap_out: Callback = None,
        on_swap_in: Callback = None,
    ) -> None:
        self._wait = _Wait(devices_of(device), timeout, reason, (on_swap_out, on_swap_in))
        self._turn: Turn | None = None

    def __await__(self) -> Any:
        return _finish(self._wait).__await__()

    async def __aenter__(self) -> Turn:
        self._turn = await self
        return self._turn

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._turn is not None
        self._turn.__exit__(kind, error, at)


def on_gpu(
    device: Devices = None,
    *,
    timeout: float | None = None,
    reason: str = "",
    on_swap_out: Callback = None,
    on_swap_in: Callback = None,
) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """A decorator of async functions: each call is one turn."""

    def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            swap: dict[str, Callback] = {"on_swap_out": on_swap_out, "on_swap_in": on_swap_in}
            async with acquire(device, timeout=timeout, reason=reason, **swap):
                return await function(*args, **kwargs)

        return call

    return decorate


class _Wait:
    """One wait in a thread. Its turn goes to whoever awaits it; to nobody, if they have left."""

    def __init__(
        self, devices: tuple[int, ...], timeout: float | None, reason: str, swap: tuple[Callback, Callback]
    ) -> None:
        self._devices, self._timeout, self._reason, self._swap = devices, timeout, reason, swap
        self._lock = threading.Lock()
        self._left = False
        self._turn: Turn | None = None

    def run(self) -> Turn:
        turn = take(self._devices, timeout=self._timeout, reason=self._reason, swap=self._swap)
        with self._lock:
            if not self._left:
                self._turn = turn
                return turn
        turn.release()
        return turn

    def leave(self) -> None:
        """Whoever awaited it is cancelled."""
        with self._lock:
            self._left, turn = True, self._turn
        if turn is not None:
            turn.release()


async def _finish(wait: _Wait) -> Turn:
    try:
        if _under_trio():
            import trio

            return await trio.to_thread.run_sync(wait.run, abandon_on_cancel=True)
        return await _in_asyncio(wait)
    except BaseException:
        wait.leave()
        raise


async def _in_asyncio(wait: _Wait) -> Turn:
    """A thread of its own: the loop's executor has few, and would not end before them."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Turn] = loop.create_future()

    def tell(turn: Turn | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            assert turn is not None
            future.set_result(turn)

    def work() -> None:
        turn, error = None, None
        try:
            turn = wait.run()
        except BaseException as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(tell, turn, error)
        except RuntimeError:  # the loop is closed: whoever waited is gone
            wait.leave()

    threading.Thread(target=work, name="gpud acquire", daemon=True).start()
    return await future


def _under_trio() -> bool:
    if "trio" not in sys.modules:
        return False
    import trio

    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True
