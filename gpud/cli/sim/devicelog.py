"""Reads the log of a simulated device: JSON lines, times in model nanoseconds since the node began."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

from attrs import field, frozen

Direction = Literal["h2d", "d2h", "d2d"]


MOST_DEVICES = 64
MOST_CHARACTERS = 1 << 24
"""Of a line: a kernel that was cut very often has a long one."""
MOST_NS = 1 << 63


class BadLog(Exception):
    """Not a device log, or one that misses lines; says where and what."""


@frozen(kw_only=True)
class Header:
    """What the device was, and how its clock relates to CLOCK_MONOTONIC."""

    profile: str
    devices: int
    time_scale: float
    """Wall time = model time × this."""
    epoch_ns: int
    """CLOCK_MONOTONIC when the model clock was 0."""
    slice_ns: int
    switch_ns: int
    node: str = ""
    mode: str = "timeslice"
    """How contexts share a device: `timeslice`, `mps`, or `mig:` and the instances."""
    uuids: tuple[str, ...] = ()
    """One a device, as monitors and CUDA print them."""


@frozen(kw_only=True)
class Work:
    """Something that was on a device."""

    device: int
    pid: int
    context: int
    queue: int
    """Number of the stream's queue on the node."""
    submit_ns: int
    start_ns: int
    end_ns: int
    run_ns: int
    """On the device, without the time it was cut off."""
    overrun_ns: int
    """Waited for its computation after the modelled end."""
    dropped: bool
    """Its program or context went away before its end."""
    pieces: tuple[tuple[int, int], ...]
    """Start and end of each slice it ran in; of very many, the first 65,536."""
    slices: int
    """How many those were in all."""


@frozen(kw_only=True)
class Kernel(Work):
    """One kernel as it ran."""

    name: str
    blocks: int = 0


@frozen(kw_only=True)
class Copy(Work):
    """A copy: `h2d` and `d2h` have an engine each, `d2d` runs where kernels do."""

    direction: Direction
    size: int
    """Bytes."""


@frozen(kw_only=True)
class Memset(Work):
    """Memory that was set."""

    size: int
    """Bytes."""


@frozen(kw_only=True)
class Switch:
    """The device went from one context to another."""

    device: int
    from_context: int
    to_context: int
    start_ns: int
    end_ns: int


@frozen(kw_only=True)
class Client:
    """A program came or went."""

    pid: int
    what: Literal["attached", "detached"]
    model_ns: int
    reason: str
    """Of the end: `left`, `its process ended`, or what it did wrong."""


@frozen(kw_only=True)
class Fault:
    """A fault that was asked for (`GPUD_SIM_FAULTS`) happened."""

    pid: int
    call: str
    what: str
    """`fail ERROR_OUT_OF_MEMORY`, `stall`, `hang`, `kill`, `lose`."""
    model_ns: int


@frozen(kw_only=True)
class Lost:
    """A device fell off the bus."""

    device: int
    pid: int
    """Of the program whose fault it was."""
    model_ns: int


@frozen(kw_only=True)
class Counters:
    """Of one device, from the beginning to when they were written."""

    device: int
    model_ns: int
    busy_ns: int
    copy_busy_ns: int
    overrun_ns: int
    kernels: int
    copies: int
    switches: int
    switch_ns: int
    valid: bool
    """Overruns are less than 1 % of the busy time, and no line is lost: fit to be a measurement."""
    final: bool
    """Written at the end of the device process."""


@frozen(kw_only=True)
class DeviceLog:
    """One run of a simulated node."""

    header: Header
    kernels: tuple[Kernel, ...]
    """In the order in which they ended; the dropped ones of programs that died are left out."""
    copies: tuple[Copy, ...] = ()
    memsets: tuple[Memset, ...] = ()
    dropped: tuple[Work, ...] = ()
    """What was on a device when its program or context went away."""
    switches: tuple[Switch, ...] = ()
    clients: tuple[Client, ...] = ()
    faults: tuple[Fault, ...] = ()
    lost: tuple[Lost, ...] = ()
    counters: tuple[Counters, ...] = ()
    """The newest of each device."""
    complete: bool = True
    """The device process has ended and said so, of every device."""
    epochs: tuple[tuple[int, int], ...] = field(default=())
    """Model time from which the clock counts from another CLOCK_MONOTONIC, and that one."""

    @property
    def valid(self) -> bool:
        """Fit to be a measurement."""
        return all(counters.valid for counters in self.counters)

    @property
    def work(self) -> tuple[Work, ...]:
        """Kernels, copies and memsets."""
        return (*self.kernels, *self.copies, *self.memsets)

    def model_ns(self, wall_ns: int) -> int:
        """CLOCK_MONOTONIC nanoseconds → model nanoseconds."""
        for since, epoch in reversed(self.epochs):
            at = round((wall_ns - epoch) / self.header.time_scale)
            if at >= since:
                return at
        return round((wall_ns - self.header.epoch_ns) / self.header.time_scale)


