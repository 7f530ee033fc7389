"""Is the hook library there and loadable? The loader only prints a line and goes on without it; `gpud run` must not."""

import os

from gpud.cli.elf import ET_DYN, Elf, read_elf
from gpud.cli.failure import Failure

REBUILD = "install gpud again (in a checkout: make build)"


def check_hook(path: str) -> Elf:
    """The headers of the hook library at `path`; raises `Failure` with a remedy when the loader could not load it."""
    if any(character in path for character in ": \t\n"):
        raise Failure(
            f"the hook's path holds a space or a colon, at which the loader splits LD_PRELOAD: {path!r}",
            "install gpud below a directory without these, or set GPUD_NATIVE_DIR to a link that has none",
        )
    try:
        elf = read_elf(path)
        size = os.stat(path).st_size
        mount = os.statvfs(path)
    except FileNotFoundError:
        raise Failure(f"the hook library is not there: {path}", REBUILD) from None
    except OSError as error:
        raise Failure(
            f"the hook library cannot be read: {path}: {(error.strerror or str(error)).lower()}",
            "make it readable to you, or " + REBUILD,
        ) from None
    if elf is None or elf.kind != ET_DYN or size < elf.end:
        raise Failure(f"not a shared library, or a torn one: {path}", REBUILD)
    own = read_elf("/proc/self/exe")
    if own is not None and (own.bits, own.machine) != (elf.bits, elf.machine):
        raise Failure(f"the hook library is built for another machine: {path}", REBUILD)
    if mount.f_flag & os.ST_NOEXEC:
        raise Failure(
            f"the hook library is on a file system mounted noexec: {path}",
            "install gpud on another one, or mount it with exec",
        )
    return elf
