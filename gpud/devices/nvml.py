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

from gpud.devices.mps import is_server
from gpud.devices.processes import named, sees_all_processes
from gpud.model.events import Process
from gpud.model.ids import uuid_text as uuid_text
from gpud.model.text import UNDER_MPS

log = logging.getLogger("gpud.devices")

DEADLINE_S = 5.0
FRESH_S = 0.5
"""An answer is used again for so long."""


_GPU_SENSOR = 0
"""NVML_TEMPERATURE_GPU."""
_NOT_COMPARABLE = (
    "processes without gpud cannot be told from others: the daemon runs in a PID namespace of its own; start it with "
    "the host's (docker run --pid=host, hostPID: true)"
)


@frozen(kw_only=True)
class Usage:
    """One device at one moment, by the driver's account."""

    uuid: bytes
    name: str
    total_bytes: int
    used_bytes: int
    utilisation: float | None
    power_w: float | None = None
    temperature_c: float | None = None
    processes: tuple[Process, ...] | None = None
    """With a context on it, this one left out; None: the driver does not say, or its numbers mean nothing here."""
    mps: bool = False
    """Somebody uses it through MPS."""
    mps_clients: bool = False
    """… by the driver's own word: it lists clients of a server. (A process's name is good for a remark only.)"""


@frozen(kw_only=True)
class Answer:
    """What the driver said of all its devices. One that is lost costs its own figures only."""

    usage: tuple[Usage, ...]
    silent: tuple[str, ...] = ()
    """One sentence for each device that told nothing, and for what else is amiss."""


class DriverError(Exception):
    """The driver said no, or there is none. The text is a sentence."""


class Driver:
    """Made by `open_driver`. One question at a time: who comes meanwhile gets the same answer; while one hangs, the
    others are told so at once."""

    def __init__(self, ask: Callable[[], Answer], deadline_s: float) -> None:
        self._ask = ask
        self._deadline_s = deadline_s
        self._limiter = trio.CapacityLimiter(1)
        self._asking = trio.Lock()
        self._asked_at: float | None = None
        self._last: dict[bytes, Usage] = {}
        self._last_at = -FRESH_S
        self._trouble = "not asked yet"
        self._silent: tuple[str, ...] = ()
        self._began_ns = self.asked_ns = 0
        """`asked_ns`: when the question behind the last answer began, monotonic."""

    def trouble(self) -> str:
        """`ok`, or one sentence: of the driver, or of the devices that do not answer while others do."""
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
            self._asked_at, self._began_ns = time.monotonic(), time.monotonic_ns()
            with trio.move_on_after(self._deadline_s) as scope:
                await trio.to_thread.run_sync(self._answered, abandon_on_cancel=True, limiter=self._limiter)
            if scope.cancelled_caught:
                log.warning("%s", self.trouble())
                return {}
            return self._last

    def _answered(self) -> None:
        """In the thread, to its end even when nobody waits any more."""
        try:
            answer = self._ask()
            self._last, self.asked_ns = {usage.uuid: usage for usage in answer.usage}, self._began_ns
            self._trouble = "; ".join(answer.silent) or "ok"
            for line in answer.silent:
                if line not in self._silent:
                    log.warning("%s", line)
            self._silent = answer.silent
        except DriverError as error:
            self._last, self._trouble = {}, str(error)
        except Exception as error:  # a driver library may do anything
            self._last, self._trouble = {}, f"the driver's library failed: {error!r}"
        self._last_at = time.monotonic()
        self._asked_at = None