def read_log(path: Path) -> DeviceLog:
    """Reads a whole log. One that was cut off in its last line is read up to there, and is not complete.

    Raises `BadLog` (also when it is not there).
    """
    try:
        with path.open(encoding="utf-8") as file:
            return parse(_lines(file), str(path))
    except UnicodeDecodeError:
        raise BadLog(f"{path}: not a device log: it is not UTF-8 text") from None
    except OSError as error:
        raise BadLog(f"{path}: {error.strerror}") from None


def parse(lines: Iterable[str], where: str = "device log") -> DeviceLog:
    """Parses the lines of a log. Raises `BadLog` for a line that is wrong, a log without header or with lost lines.

    A last line without its end is passed over when it is wrong: it is being written, or its writer was killed.
    """
    found = _Found()
    cut_off = False
    for number, line in enumerate(lines, 1):
        if cut_off or len(line) >= MOST_CHARACTERS:
            raise BadLog(f"{where}:{number - cut_off}: not a line of a device log: it does not end")
        try:
            fields = json.loads(line)
            kind = fields["type"]
            if fields.get("lost_lines"):
                raise BadLog(f"{where}: {fields['lost_lines']} lines could not be written; is the disk full?")
            if kind in _KINDS:
                if (found.header is None) != (kind == "header"):
                    raise ValueError("a second header" if found.header else "before the header")
                _KINDS[kind](found, fields)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            begun = number > 1 and line.startswith("{") and not line.endswith("\n")
            if begun and isinstance(error, json.JSONDecodeError):
                cut_off = True
                continue
            raise BadLog(f"{where}:{number}: not a line of a device log ({type(error).__name__}: {error})") from None
    if found.header is None:
        raise BadLog(f"{where}: has no header: no program reached the simulated device")
    ended = {counters.device for counters in found.counters.values() if counters.final}
    return DeviceLog(
        header=found.header,
        kernels=tuple(found.kernels),
        copies=tuple(found.copies),
        memsets=tuple(found.memsets),
        dropped=tuple(found.dropped),
        switches=tuple(found.switches),
        clients=tuple(found.clients),
        faults=tuple(found.faults),
        lost=tuple(found.lost),
        counters=tuple(found.counters[device] for device in sorted(found.counters)),
        complete=ended == set(range(found.header.devices)) and not cut_off,
        epochs=tuple(found.epochs),
    )


def _lines(file: IO[str]) -> Iterator[str]:
    """The lines, none longer than `MOST_CHARACTERS`: whatever is given for a log, memory holds it."""
    return iter(lambda: file.readline(MOST_CHARACTERS), "")


