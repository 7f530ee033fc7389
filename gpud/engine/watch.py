"""Says when the directory of policies has changed and has come to rest. Where the kernel cannot tell, looks itself."""

import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from gpud.engine.inotify import Inotify, Signature, signature

log = logging.getLogger("gpud.reload")

SETTLED_S = 0.2
"""Nothing must have changed for this long: editors and copies take several steps."""
LONGEST_S = 2.0
"""Who never stops writing is read all the same."""
LOOK_S = 1.0
"""Between two looks where inotify is exhausted."""
LOOKS = 60
"""After so many, inotify is tried again."""
_REMEDIES = {
    errno.EMFILE: "raise fs.inotify.max_user_instances",
    errno.ENOSPC: "raise fs.inotify.max_user_watches",
    errno.EACCES: "let the daemon read it",
}


async def watch(
    directory: Path,
    changed: Callable[[], Awaitable[None]],
    *,
    look_s: float = LOOK_S,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Calls `changed` after each change, one call at a time, until cancelled. Started once it watches.

    The directory may be absent, and may go and come back. Watching begins anew before each call, so whatever happens
    once `changed` reads brings another call.
    """
    refused = ""
    first = True
    while True:
        with contextlib.ExitStack() as stack:
            watched: Inotify | None = None
            seen: Signature = ()
            refusal = ""
            try:
                watched = stack.enter_context(await _inotify(directory))
            except OSError as error:
                refusal, seen = _why(error), await _signature(directory)
            if refusal and refusal != refused:
                log.warning("cannot watch %s: %s; looking every second instead", directory, refusal)
            refused = refusal
            if first:
                task_status.started()
            else:
                await changed()
            first = False
            if watched is None:
                await _look(directory, seen, look_s)
            else:
                await _rings(watched)


async def _inotify(directory: Path) -> Inotify:
    """In a thread: a network file system may hang."""
    return await trio.to_thread.run_sync(Inotify, directory, abandon_on_cancel=True)


async def _rings(watched: Inotify) -> None:
    """Until something has changed and nothing more does."""
    while not watched.take():
        await trio.lowlevel.wait_readable(watched.fd)
    latest = trio.current_time() + LONGEST_S
    quiet = trio.current_time() + SETTLED_S
    while trio.current_time() < min(quiet, latest):
        with trio.move_on_at(min(quiet, latest)):
            await trio.lowlevel.wait_readable(watched.fd)
            if watched.take():
                quiet = trio.current_time() + SETTLED_S


async def _look(directory: Path, seen: Signature, look_s: float) -> None:
    """The same without the kernel's help; returns now and then all the same, so that its help is asked for again."""
    for _ in range(LOOKS):
        await trio.sleep(look_s)
        now = await _signature(directory)
        if now != seen:
            for _ in range(round(LONGEST_S / SETTLED_S)):
                await trio.sleep(SETTLED_S)
                seen, now = now, await _signature(directory)
                if now == seen:
                    break
            return


async def _signature(directory: Path) -> Signature:
    """In a thread: a network file system may hang."""
    return await trio.to_thread.run_sync(signature, directory, abandon_on_cancel=True)


def _why(error: OSError) -> str:
    remedy = f" ({_REMEDIES[error.errno]})" if error.errno in _REMEDIES else ""
    return f"{(error.strerror or str(error)).lower()}{remedy}"
