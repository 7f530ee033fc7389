"""The kernel's word that something in a directory may have changed. No thread and no timer: a daemon at rest sleeps.

(watchfiles, which one would take instead, looks at its own list every 50 ms: docs/adr/0007.)
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from gpud.policies.library import TESTS, is_policy_file

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = (
    0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800,
)  # fmt: skip
_ENTRIES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_CONTENT = _MODIFY | _ATTRIB | _CLOSE_WRITE
_IS_DIRECTORY, _FLAGS = 0x40000000, os.O_NONBLOCK | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")

Signature = tuple[tuple[str, int, int, int, int], ...]
"""(path, inode, size, mtime, mode) of each policy file."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Watched(NamedTuple):
    only: str | None
    """The one name in it that matters; None: all that can be a policy."""


class Inotify:
    """Watches one directory of policies, the `tests` in it, what its symbolic links lead to, and the place where the
    directory itself is or will be. A context manager. Raises OSError when the kernel refuses."""

    def __init__(self, directory: Path) -> None:
        self.fd = _checked(_libc.inotify_init1(_FLAGS), "inotify_init1")
        self._watched: dict[int, _Watched] = {}
        try:
            self._arm(directory)
        except BaseException:
            os.close(self.fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def take(self) -> bool:
        """Reads all events that are there: may any of them have changed a policy? Does not block."""
        changed = False
        while True:
            try:
                events = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return changed
            changed = any(map(self._matters, _split(events))) or changed

    def _matters(self, event: tuple[int, int, str]) -> bool:
        """What editors leave does not, as it is not read either. Names with two dots are how Kubernetes swaps a volume:
        `..data`."""
        number, mask, name = event
        watched = self._watched.get(number)
        if watched is None or not name:
            return True  # events were lost, or it is about the directory itself
        if watched.only is not None:
            return name == watched.only
        return name.startswith("..") or is_policy_file(name) or (name == TESTS and bool(mask & _IS_DIRECTORY))

    def _arm(self, directory: Path) -> None:
        for path, only in _places(directory):
            mask = _ENTRIES if only is not None else _ENTRIES | _CONTENT
            number = _libc.inotify_add_watch(self.fd, os.fsencode(path), mask)
            if number < 0 and ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR):
                continue  # gone meanwhile; who watches its parent hears of it
            self._watched[_checked(number, str(path))] = _Watched(only)


def _places(directory: Path) -> Iterator[tuple[Path, str | None]]:
    """(path, the one name that matters there or None). The place of the directory comes first: what is made below it
    while this goes on is then heard of."""
    below = directory
    while below != below.parent:
        yield below.parent, below.name
        if below.parent.is_dir():
            break
        below = below.parent
    yield directory, None
    yield directory / TESTS, None
    for path in _files(directory):
        if path.is_symlink():
            yield path, None


def _files(directory: Path) -> Iterator[Path]:
    for place in (directory, directory / TESTS):
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        yield from (place / name for name in names if is_policy_file(name))


def signature(directory: Path) -> Signature:
    """What changes when a policy does, for where the kernel does not tell."""
    found = []
    for path in _files(directory):
        try:
            state = path.stat()
        except OSError:
            found.append((str(path), 0, 0, 0, 0))
        else:
            found.append((str(path), state.st_ino, state.st_size, state.st_mtime_ns, state.st_mode))
    return tuple(found)


def _split(events: bytes) -> Iterator[tuple[int, int, str]]:
    """(watch, mask, name)"""
    at = 0
    while at < len(events):
        number, mask, _, length = _EVENT.unpack_from(events, at)
        at += _EVENT.size
        yield number, mask, os.fsdecode(events[at : at + length].rstrip(b"\0"))
        at += length


def _checked(result: int, where: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), where)
    return result