def ask_nvml(library: Path | None = None) -> Answer:
    """All devices, as far as they answer. `library`: this one instead of the system's, which stays loaded and open (the
    simulated node lives as long as somebody has it open). Blocks as long as the driver likes. Raises DriverError."""
    comparable = library is not None or sees_all_processes()
    if library is not None:
        _load(library)
    import pynvml

    try:
        if library is None:
            pynvml.nvmlInit()
        else:
            pynvml.nvmlInitWithFlags(_SILENT)
    except pynvml.NVMLError as error:
        why = f"no NVIDIA driver answers: {error}" if library is None else _why(library)
        raise DriverError(why) from None
    try:
        count = pynvml.nvmlDeviceGetCount()
        answers = [_device_or_why(pynvml, index, comparable) for index in range(count)]
    except pynvml.NVMLError as error:
        raise DriverError(f"the driver does not tell of its devices: {error}") from None
    finally:
        if library is None:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
    silent = [one for one in answers if isinstance(one, str)]
    silent += [
        f"device {index}: {UNDER_MPS}" for index, one in enumerate(answers) if isinstance(one, Usage) and one.mps
    ]
    return Answer(
        usage=tuple(one for one in answers if isinstance(one, Usage)),
        silent=tuple(silent if comparable or not answers else [*silent, _NOT_COMPARABLE]),
    )


_loaded: dict[Path, ctypes.CDLL] = {}

_SILENT = 0x80000000
"""A flag of the simulated NVML alone (sim/nvml.c): it writes nothing on standard error, so that we say it."""
_NOT_LOADED = 9
"""NVML_ERROR_DRIVER_NOT_LOADED."""


def _why(library: Path) -> str:
    """What the simulated NVML says of its last start: a profile's file, line and what is wrong there, say."""
    words = _loaded[library].nvmlErrorString
    words.restype = ctypes.c_char_p
    said = words(_NOT_LOADED) or b""
    return said.decode(errors="replace").partition(": ")[2] or "it does not say why"


def _load(library: Path) -> None:
    """pynvml asks for `libnvidia-ml.so.1`; the loader answers with what has that name already."""
    if library not in _loaded:
        try:
            _loaded[library] = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise DriverError(f"the simulated driver cannot be loaded: {error}; build gpud anew") from None


def _device_or_why(nvml: Any, index: int, comparable: bool) -> Usage | str:
    """A device that fell off the bus fails each question about it, also the one for its handle."""
    try:
        return _device(nvml, index, comparable)
    except (nvml.NVMLError, DriverError) as error:
        return f"device {index} does not answer: {error}"


def _device(nvml: Any, index: int, comparable: bool) -> Usage:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    clients = _mps_clients(nvml, handle)
    return Usage(
        uuid=uuid_bytes(_text(nvml.nvmlDeviceGetUUID(handle))),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        total_bytes=int(memory.total),
        used_bytes=int(memory.used),
        utilisation=_figure(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
        power_w=_figure(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        temperature_c=_figure(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, _GPU_SENSOR)),
        processes=_processes(nvml, handle) if comparable else None,
        mps=clients or (comparable and _mps_server(nvml, handle)),
        mps_clients=clients,
    )


def _figure(nvml: Any, ask: Callable[[], float]) -> float | None:
    """MIG devices have none, and some boards no sensor."""
    try:
        return float(ask())
    except nvml.NVMLError:
        return None


def _processes(nvml: Any, handle: Any) -> tuple[Process, ...] | None:
    try:
        found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError:
        return None
    return named((int(one.pid), None if one.usedGpuMemory is None else int(one.usedGpuMemory)) for one in found)


def _mps_clients(nvml: Any, handle: Any) -> bool:
    """Does the driver list clients of a server?"""
    with contextlib.suppress(nvml.NVMLError, AttributeError):  # an older driver, or an older pynvml
        return bool(nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle))
    return False


def _mps_server(nvml: Any, handle: Any) -> bool:
    """Is one among those with a context?"""
    try:
        return any(is_server(int(one.pid)) for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except nvml.NVMLError:
        return False


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
    ask: Callable[[], Answer] | None = None,
    deadline_s: float = DEADLINE_S,
) -> AsyncIterator[Driver]:
    """The driver, not asked yet. A question that hangs is left behind at the end."""
    yield Driver(ask or (lambda: ask_nvml(library)), deadline_s)
