"""Files for dcgm-exporter's job mapping (`--hpc-job-mapping-dir`): one for each device, called by its number in the
driver's order, with the numbers of the jobs on it, one a line. Its series then have a label `hpc_job`.

Files are written by a thread, whenever somebody comes to a device or leaves it: a directory that is missing, full or
hangs costs the files and a line in the log, and nobody waits for it.
"""

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect

log = logging.getLogger("gpud.metrics")

Mapped = Mapping[str, bytes]
"""Name of a file → its content."""


def mapping(state: State) -> dict[str, bytes]:
    """As it shall be now. A device without jobs has an empty file, which the exporter takes for none."""
    return {
        str(device.index): b"".join(
            b"%d\n" % job for job in sorted({client.job for client in state.clients_on(device.slot)})
        )
        for device in state.devices.values()
    }


class DcgmFiles:
    """Implements ports.ObserverPort; made by `open_dcgm_files`."""

    def __init__(self, state: State, directory: Path) -> None:
        self._state, self._directory = state, directory
        self._changed, self._idle = trio.Event(), trio.Event()
        self._written: dict[str, bytes] = {}
        self._failed = False
        self._changed.set()

    def saw(self, event: ev.Event, effects: Sequence[Effect], now: int) -> None:
        """Who is where changes by these alone."""
        if isinstance(event, ev.DevicesReported | ev.DevicesFound) or any(
            isinstance(effect, do.DropPages) for effect in effects
        ):
            self._changed.set()
            if self._idle.is_set():
                self._idle = trio.Event()

    async def rest(self) -> None:
        """Returns once all that has changed is written, or could not be."""
        await self._idle.wait()

    async def run(self) -> None:
        """Until cancelled. Without changes it has no timer."""
        while True:
            if not self._changed.is_set():
                self._idle.set()
            await self._changed.wait()
            self._changed = trio.Event()
            wanted = dict.fromkeys(self._written, b"") | mapping(self._state)  # a device that is gone has no jobs
            fresh = {name: content for name, content in wanted.items() if self._written.get(name) != content}
            if not fresh:
                continue
            failed = await trio.to_thread.run_sync(_write, self._directory, fresh, abandon_on_cancel=True)
            if failed:
                self._written = {}  # what is there now nobody knows: all of it is written at the next change
                if not self._failed:
                    log.warning("jobs cannot be told to dcgm-exporter: %s; look at [metrics] dcgm_mapping_dir", failed)
            else:
                self._written |= fresh
            self._failed = bool(failed)


def _write(directory: Path, files: Mapped) -> str:
    """Each as a whole: a reader sees the old content or the new one. Returns what went wrong, "" if nothing did."""
    for name, content in files.items():
        fresh = directory / f".{name}.gpud"  # no number, so that nobody takes it for a device's
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with open(os.open(fresh, flags, 0o644), "wb") as file:
                file.write(content)
            os.replace(fresh, directory / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink()
            return f"{directory / name}: {error.strerror or error}"
    return ""


@asynccontextmanager
async def open_dcgm_files(state: State, directory: Path) -> AsyncIterator[DcgmFiles]:
    """Keeps the files of that directory until left; then they stay, as jobs do."""
    files = DcgmFiles(state, directory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.run)
        yield files
        nursery.cancel_scope.cancel()