class _Found:
    """What the lines so far have said."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.kernels: list[Kernel] = []
        self.copies: list[Copy] = []
        self.memsets: list[Memset] = []
        self.dropped: list[Work] = []
        self.switches: list[Switch] = []
        self.clients: list[Client] = []
        self.faults: list[Fault] = []
        self.lost: list[Lost] = []
        self.counters: dict[int, Counters] = {}
        self.epochs: list[tuple[int, int]] = []

    def device(self, fields: dict[str, Any]) -> int:
        """The device that a line is about."""
        count = self.header.devices if self.header else 0
        return _whole(fields, "device", 0, count - 1)


def _whole(fields: dict[str, Any], name: str, least: int = 0, most: int = MOST_NS) -> int:
    value = fields[name]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} {value!r:.40}")
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return "".join(char if char.isprintable() else "?" for char in value)


def _flag(fields: dict[str, Any], name: str) -> bool:
    if not isinstance(fields[name], bool):
        raise TypeError(f"{name} is neither true nor false")
    return bool(fields[name])


def _header(found: _Found, fields: dict[str, Any]) -> None:
    scale = float(fields["time_scale"])
    if not 0 < scale < math.inf:
        raise ValueError(f"time_scale {scale}")
    found.header = Header(
        profile=_text(fields, "profile"),
        devices=_whole(fields, "devices", 1, MOST_DEVICES),
        time_scale=scale,
        epoch_ns=_whole(fields, "epoch_ns", -MOST_NS),
        slice_ns=_whole(fields, "slice_ns"),
        switch_ns=_whole(fields, "switch_ns"),
        node=_text(fields, "node") if "node" in fields else "",
        mode=_text(fields, "mode") if "mode" in fields else "timeslice",
        uuids=tuple(str(uuid) for uuid in fields.get("uuids", ())),
    )


def _work(found: _Found, fields: dict[str, Any]) -> dict[str, Any]:
    start = _whole(fields, "start")
    end = _whole(fields, "end", start)
    pieces = tuple(
        (_whole({"piece": a}, "piece"), _whole({"piece": b}, "piece", a))
        for a, b in fields.get("pieces", [(start, end)])
    )
    return {
        "device": found.device(fields),
        "pid": _whole(fields, "pid"),
        "context": _whole(fields, "context"),
        "queue": _whole(fields, "queue"),
        "submit_ns": _whole(fields, "submit"),
        "start_ns": start,
        "end_ns": end,
        "run_ns": _whole(fields, "run"),
        "overrun_ns": _whole(fields, "overrun"),
        "dropped": "dropped" in fields and _flag(fields, "dropped"),
        "pieces": pieces,
        "slices": max(_whole(fields, "slices") if "slices" in fields else 0, len(pieces)),
    }


def _kernel(found: _Found, fields: dict[str, Any]) -> None:
    kernel = Kernel(
        name=_text(fields, "name"), blocks=_whole(fields, "blocks") if "blocks" in fields else 0, **_work(found, fields)
    )
    (found.dropped if kernel.dropped else found.kernels).append(kernel)


def _copy(found: _Found, fields: dict[str, Any]) -> None:
    if fields["direction"] not in ("h2d", "d2h", "d2d"):
        raise ValueError(f"direction {fields['direction']!r}")
    copy = Copy(direction=fields["direction"], size=_whole(fields, "bytes"), **_work(found, fields))
    (found.dropped if copy.dropped else found.copies).append(copy)


def _memset(found: _Found, fields: dict[str, Any]) -> None:
    memset = Memset(size=_whole(fields, "bytes"), **_work(found, fields))
    (found.dropped if memset.dropped else found.memsets).append(memset)


def _switch(found: _Found, fields: dict[str, Any]) -> None:
    found.switches.append(
        Switch(
            device=found.device(fields),
            from_context=_whole(fields, "from"),
            to_context=_whole(fields, "to"),
            start_ns=_whole(fields, "start"),
            end_ns=_whole(fields, "end"),
        )
    )


def _client(found: _Found, fields: dict[str, Any]) -> None:
    if fields["what"] not in ("attached", "detached"):
        raise ValueError(f"what {fields['what']!r}")
    found.clients.append(
        Client(
            pid=_whole(fields, "pid"),
            what=fields["what"],
            model_ns=_whole(fields, "model_ns"),
            reason=_text(fields, "reason"),
        )
    )


def _fault(found: _Found, fields: dict[str, Any]) -> None:
    found.faults.append(
        Fault(
            pid=_whole(fields, "pid"),
            call=_text(fields, "call"),
            what=_text(fields, "what"),
            model_ns=_whole(fields, "model_ns"),
        )
    )


def _lost(found: _Found, fields: dict[str, Any]) -> None:
    found.lost.append(
        Lost(device=found.device(fields), pid=_whole(fields, "pid"), model_ns=_whole(fields, "model_ns")),
    )


def _clock(found: _Found, fields: dict[str, Any]) -> None:
    found.epochs.append((_whole(fields, "model_ns"), _whole(fields, "epoch_ns", -MOST_NS)))


def _counters(found: _Found, fields: dict[str, Any]) -> None:
    counters = Counters(
        device=found.device(fields),
        model_ns=_whole(fields, "model_ns"),
        busy_ns=_whole(fields, "busy_ns"),
        copy_busy_ns=_whole(fields, "copy_busy_ns"),
        overrun_ns=_whole(fields, "overrun_ns"),
        kernels=_whole(fields, "kernels"),
        copies=_whole(fields, "copies"),
        switches=_whole(fields, "switches"),
        switch_ns=_whole(fields, "switch_ns"),
        valid=_flag(fields, "valid"),
        final=fields["type"] == "end",
    )
    found.counters[counters.device] = counters


_KINDS: dict[str, Callable[[_Found, dict[str, Any]], None]] = {
    "header": _header,
    "kernel": _kernel,
    "copy": _copy,
    "memset": _memset,
    "switch": _switch,
    "client": _client,
    "fault": _fault,
    "lost": _lost,
    "clock": _clock,
    "counters": _counters,
    "end": _counters,
}
"""Type of a line → what it adds. Lines of other types are of a newer device process, and passed over."""
