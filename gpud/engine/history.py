"""The policy sets that ran, on disk: what `gpud policy rollback` goes back to, and what a daemon starts with when the
directory does not load. Blocking; called in threads.

One file a set, replaced as a whole, so a daemon that is killed while writing leaves the old content or the new one.
"""

import contextlib
import errno
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from attrs import evolve, frozen

from gpud.model.errors import SetupError

log = logging.getLogger("gpud.reload")

FORMAT = 1
MOST_SETS = 20
MOST_BYTES = 16 << 20
MOST_NUMBER = 1 << 53
"""Greater ones no daemon has written."""


@frozen(kw_only=True)
class Entry:
    """One set, as it was when it began to run."""

    number: int
    """Grows by one with each set that began to run."""
    digest: str
    """Hex: of the files, and of `applied`."""
    files: Mapping[str, str]
    """Name, as messages show it below the directory → text."""
    applied: str | None
    """As Config.applied."""
    directory: str
    began_ns: int
    """Unix time."""
    how: str
    """What made it run: `start`, `files`, `hangup`, `asked`, `rollback`, `last good`."""
    proved: bool = False
    """It ran through its probation."""
    failed: str = ""
    """Why it was given up; such a set is not taken by itself again."""
    format: int = FORMAT


class History:
    """Of one state directory. Never raises for a directory that cannot be used: it says so once, and keeps the sets in
    memory."""

    def __init__(self, state_dir: Path, *, most_sets: int = MOST_SETS, most_bytes: int = MOST_BYTES) -> None:
        self._directory = state_dir / "sets"
        self._most_sets, self._most_bytes = most_sets, most_bytes
        self._sizes: dict[int, int] = {}
        self._entries: list[Entry] = []
        self._told: set[str] = set()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Newest first."""
        return tuple(reversed(self._entries))

    def open(self) -> None:
        """Reads what an earlier daemon left."""
        try:
            _check_private(self._directory)
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return
        except (OSError, SetupError) as error:
            self._tell("cannot be read", error)
            return
        for name in names:
            path = self._directory / name
            if name.endswith(".new"):  # a daemon was killed while it wrote
                with contextlib.suppress(OSError):
                    path.unlink()
            elif name.endswith(".json"):
                self._read(path)
        self._entries.sort(key=lambda entry: entry.number)

    def add(self, entry: Entry) -> Entry:
        """Keeps a set that begins to run; the result has its number."""
        entry = evolve(entry, number=self._entries[-1].number + 1 if self._entries else 1)
        self._entries.append(entry)
        self._write(entry)
        self._trim()
        return entry

    def change(self, number: int, *, proved: bool | None = None, failed: str | None = None) -> None:
        """Notes what became of a set. One that is kept no more is left alone."""
        for at, entry in enumerate(self._entries):
            if entry.number == number:
                proved = entry.proved if proved is None else proved
                self._entries[at] = evolve(entry, proved=proved, failed=entry.failed if failed is None else failed)
                self._write(self._entries[at])

    def good(self) -> tuple[Entry, ...]:
        """Sets that ran and were not given up, newest first."""
        return tuple(entry for entry in self.entries if not entry.failed and not self.given_up(entry.digest))

    def given_up(self, digest: str) -> str:
        """Why this set was given up when it last ran; "" when it was not, or never ran."""
        return next((entry.failed for entry in self.entries if entry.digest == digest), "")

    def _read(self, path: Path) -> None:
        try:
            content = _content(path, self._most_bytes + 1)
            entry = msgspec.json.decode(content, type=Entry)
        except OSError as error:
            self._tell("cannot be read", error)
            return
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            log.warning("%s holds no policy set (%s) and is left out", path, error)
            return
        if entry.format != FORMAT:
            log.warning("%s has format %d, this daemon reads %d; it is left out", path, entry.format, FORMAT)
            return
        if problem := self._problem(path, entry):
            log.warning("%s is not as a daemon wrote it (%s) and is left out", path, problem)
            return
        self._entries.append(entry)
        self._sizes[entry.number] = len(content)

    def _problem(self, path: Path, entry: Entry) -> str:
        """What somebody has changed: such a set is none that ran. "" of one that is as it was."""
        if not (0 < entry.number < MOST_NUMBER and 0 <= entry.began_ns < 1 << 63):
            return "its number or time is none"
        if path != self._path(entry):
            return "it has another name"
        if any(other.number == entry.number for other in self._entries):
            return "another set has its number"
        return ""

    def _write(self, entry: Entry) -> None:
        path = self._path(entry)
        fresh = path.with_suffix(".new")
        content = msgspec.json.encode(entry)
        try:
            _private(self._directory)
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(fd)
            os.replace(fresh, path)
            _sync_directory(self._directory)
        except (OSError, SetupError) as error:
            self._tell("cannot be written", error)
            with contextlib.suppress(OSError):
                fresh.unlink()
        self._sizes[entry.number] = len(content)

    def _trim(self) -> None:
        """The oldest go first; the newest stays, and so does the one that would be gone back to from it."""
        newest = self._entries[-1].number
        kept = {newest, *[entry.number for entry in self.good() if entry.number != newest][:1]}
        for entry in list(self._entries):
            size = sum(self._sizes.values())
            if len(self._entries) <= self._most_sets and size <= self._most_bytes:
                return
            if entry.number not in kept:
                self._entries.remove(entry)
                del self._sizes[entry.number]
                with contextlib.suppress(OSError):
                    self._path(entry).unlink()

    def _path(self, entry: Entry) -> Path:
        return self._directory / f"{entry.number:08d}-{entry.digest[:12]}.json"

    def _tell(self, what: str, error: Exception) -> None:
        """Once for each reason: a full disk stays full."""
        reason = str(error)
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror.lower() + (f": {error.filename}" if error.filename else "")
        if (text := f"{what}: {reason}") not in self._told:
            self._told.add(text)
            log.warning(
                "policy history %s (%s); policies work, but a restart will not know the sets that ran; "
                "look at the space and the rights there, or set GPUD_STATE_DIR",
                text,
                self._directory,
            )


def _content(path: Path, most: int) -> bytes:
    """Never waits for a pipe. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENXIO, "it is no regular file", str(path))
        return file.read(most)


def _private(directory: Path) -> None:
    """Makes it, for us alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(directory)


def _check_private(directory: Path) -> None:
    """Who can write there chooses what a daemon may start with."""
    found = directory.lstat()
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022:
        raise SetupError("it may be written by others")


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
