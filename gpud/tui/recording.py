"""A file of feed steps, `gpud top --record`: a magic line, then frames of a 4-byte little-endian length and msgpack.
The first frame is a Head, all others are Feeds."""

import errno
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from gpud.model.errors import SetupError, UsageError
from gpud.model.live_views import Feed

MAGIC = b"gpud feed recording\n"
VERSION = 1
MAX_BYTES = 1 << 24
"""Of one frame: more is no recording."""
_LENGTH = struct.Struct("<I")


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Of a recording."""

    version: int
    began_at_ns: int
    """Unix time."""


_encoder = msgspec.msgpack.Encoder()
_head = msgspec.msgpack.Decoder(Head)
_feed = msgspec.msgpack.Decoder(Feed)


class Recorder:
    """Writes a recording, step by step: what is written can be played, whenever it stops."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError when the file is there already or cannot be made."""
        self.path = path
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise UsageError(f"--record: {path} is there already; name another file, or remove it") from None
        except OSError as error:
            raise UsageError(f"--record: cannot write {path}: {error.strerror}") from None
        self._file.write(MAGIC)
        self._frame(_encoder.encode(Head(version=VERSION, began_at_ns=time.time_ns())))

    def write(self, feed: Feed) -> None:
        """Raises SetupError when the disk takes no more."""
        self._frame(_encoder.encode(feed))

    def close(self) -> None:
        self._file.close()

    def _frame(self, body: bytes) -> None:
        try:
            frame = _LENGTH.pack(len(body)) + body
            if self._file.write(frame) != len(frame):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise SetupError(f"the recording {self.path} stops here: {error.strerror}") from error


class Recording:
    """A recording that is read. Steps are read as they are asked for, from the beginning."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError for what is no recording, or one of another version."""
        self.path = path
        self.cut = False
        """The file ends within a frame; known once it has been read to its end."""
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise UsageError(f"--replay: cannot read {path}: {error.strerror}") from None
        try:
            self.head = self._read_head()
        except BaseException:
            self._file.close()
            raise
        self._begin = self._file.tell()

    def steps(self) -> Iterator[Feed]:
        """From the beginning, to the last whole frame. Raises UsageError for a frame that cannot be read."""
        at = self._begin
        while True:
            self._file.seek(at)
            body = self._frame()
            if body is None:
                return
            at = self._file.tell()
            try:
                yield _feed.decode(body)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                raise UsageError(f"--replay: {self.path} is damaged before byte {at}: {error}") from None

    def close(self) -> None:
        self._file.close()

    def _read_head(self) -> Head:
        try:
            begin = self._file.read(len(MAGIC))
        except OSError as error:  # a directory
            raise UsageError(f"--replay: cannot read {self.path}: {error.strerror}") from None
        if begin != MAGIC:
            raise UsageError(f"--replay: {self.path} is no recording of `gpud top --record`")
        try:
            head = _head.decode(self._frame() or b"")
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise UsageError(f"--replay: {self.path} ends before its first step, or is damaged") from None
        if head.version != VERSION:
            raise UsageError(
                f"--replay: {self.path} is of version {head.version} of recordings, this gpud reads version {VERSION}; "
                "play it with the gpud that made it"
            )
        return head

    def _frame(self) -> bytes | None:
        """The next whole one; None at the end."""
        prefix = self._file.read(_LENGTH.size)
        if len(prefix) < _LENGTH.size:
            self.cut = self.cut or bool(prefix)
            return None
        (size,) = _LENGTH.unpack(prefix)
        if size > MAX_BYTES:
            raise UsageError(f"--replay: {self.path} is damaged: a frame of {size} bytes")
        body = self._file.read(size)
        if len(body) < size:
            self.cut = True
            return None
        return body
