"""The driver's own figures, asked in a thread with a deadline: a driver that hangs never stops the daemon.

Asked only when somebody wants to know; no timer, so that a screen that is not looked at keeps no GPU awake.
"""

import contextlib
import ctypes
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from gpud.model.ids import uuid_text as uuid_text

log = logging.getLogger("gpud.devices")

DEADLINE_S = 5.0
FRESH_S = 0.5
"""An answer is used again for so long."""


@frozen(kw_only=True)
class Usage:
    """One device at one moment, by the driver's account."""

    uuid: bytes
    name: str
    total_bytes: int
    used_bytes: int
    utilisation: float | None
    pids: tuple[int, ...]


class DriverError(Exception):
    """The driver said no, or there is none. The text is a sentence."""


class Driver:
    """Made by `open_driver`. One question at a time: who comes meanwhile gets the same answer; while one hangs, the
    others are told so at once."""

    def __init__(self, ask: Callable[[], list[Usage]], deadline_s: float) -> None:
        self._ask = ask
        self._deadline_s = deadline_s
        self._limiter = trio.CapacityLimiter(1)
        self._asking = trio.Lock()
        self._asked_at: float | None = None
        self._last: dict[bytes, Usage] = {}
        self._last_at = -FRESH_S
        self._trouble = "not asked yet"

    def trouble(self) -> str:
        """`ok`, or one sentence."""
        if self._asked_at is not None and time.monotonic() - self._asked_at > self._deadline_s:
            return f"the driver has not answered for {time.monotonic() - self._asked_at:.0f} s"
        return self._trouble

    async def usage(self) -> dict[bytes, Usage]:
        """By UUID; the last answer when it is fresh; empty while the driver does not answer. Never longer than the
        deadline."""
        async with self._asking:
            if self._asked_at is not None:
                return {}  # it hangs: do not pile up threads
            if time.monotonic() - self._last_at < FRESH_S:
                return self._last
            self._asked_at = time.monotonic()
            with trio.move_on_after(self._deadline_s) as scope:
                await trio.to_thread.run_sync(self._answered, abandon_on_cancel=True, limiter=self._limiter)
            if scope.cancelled_caught:
                log.warning("%s", self.trouble())
                return {}
            return self._last

    def _answered(self) -> None:
        """In the thread, to its end even when nobody waits any more."""
        try:
            self._last = {usage.uuid: usage for usage in self._ask()}
            self._trouble = "ok"
        except DriverError as error:
            self._last, self._trouble = {}, str(error)
        except Exception as error:  # a driver library may do anything
            self._last, self._trouble = {}, f"the driver's library failed: {error!r}"
        self._last_at = time.monotonic()
        self._asked_at = None


def ask_nvml(library: Path | None = None) -> list[Usage]:
    """All devices. `library`: this one instead of the system's, which stays loaded and open (the simulated node lives
    as long as somebody has it open). Blocks for as long as the driver likes. Raises DriverError."""
    if library is not None:
        _load(library)
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DriverError(f"no NVIDIA driver answers: {error}") from None
    try:
        return [_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        raise DriverError(f"the driver does not tell of its devices: {error}") from None
    finally:
        if library is None:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


_loaded: dict[Path, ctypes.CDLL] = {}


def _load(library: Path) -> None:
    """pynvml asks for `libnvidia-ml.so.1`; the loader answers with what has that name already."""
    if library not in _loaded:
        try:
            _loaded[library] = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise DriverError(f"the simulated driver cannot be loaded: {error}; build gpud anew") from None


def _device(nvml: Any, index: int) -> Usage:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Usage(
        uuid=uuid_bytes(_text(nvml.nvmlDeviceGetUUID(handle))),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        total_bytes=int(memory.total),
        used_bytes=int(memory.used),
        utilisation=_utilisation(nvml, handle),
        pids=_pids(nvml, handle),
    )


def _utilisation(nvml: Any, handle: Any) -> float | None:
    try:
        return float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
    except nvml.NVMLError:
        return None  # MIG devices have none


def _pids(nvml: Any, handle: Any) -> tuple[int, ...]:
    try:
        found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError:
        return ()
    return tuple(sorted(int(process.pid) for process in found))


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def uuid_bytes(text: str) -> bytes:
    """`GPU-8a5b…` → 16 bytes. Raises DriverError."""
    digits = text.partition("-")[2].replace("-", "")
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise DriverError(f"the driver names a device {text!r}, which is no UUID")
    return raw


@asynccontextmanager
async def open_driver(
    library: Path | None = None,
    *,
    ask: Callable[[], list[Usage]] | None = None,
    deadline_s: float = DEADLINE_S,
) -> AsyncIterator[Driver]:
    """The driver, not asked yet. A question that hangs is left behind at the end."""
    yield Driver(ask or (lambda: ask_nvml(library)), deadline_s)
