"""The journal on disk: decisions, spans and GPU time as lines in files that are rotated and bounded in all.

A thread of its own writes, in batches: a disk that is slow or full stops nothing. What it has no room for is lost,
which is said once, and noted in the journal once there is room again. Nothing is forced to disk: what a daemon wrote is
there when it is killed, not when the machine loses power. Daemons in turn go on with the same files.
"""

import errno
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import evolve

from gpud.engine.journal import Numbered
from gpud.engine.live import Rows
from gpud.model.units import SECOND
from gpud.telemetry.journal_lines import SUFFIX, Begin, Busy, Decided, Entry, Lost, encode, files_of
from gpud.telemetry.span import SpanRecord

log = logging.getLogger("gpud.journal")

PARTS = 16
"""Files, about; the oldest goes when there is no room."""
LEAST_PART = 64 << 10
BATCH_S = 0.2
"""What happens within this is written at once."""
MOST_WAITING = 10_000
"""Entries that a disk that hangs may leave waiting."""
KNOBS_PER_S = 20
"""A policy may turn its knobs two hundred times a second; more of these are left out."""
AGAIN_S = 600.0
"""A disk that fails again within this is not warned of again."""

_Waiting = tuple[Numbered, int, str] | Entry
"""A decision is made into words by the thread: (decision, offset of Unix time, its job's name)."""


class JournalFile:
    """Implements ports.KeeperPort. Methods may be called by any thread, and never wait."""

    def __init__(
        self, directory: Path, begin: Begin, *, max_bytes: int, wall: Callable[[], int] = time.time_ns
    ) -> None:
        self._files = Files(directory, begin, max_bytes=max_bytes, wall=wall)
        self._wall = wall
        self._lock = threading.Lock()
        """Held for moments, never while anything is written."""
        self._waiting: list[_Waiting] = []
        self._left_out = 0
        """Entries that there was no room for, not yet noted."""
        self._awake, self._ended = threading.Event(), threading.Event()
        self._busy: dict[int, Busy] = {}
        self._same: dict[int, Busy] = {}
        """Not written: nothing had changed."""
        self._knobs = (0, 0)
        """Second, how many in it."""
        self._warned = False
        """Of a disk that has not been written since."""
        self._warned_at = -AGAIN_S
        self._thread = threading.Thread(target=self._run, name="gpud-journal", daemon=True)
        self._thread.start()

    def decided(self, decisions: Sequence[Numbered], offset: int, name_of: Callable[[int], str]) -> None:
        """They have just been made. `offset`: Unix time less the monotonic clock; `name_of`: of a job."""
        for one in decisions:
            made = one.made
            if made.kind == "knob":
                second, count = made.mono_ns // SECOND, 0
                if second == self._knobs[0]:
                    count = self._knobs[1]
                self._knobs = second, count + 1
                if count >= KNOBS_PER_S:
                    continue
            self._put((one, offset, name_of(made.job) if made.job is not None else ""))

    def looked(self, rows: Rows, offset: int) -> None:
        """Once a second while anything is attached. What stays the same is written when it changes, as of before."""
        for device in rows.devices.values():
            if device.slot is None:
                continue
            memory = device.reserved_bytes if device.used_bytes is None else device.used_bytes
            busy = Busy(
                at_ns=rows.mono_ns + offset,
                device=device.slot,
                busy_ns=device.busy_ns,
                memory_bytes=memory,
                utilisation=device.utilisation,
            )
            before = self._busy.get(device.slot)
            self._busy[device.slot] = busy
            same = self._same.pop(device.slot, None)
            if before is not None and evolve(before, at_ns=busy.at_ns) == busy:
                self._same[device.slot] = busy
                continue
            if same is not None:
                self._put(same)
            self._put(busy)

    def span(self, record: SpanRecord) -> None:
        """It is over."""
        self._put(record)

    def close(self, within_s: float = 1.0) -> None:
        """Writes what is left. A disk that hangs is left alone after a while."""
        self._ended.set()
        self._awake.set()
        self._thread.join(within_s)

    def _put(self, entry: _Waiting) -> None:
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                self._left_out += 1
                return
            self._waiting.append(entry)
        if not self._awake.is_set():
            self._awake.set()

    # ---------------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        while True:
            self._awake.wait()
            self._ended.wait(BATCH_S)
            self._awake.clear()
            ends = self._ended.is_set()
            with self._lock:
                batch, self._waiting = self._waiting, []
                left_out, self._left_out = self._left_out, 0
            if batch or left_out:
                self._write(batch, left_out)
            if ends:
                self._files.close()
                return

    def _write(self, batch: Sequence[_Waiting], left_out: int) -> None:
        lines = [encode(Lost(at_ns=self._wall(), lines=left_out))] if left_out else []
        lost = 0
        for entry in batch:
            try:
                line = encode(_entry(entry))
            except Exception:  # of one entry, and its fault
                log.debug("an entry of the journal could not be written", exc_info=True)
                line = b""
            if 0 < len(line) <= self._files.longest:
                lines.append(line)
            else:
                lost += 1
        written, error = self._files.append(lines)
        lost += len(lines) - written
        if left_out and not written:
            lost += left_out - 1  # it stays to be noted
        with self._lock:
            self._left_out += lost
        self._tell(error)

    def _tell(self, error: OSError | None) -> None:
        """A disk that is full stays full: once. One that is full and not full by turns is not told of at each turn."""
        if error is None:
            if self._warned:
                log.info("the journal is written again")
            self._warned = False
            return
        if not self._warned and time.monotonic() - self._warned_at >= AGAIN_S:
            self._warned, self._warned_at = True, time.monotonic()
            log.warning(
                "the journal cannot be written (%s: %s); gpud works, but `gpud trace export` will miss what happens; "
                "look at the space and the rights there, or set [journal] in gpud.toml",
                self._files.directory,
                (error.strerror or str(error)).lower(),
            )


