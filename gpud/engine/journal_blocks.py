"""How the journal keeps steps: minutes, each a compressed run of frames, the first with all rows and the others with
the fields that changed. Pure.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from attrs import Factory, define, evolve, fields, frozen

from gpud.engine.live import Rows
from gpud.model.live_views import ClassRow, DeviceRow, JobRow, NodeRow

RAW_BYTES = 8 << 20
"""A block that grows beyond this is closed before its minute is over."""
_Row = TypeVar("_Row", DeviceRow, JobRow, ClassRow)
_LENGTH = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_TABLES = (DeviceRow, JobRow, ClassRow)
_VALUES = [attrgetter(*(field.name for field in fields(kind))) for kind in _TABLES]


class _Table(msgspec.Struct, array_like=True):
    """What changed of rows of one kind. A row that is new: all its values; else those that changed, by place."""

    new: dict[str | int, list[Any]]
    changed: dict[str | int, dict[int, Any]]
    gone: list[str | int]


class _Frame(msgspec.Struct, array_like=True):
    mono_ns: int
    offset: int
    node: Any
    """None: as before."""
    tables: tuple[_Table, _Table, _Table]


_decode = msgspec.msgpack.Decoder(_Frame).decode


def _tables(rows: Rows) -> tuple[Mapping[Any, Any], ...]:
    classes = {f"{row.device}/{row.policy}/{row.job_class}": row for row in rows.classes}
    return rows.devices, rows.jobs, classes


def _differences(before: Mapping[Any, Any], after: Mapping[Any, Any], values: Any, ordered: bool) -> _Table:
    """`ordered`: their order is to be kept, too."""
    new, changed = {}, {}
    gone = [key for key in before if key not in after]
    if ordered and list(before) != list(after):
        gone, before = list(before), {}
    for key, row in after.items():
        old = before.get(key)
        if old is row:
            continue
        now = values(row)
        if old is None:
            new[key] = now
            continue
        moved = {
            place: value
            for place, (was, value) in enumerate(zip(values(old), now, strict=True))
            if was is not value and was != value
        }
        if moved:
            changed[key] = moved
    return _Table(new, changed, gone)


def frame(before: Rows | None, after: Rows) -> bytes:
    """Without `before`: with all rows."""
    old = _tables(before) if before is not None else ({}, {}, {})
    found = tuple(
        _differences(was, now, values, kind is ClassRow)
        for was, now, values, kind in zip(old, _tables(after), _VALUES, _TABLES, strict=True)
    )
    node = None if before is not None and before.node is after.node else after.node
    return _encode([after.mono_ns, after.offset, node, found])


@frozen(kw_only=True)
class Piece:
    """A block's content up to now, to be read anywhere."""

    content: bytes
    at_ns: int
    """Which of its moments is wanted: the last one at or before this, monotonic."""

    def read(self) -> Rows:
        """Takes some milliseconds: call it in a thread."""
        node: Any = None
        tables: list[dict[str | int, list[Any]]] = [{} for _ in _TABLES]
        mono: int | None = None
        offset = 0
        for one in _frames(zlib.decompressobj().decompress(self.content)):
            if mono is not None and one.mono_ns > self.at_ns:
                break
            mono, offset = one.mono_ns, one.offset
            node = one.node if one.node is not None else node
            for rows, table in zip(tables, one.tables, strict=True):
                for key in table.gone:
                    rows.pop(key, None)
                rows.update(table.new)
                for key, moved in table.changed.items():
                    for place, value in moved.items():
                        rows[key][place] = value
        devices, jobs, classes = tables
        return Rows(
            mono_ns=mono or 0,
            offset=offset,
            node=msgspec.convert(node, NodeRow),
            devices={row.uuid: row for row in _rows(devices, DeviceRow)},
            jobs={row.id: row for row in _rows(jobs, JobRow)},
            classes=tuple(_rows(classes, ClassRow)),
        )


def _rows(table: Mapping[str | int, list[Any]], kind: type[_Row]) -> Iterator[_Row]:
    names = [field.name for field in fields(kind)]
    return (msgspec.convert(dict(zip(names, values, strict=True)), kind) for values in table.values())


def _frames(content: bytes) -> Iterator[_Frame]:
    at = 0
    while at < len(content):
        (size,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        yield _decode(content[at : at + size])
        at += size


@define(eq=False)
class Block:
    """About a minute."""

    first_ns: int
    raw: int = 0
    packed: bytearray = Factory(bytearray)
    _packer: Any = Factory(lambda: zlib.compressobj(1))

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.packed)

    def add(self, content: bytes) -> None:
        self.raw += len(content)
        self.packed += self._packer.compress(_LENGTH.pack(len(content)) + content)

    def close(self) -> None:
        """Nothing is added any more."""
        if self._packer is not None:
            self.packed += self._packer.flush()
            self._packer = None

    def piece(self, at_ns: int) -> Piece:
        rest = self._packer.copy().flush() if self._packer is not None else b""
        return Piece(content=bytes(self.packed) + rest, at_ns=at_ns)


def shifted(rows: Rows, offset: int) -> Rows:
    """The same with times by another offset of the clock."""
    by = offset - rows.offset
    if not by:
        return rows
    jobs = {}
    for job, row in rows.jobs.items():
        why, swap = row.why, row.swap
        if why is not None:
            why = evolve(
                why,
                since_at_ns=why.since_at_ns + by if why.since_at_ns else 0,
                turn_ends_at_ns=_later(why.turn_ends_at_ns, by),
                starts_at_ns=_later(why.starts_at_ns, by),
            )
        if swap is not None:
            swap = evolve(swap, began_at_ns=swap.began_at_ns + by)
        jobs[job] = evolve(row, began_at_ns=row.began_at_ns + by, why=why, swap=swap)
    devices = {
        uuid: evolve(row, holder_until_at_ns=_later(row.holder_until_at_ns, by)) for uuid, row in rows.devices.items()
    }
    return evolve(rows, offset=offset, jobs=jobs, devices=devices)


def _later(at: int | None, by: int) -> int | None:
    return None if at is None else at + by
