"""The journal's lines on disk, written and read: JSON objects with one key that says what the line is.

{"begin": …}     first of each file, and of each daemon that goes on with it: who writes
{"decision": …}  as gpud.model.live_views has it, with the job's `name`
{"span": …}      as gpud.telemetry.span has it
{"busy": …}      GPU time of a device so far
{"lost": …}      lines that are missing here
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from attrs import define, frozen

from gpud.model.errors import GpudError
from gpud.model.live_views import Decision
from gpud.telemetry.span import SpanRecord

FORMAT = 1
SUFFIX = ".jsonl"
LONGEST_LINE = 1 << 20
"""Bytes: a longer one no daemon has written."""


class BadJournal(GpudError):
    """It cannot be read; says where and why."""


@frozen(kw_only=True)
class Begin:
    """A daemon writes from here on. At the top of each file."""

    at_ns: int
    """Unix time, as all times here."""
    daemon: str
    """Another one for each daemon's life."""
    pid: int
    host: str
    version: str
    format: int = FORMAT


@frozen(kw_only=True)
class Busy:
    """What a device has done so far. There is none while nothing changes."""

    at_ns: int
    device: int
    """Slot."""
    busy_ns: int
    """GPU time charged there in the daemon's life."""
    memory_bytes: int
    """In use, by the driver's account; where it does not answer, what jobs hold by gpud's."""
    utilisation: float | None = None
    """By the driver, 0 … 1; None: it does not say. Without a policy that measures GPU time, all there is."""


@frozen(kw_only=True)
class Lost:
    """There was no room for lines, or they came too fast."""

    at_ns: int
    lines: int


@frozen(kw_only=True)
class Decided:
    """A decision, and what its job is called; "": it is about none, or nobody knew any more."""

    decision: Decision
    name: str = ""


Entry = Begin | Decided | SpanRecord | Busy | Lost


def times_of(entry: Entry) -> tuple[int, int]:
    """When it began and ended."""
    if isinstance(entry, SpanRecord):
        return entry.start_ns, entry.end_ns
    at = entry.decision.at_ns if isinstance(entry, Decided) else entry.at_ns
    return at, at


class _Line(msgspec.Struct):
    """What is not known here is of a later version, and means nothing."""

    begin: Begin | None = None
    decision: Decision | None = None
    name: str = ""
    span: SpanRecord | None = None
    busy: Busy | None = None
    lost: Lost | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


def encode(entry: Entry) -> bytes:
    """With its newline."""
    try:
        return _encode(_object(entry)) + b"\n"
    except UnicodeEncodeError:  # names and command lines are any bytes
        return _encode(_clean(msgspec.to_builtins(_object(entry)))) + b"\n"


def _object(entry: Entry) -> dict[str, Any]:
    match entry:
        case Decided():
            return {"decision": entry.decision, "name": entry.name}
        case SpanRecord():
            return {"span": entry}
        case Busy():
            return {"busy": entry}
        case Lost():
            return {"lost": entry}
        case Begin():
            return {"begin": entry}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(one) for key, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list | tuple) else value


def decode(line: bytes) -> Entry | None:
    """None: of a later version. Raises ValueError for what is no line of a journal."""
    found = _decode(line)
    if found.decision is not None:
        return Decided(decision=found.decision, name=found.name)
    return found.span or found.busy or found.begin or found.lost


def files_of(directory: Path) -> list[tuple[int, Path]]:
    """Number and path of each file, oldest first. Raises OSError."""
    found = []
    for name in os.listdir(directory):
        stem, suffix = os.path.splitext(name)
        if suffix == SUFFIX and stem.isascii() and stem.isdigit() and len(stem) <= 12:
            found.append((int(stem), directory / name))
    return sorted(found)


@define(kw_only=True)
class Reading:
    """What a journal was found to be, while it is read."""

    files: int = 0
    entries: int = 0
    broken: int = 0
    """Lines that are no lines of a journal: cut by a daemon that was killed, or by somebody else."""
    lost: int = 0
    """Lines that daemons had no room for."""


def read(directory: Path, reading: Reading | None = None) -> Iterator[Entry]:
    """All entries, in the order in which they were written; needs memory for one line. Files that are deleted
    meanwhile, to make room, are left out. Raises BadJournal."""
    reading = reading if reading is not None else Reading()
    try:
        files = files_of(directory)
    except FileNotFoundError:
        raise BadJournal(f"there is no journal at {directory}") from None
    except OSError as error:
        raise _bad(directory, error) from error
    for _, path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _bad(path, error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            continue
        with open(descriptor, "rb") as file:
            reading.files += 1
            for line in _lines(path, file):
                entry = _entry(line, reading)
                if entry is not None:
                    reading.entries += 1
                    yield entry


def _lines(path: Path, file: Any) -> Iterator[bytes]:
    """Those that are too long come as `b""`."""
    while True:
        try:
            line = file.readline(LONGEST_LINE)
            whole = line.endswith(b"\n")
            while line and not whole:  # cut at the end of the file, or too long
                rest = file.readline(LONGEST_LINE)
                line, whole = line if not rest else b"\0", not rest or rest.endswith(b"\n")
        except OSError as error:
            raise _bad(path, error) from error
        if not line:
            return
        yield line


def _entry(line: bytes, reading: Reading) -> Entry | None:
    if line == b"\n":
        return None
    try:
        entry = decode(line)
    except ValueError:  # of msgspec, or text that is no UTF-8
        reading.broken += 1
        return None
    if isinstance(entry, Lost):
        reading.lost += entry.lines
    return entry


def _bad(path: Path, error: OSError) -> BadJournal:
    reason = (error.strerror or str(error)).lower()
    return BadJournal(f"cannot read the journal {path}: {reason}")
