"""Feeds as frames: each row is encoded once for all who see it, and what is too long for a frame goes in several steps.
Pure."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import msgspec

from gpud.control import wire
from gpud.model.live_views import Feed

_ROOM = wire.MAX_BYTES - 4096
"""For rows; the rest is for what is around them."""


class _Feed(msgspec.Struct):
    """As gpud.model.live_views.Feed, its rows encoded."""

    number: int
    at_ns: int
    full: bool
    past: bool
    node: msgspec.Raw | None
    devices: list[msgspec.Raw]
    jobs: list[msgspec.Raw]
    gone: tuple[int, ...]
    classes: list[msgspec.Raw] | None
    decisions: list[msgspec.Raw]


class _Answer(msgspec.Struct, tag="feed"):
    feed: _Feed


class _Reply(msgspec.Struct):
    version: int
    id: int
    answer: msgspec.Raw
    more: bool


_encode = msgspec.msgpack.Encoder().encode


class Encoded:
    """Rows that were encoded, as long as they are the same objects."""

    def __init__(self) -> None:
        self._rows: dict[Hashable, tuple[Any, msgspec.Raw]] = {}

    def row(self, key: Hashable, row: Any) -> msgspec.Raw:
        known = self._rows.get(key)
        if known is None or known[0] is not row:
            known = self._rows[key] = row, msgspec.Raw(wire.packed(row))
        return known[1]

    def forget(self, jobs: Iterable[int]) -> None:
        """They have ended."""
        for job in jobs:
            self._rows.pop(job, None)

    def answers(self, feed: Feed, *, ends: bool = False) -> list[bytes]:
        """Encoded FeedAnswers. What takes more than one has numbers that begin with the feed's, or end with it."""
        parts = self._parts(feed)
        first = feed.number - len(parts) + 1 if ends else feed.number
        for number, part in enumerate(parts, start=first):
            part.number = number
        return [_encode(_Answer(part)) for part in parts]

    def _parts(self, feed: Feed) -> list[_Feed]:
        whole = self._whole(feed)
        if _size(whole) <= _ROOM:
            return [whole]
        parts = [_empty(feed, full=feed.full, gone=feed.gone)]
        size = 9 * len(feed.gone)
        for name, raws in _pieces(whole):
            count = sum(map(len, raws))
            if count > _ROOM:
                continue  # no frame can hold it: what is cut to length never is so long
            if size + count > _ROOM:
                parts.append(_empty(feed, full=False, gone=()))
                size = 0
            size += count
            match name:
                case "node":
                    parts[-1].node = raws[0]
                case "classes":
                    parts[-1].classes = raws
                case _:
                    getattr(parts[-1], name).extend(raws)
        return parts

    def _whole(self, feed: Feed) -> _Feed:
        whole, row, packed = _empty(feed, full=feed.full, gone=feed.gone), self.row, wire.packed
        whole.node = row("node", feed.node) if feed.node is not None else None
        if feed.classes is not None:
            whole.classes = [msgspec.Raw(packed(one)) for one in feed.classes]
        whole.devices = [row(device.uuid, device) for device in feed.devices]
        whole.jobs = [row(job.id, job) for job in feed.jobs]
        whole.decisions = [msgspec.Raw(packed(decision)) for decision in feed.decisions]
        return whole


def _size(feed: _Feed) -> int:
    """Of its rows, about."""
    raws = (feed.devices, feed.jobs, feed.classes or (), feed.decisions)
    return sum(sum(map(len, rows)) for rows in raws) + len(feed.node or b"") + 9 * len(feed.gone)


def _pieces(feed: _Feed) -> Iterator[tuple[str, list[msgspec.Raw]]]:
    """What must stay together."""
    if feed.node is not None:
        yield "node", [feed.node]
    if feed.classes is not None:
        yield "classes", feed.classes
    for name in ("devices", "jobs", "decisions"):
        for raw in getattr(feed, name):
            yield name, [raw]


def _empty(feed: Feed, *, full: bool, gone: tuple[int, ...]) -> _Feed:
    return _Feed(
        number=feed.number,
        at_ns=feed.at_ns,
        full=full,
        past=feed.past,
        node=None,
        devices=[],
        jobs=[],
        gone=gone,
        classes=None,
        decisions=[],
    )


def framed(request: int, answer: bytes, *, more: bool) -> bytes:
    """An encoded answer as a frame. `request`: its number."""
    return wire.framed(_encode(_Reply(wire.VERSION, request, msgspec.Raw(answer), more)))
