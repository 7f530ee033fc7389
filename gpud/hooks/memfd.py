"""Sealed memfds: made, filled, sealed and checked. No names, no stale files; nobody can cut them short under a
reader."""

import errno
import fcntl
import os

from gpud.hooks import layout
from gpud.model.errors import ProtocolError, SetupError

F_SEAL_FUTURE_WRITE = 0x10
"""Nobody may map it writable or write to it from now on; mappings that exist stay writable. Linux ≥ 5.1."""
FIXED = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
CLOSED = FIXED | F_SEAL_FUTURE_WRITE


def make_page(kind: int, client: int, generation: int, epoch_ns: int) -> int:
    """A new page of its full size with its header, its size sealed. Returns the descriptor. Raises OSError (no
    memory, no descriptors)."""
    size = layout.BYTES[kind]
    fd = os.memfd_create(f"gpud-page-{kind}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        # All of it now: a page that cannot be had later would kill whoever touches it. And no ftruncate, which a
        # limit on file sizes turns into a deadly signal.
        os.posix_fallocate(fd, 0, size)
        # Clients' lines for one device are at different places of their pages (gpud_presence_index).
        shift = client % layout.MAX_DEVICES if kind == layout.PRESENCE else 0
        header = (layout.PAGE_MAGIC, layout.PAGE_VERSION, kind, size, client, generation, epoch_ns, shift)
        os.pwrite(fd, layout.HEADER.pack(*header), 0)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, FIXED)
    except BaseException:
        os.close(fd)
        raise
    return fd


def close_page(fd: int) -> None:
    """Seals against any further writable mapping and any further seal, and checks that it holds. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)
    if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & CLOSED != CLOSED:
        raise OSError(errno.EPERM, "the seals of a page do not hold")


def check_page(fd: int, kind: int, generation: int) -> None:
    """A page that a client hands back after a restart: a memfd, sealed, of our size, with our header. Raises
    ProtocolError.

    The seals come first: only memory files have them, so nothing later can be made to wait by a strange file system.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise ProtocolError("a descriptor for a page is not a memory file") from None
    if seals & CLOSED != CLOSED:
        raise ProtocolError(f"a page has the seals {seals:#x}, not {CLOSED:#x}")
    size = os.fstat(fd).st_size
    if size != layout.BYTES[kind]:
        raise ProtocolError(f"a page has {size} bytes, not {layout.BYTES[kind]}")
    magic, version, found, said, _, its, _, _ = layout.HEADER.unpack(os.pread(fd, layout.HEADER.size, 0))
    if (magic, found, said) != (layout.PAGE_MAGIC, kind, size):
        raise ProtocolError(f"a page's header says magic {magic:#x}, kind {found}, {said} bytes")
    if version != layout.PAGE_VERSION:
        raise ProtocolError(
            f"a page is of version {version}, this daemon reads {layout.PAGE_VERSION} only; "
            "install the same gpud for both"
        )
    if its != generation:
        raise ProtocolError(f"a page is of generation {its}, the client said {generation}")


def check_machine() -> None:
    """Can pages be made here at all? Raises SetupError with the remedy."""
    try:
        fd = make_page(layout.PRESENCE, 0, 0, 0)
    except OSError as error:
        raise SetupError(
            f"cannot make shared pages: {error.strerror}; look at the memory limit of this control group, "
            "and at ulimit -f and -n"
        ) from error
    try:
        close_page(fd)
    except OSError as error:
        raise SetupError(f"this kernel cannot seal pages ({error.strerror}); gpud needs Linux 5.1 or newer") from error
    finally:
        os.close(fd)