def _entry(waiting: _Waiting) -> Entry:
    if isinstance(waiting, tuple):
        numbered, offset, name = waiting
        return Decided(decision=numbered.told(offset), name=name)
    return waiting


class Files:
    """The files of one directory, by whoever writes there. Blocking."""

    def __init__(self, directory: Path, begin: Begin, *, max_bytes: int, wall: Callable[[], int]) -> None:
        self.directory = directory
        self._begin, self._wall = begin, wall
        self._max_bytes = max_bytes
        self._part = max(max_bytes // PARTS, LEAST_PART)
        self._fd: int | None = None
        self._number = 0
        self._torn = False
        """The file ends within a line."""

    @property
    def longest(self) -> int:
        """Bytes of a line."""
        return self._part // 2

    def append(self, lines: Sequence[bytes]) -> tuple[int, OSError | None]:
        """How many were written, and why not the rest."""
        done = 0
        for chunk in _chunks(lines, self.longest):
            try:
                self._append(b"".join(chunk))
            except OSError as error:
                return done, error
            done += len(chunk)
        return done, None

    def close(self) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.close(self._fd)
        self._fd = None

    def _append(self, content: bytes) -> None:
        """All of it; what was written of less is cut off again, or ends in a line of its own."""
        fd = self._file_for(len(content) + 1)
        if self._torn:
            content = b"\n" + content
        before = os.fstat(fd).st_size
        done = 0
        try:
            while done < len(content):
                done += os.write(fd, content[done:])
        except OSError:
            if done:
                self._torn = True
                with suppress(OSError):
                    if os.fstat(fd).st_size == before + done:  # nobody else has written since
                        os.ftruncate(fd, before)
                        self._torn = content.startswith(b"\n")
            raise
        self._torn = False

    def _file_for(self, count: int) -> int:
        """A file with room for so many bytes, after it has been made. Raises OSError."""
        if self._fd is not None:
            found = os.fstat(self._fd)
            if not found.st_nlink or found.st_size + count > self._part:  # somebody has deleted it, or it is full
                self.close()
        fd = self._fd
        if fd is None:
            fd = self._open(count)
        self._make_room(count)
        return fd

    def _open(self, count: int) -> int:
        """The newest one if it has room, else another. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(self.directory)
        begin = encode(evolve(self._begin, at_ns=self._wall()))
        files = files_of(self.directory)
        number, path = files[-1] if files else (1, self._path(1))
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(path, flags, 0o600)
        try:
            found = os.fstat(fd)
            full = found.st_size + count + len(begin) + 1 > self._part
            if full or not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                os.close(fd)
                number += 1
                fd = os.open(self._path(number), flags | os.O_EXCL, 0o600)
                found = os.fstat(fd)
            self._number = number
            self._make_room(count + len(begin) + 1)
            torn = found.st_size > 0 and os.pread(fd, 1, found.st_size - 1) != b"\n"
            content = b"\n" + begin if torn else begin
            if os.write(fd, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except BaseException:
            with suppress(OSError):
                os.close(fd)
            raise
        self._fd, self._torn = fd, False
        return fd

    def _make_room(self, count: int) -> None:
        """The oldest files go, never the one that is written."""
        sizes = []
        for number, path in files_of(self.directory):
            with suppress(FileNotFoundError):
                sizes.append((number, path, path.lstat().st_size))
        total = sum(size for _, _, size in sizes)
        for number, path, size in sizes:
            if total + count <= self._max_bytes or number >= self._number:
                return
            with suppress(FileNotFoundError):
                path.unlink()
            total -= size

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:08d}{SUFFIX}"


def _chunks(lines: Sequence[bytes], most: int) -> Iterator[list[bytes]]:
    """In pieces of so many bytes at most; no line is longer."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > most and chunk:
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line)
    if chunk:
        yield chunk


def _check_private(directory: Path) -> None:
    """Who can write there could make us write elsewhere."""
    found = directory.lstat()
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022:
        raise OSError(errno.EPERM, "it may be written by others", str(directory))


@contextmanager
def open_journal(directory: Path, begin: Begin, *, max_bytes: int) -> Iterator[JournalFile | None]:
    """None: it may have no bytes, so there is none."""
    if not max_bytes:
        yield None
        return
    journal = JournalFile(directory, begin, max_bytes=max_bytes)
    try:
        yield journal
    finally:
        journal.close()
