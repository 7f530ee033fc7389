"""Runs the signals of plugins, each in a process of its own.

One that crashes, hangs or floods makes its own signals stale and nothing else: it is ended and started again, less and
less often.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from gpud.engine.plugin_child import LONGEST_TARGET, fits
from gpud.model.units import SECOND
from gpud.policies.plugins.declare import Plugin

log = logging.getLogger("gpud.plugins")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Before a plugin that ended is started again: doubled each time, the first again after it ran for the longest."""
READ_BYTES = 1 << 12
READ_PAUSE_S = 0.02
"""After each read: who floods fills its own pipe and waits, and costs the daemon fifty small reads a second, of half a
millisecond."""
LONGEST_LINE = 1 << 16
"""Bytes of a sample."""
SILENCE_S = 10.0
"""A plugin that publishes nothing for this long, and for five times its longest `stale_after`, hangs."""
MOST_TARGETS = 256
"""Of a plugin: signals times classes or devices."""
END_S = 2.0
"""For a process that was killed to be gone; one that the kernel keeps is left to itself."""
LAST_LINES = 400
"""Characters of what it printed last, for the log."""

Sample = Callable[[str, str, str, Any], None]
"""(plugin, signal, target, value or None)"""


class PluginHost:
    """Made by `open_plugins`. `want` says which plugins shall run."""

    def __init__(
        self, nursery: trio.Nursery, sample: Sample, settings: Mapping[str, Mapping[str, Any]], first_pause_s: float
    ) -> None:
        self._nursery = nursery
        self._sample = sample
        self._settings = settings
        self._first_pause_s = first_pause_s
        self._running: dict[str, tuple[Plugin, trio.CancelScope]] = {}
        self.starts: dict[str, int] = {}
        """How often each was started."""

    def want(self, plugins: Mapping[str, Plugin]) -> None:
        """Exactly these run from now on; one that is unchanged goes on."""
        for name in [n for n, (plugin, _) in self._running.items() if plugins.get(n) is not plugin]:
            self._running.pop(name)[1].cancel()
        for name, plugin in plugins.items():
            if plugin.signals and name not in self._running:
                scope = trio.CancelScope()
                self._running[name] = plugin, scope
                self._nursery.start_soon(self._keep, plugin, scope)

    async def _keep(self, plugin: Plugin, scope: trio.CancelScope) -> None:
        pause = self._first_pause_s
        with scope:
            while True:
                began = trio.current_time()
                self.starts[plugin.name] = self.starts.get(plugin.name, 0) + 1
                try:
                    why = await self._run(plugin)
                except OSError as error:
                    why = f"cannot be started: {error.strerror}"
                except Exception as error:  # of ours: it must not cost more than this plugin
                    log.exception("an error in gpud about the plugin %s", plugin.name)
                    why = f"is ended: {error!r}"
                if trio.current_time() - began > LONGEST_PAUSE_S:
                    pause = self._first_pause_s
                log.warning(
                    "the plugin %s %s; its signals are unknown until it is back; next try in %g s",
                    plugin.name, why, pause,
                )  # fmt: skip
                await trio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _run(self, plugin: Plugin) -> str:
        """One life of its process; the result says how it ended."""
        command = [sys.executable, "-P", "-m", "gpud.engine.plugin_child", plugin.name]
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        last = bytearray()
        try:
            settings = json.dumps(dict(self._settings.get(plugin.name, {}))).encode() + b"\n"
            with contextlib.suppress(trio.BrokenResourceError):  # it ended already; what it printed says why
                await process.stdin.send_all(settings)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_drain, process.stderr, last)
                why = await self._read(plugin, process.stdout)
                if not why:
                    with trio.move_on_after(1):
                        await process.wait()
                    said = bytes(last).decode(errors="replace").strip().splitlines()
                    why = f"ended: {said[-1] if said else f'exit code {process.returncode}'}"
                nursery.cancel_scope.cancel()
            return why
        finally:
            with trio.CancelScope(shield=True):
                _kill(process)
                with trio.move_on_after(END_S):
                    await process.wait()
                for stream in (process.stdin, process.stdout, process.stderr):
                    await stream.aclose()

    async def _read(self, plugin: Plugin, stream: trio.abc.ReceiveStream) -> str:
        """Takes samples until the stream ends (the result is "") or something is wrong."""
        declared = {row.name: row for row in plugin.signals}
        targets: set[tuple[str, str]] = set()
        silence = max(SILENCE_S, 5 * max(row.stale_after for row in plugin.signals) / SECOND)
        rest = b""
        while True:
            chunk: bytes | bytearray = b""
            with trio.move_on_after(silence) as waiting:
                chunk = await stream.receive_some(READ_BYTES)
            if waiting.cancelled_caught:
                return f"has published nothing for {silence:g} s and is ended"
            if not chunk:
                return ""
            *lines, rest = (rest + bytes(chunk)).split(b"\n")
            if len(rest) > LONGEST_LINE:
                return "wrote something that is no sample and is ended"
            newest: dict[tuple[str, str], Any] = {}
            for line in lines:
                try:
                    name, target, value = json.loads(line)
                    row = declared[name]
                    if not isinstance(target, str) or len(target) > LONGEST_TARGET:
                        raise ValueError
                    if not (value is None or fits(row.type, value)):
                        raise ValueError
                except (ValueError, KeyError, TypeError, RecursionError):
                    return "wrote something that is no sample and is ended"
                newest[name, target] = value
            for (name, target), value in newest.items():
                if (name, target) in targets or len(targets) < MOST_TARGETS:
                    targets.add((name, target))
                    self._sample(plugin.name, name, target, value)
            await trio.sleep(READ_PAUSE_S)


def _kill(process: trio.Process) -> None:
    """And what it started: it leads a process group of its own, which lives on when it ends first."""
    if process.returncode is not None and os.path.exists(f"/proc/{process.pid}"):
        return  # nobody of that group is left, and the number is somebody else's by now
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _drain(stream: trio.abc.ReceiveStream, last: bytearray) -> None:
    while chunk := await stream.receive_some(READ_BYTES):
        last += chunk
        del last[:-LAST_LINES]
        await trio.sleep(READ_PAUSE_S)


@asynccontextmanager
async def open_plugins(
    sample: Sample, settings: Mapping[str, Mapping[str, Any]], *, first_pause_s: float = FIRST_PAUSE_S
) -> AsyncIterator[PluginHost]:
    """Runs what `want` names until left, which ends all of their processes."""
    async with trio.open_nursery() as nursery:
        yield PluginHost(nursery, sample, settings, first_pause_s)
        nursery.cancel_scope.cancel()
