"""Host slots: memory files, one or more for each client, of their full size from the start and never of another.

A file is the client's alone: nobody else is handed its descriptor, so no byte of it can be seen by another one. The
daemon keeps no descriptor either: the kernel frees the memory with the client's last mapping. How much each has is in
the engine's state (tiers.py).
"""

import errno
import fcntl
import os
from collections.abc import Callable

from gpud.memory.tiers import LARGEST
from gpud.model.ids import ClientId

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

Allocate = Callable[[int, int, int], None]
"""As os.posix_fallocate."""


class NoRoomError(Exception):
    """Slots cannot be had. `str()` is the reason, for people."""


def make_slots(client: ClientId, count: int, *, allocate: Allocate = os.posix_fallocate) -> int:
    """A memory file of `count` bytes, all there, its size sealed. The descriptor is the caller's: send it and close it.
    Takes as long as the kernel takes to clear so much; any thread may call it. Raises NoRoomError; then nothing was
    made."""
    if not 0 < count <= LARGEST:
        raise NoRoomError(f"{count} bytes of host slots were asked for; it is 1 to {LARGEST}")
    fd = -1
    try:
        fd = os.memfd_create(f"gpud-host-{client}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # Now, not at first touch: there no error can be told, only a signal sent.
        allocate(fd, 0, count)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS != SEALS or os.fstat(fd).st_size != count:
            raise OSError(errno.EPERM, "the seals of a memory file do not hold")
    except (OSError, MemoryError) as error:
        if fd >= 0:
            os.close(fd)  # with all that was allocated of it
        raise NoRoomError(_reason(error, count)) from error
    return fd


def _reason(error: BaseException, count: int) -> str:
    code = getattr(error, "errno", None)
    if code in (errno.ENOSPC, errno.ENOMEM) or isinstance(error, MemoryError):
        return (
            f"the machine has no {count} bytes of memory left for host slots; make the host tier smaller, or give the "
            "daemon's control group more"
        )
    if code in (errno.EMFILE, errno.ENFILE):
        return "the daemon has too many files open for host slots; raise its limit (ulimit -n)"
    return f"host slots cannot be made: {getattr(error, 'strerror', None) or error}"
