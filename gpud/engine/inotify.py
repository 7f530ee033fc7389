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
from typing import Self

from gpud.policies.library import TESTS, is_policy_file

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = (
    0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800,
)  # fmt: skip
_ENTRIES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_CONTENT = _MODIFY | _ATTRIB | _CLOSE_WRITE
_IS_DIRECTORY, _FLAGS = 0x40000000, os.O_NONBLOCK | os.O_CLOEXEC
_MASK_ADD = 0x20000000
"""A directory that is watched already is watched for this, too."""
_MOST_STEPS = 1000
"""Of a path, for links that lead in a circle."""
_EVENT = struct.Struct("iIII")

Signature = tuple[tuple[str, int, int, int, int], ...]
"""(path, inode, size, mtime, mode) of each policy file."""

_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Watches one directory of policies, the `tests` in it, what its symbolic links lead to, each link on the way, and
    the place where the directory itself is or will be. A context manager. Raises OSError when the kernel refuses."""

    def __init__(self, directory: Path) -> None:
        self.fd = _checked(_libc.inotify_init1(_FLAGS), "inotify_init1")
        self._watched: dict[int, frozenset[str] | None] = {}
        """Which names in it matter; None: all that can be a policy."""
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
        if number not in self._watched or not name:
            return True  # events were lost, or it is about the directory itself
        only = self._watched[number]
        if only is not None:
            return name in only
        return name.startswith("..") or is_policy_file(name) or (name == TESTS and bool(mask & _IS_DIRECTORY))

    def _arm(self, directory: Path) -> None:
        for path, only in _places(directory):
            mask = _MASK_ADD | _ENTRIES | (_CONTENT if only is None else 0)
            number = _libc.inotify_add_watch(self.fd, os.fsencode(path), mask)
            if number < 0 and ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                continue  # it leads nowhere; who watches the way there hears when it does
            names = self._watched.get(_checked(number, str(path)), frozenset())  # one directory may be there twice
            self._watched[number] = None if only is None or names is None else names | {only}


def _places(directory: Path) -> Iterator[tuple[Path, str | None]]:
    """(path, the one name that matters there or None). The place of the directory comes first: what is made below it
    while this goes on is then heard of."""
    yield from _way(directory)
    yield directory, None
    yield from _way(directory / TESTS)
    yield directory / TESTS, None
    links = [path for path in _files(directory) if path.is_symlink()]
    yield from ((path, None) for path in links)
    yield from dict.fromkeys(place for path in links for place in _way(path))


def _way(path: Path) -> Iterator[tuple[Path, str]]:
    """Each entry that decides what a path means: itself, and the links that it leads over. (directory, name)"""
    parts, at, steps = list(reversed(path.parts[1:])), Path(path.anchor), 0
    while parts and steps < _MOST_STEPS:
        steps += 1
        name = parts.pop()
        if name == "..":
            at = at.parent  # `at` has no links
            continue
        try:
            target = Path(os.readlink(at / name))
        except OSError:  # no link
            if not parts or not (at / name).is_dir():
                yield at, name
                return
            at /= name
            continue
        yield at, name
        parts += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        at = Path(target.anchor) if target.is_absolute() else at


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
