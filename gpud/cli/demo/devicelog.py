"""Reads the log of a simulated device: JSON lines, times in model nanoseconds since the node began."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import frozen


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


@frozen(kw_only=True)
class Kernel:
    """One kernel as it ran."""

    device: int
    pid: int
    name: str
    submit_ns: int
    start_ns: int
    end_ns: int
    run_ns: int
    """On the device, without the time it was cut off."""
    overrun_ns: int
    """Waited for its computation after the modelled end."""
    pieces: tuple[tuple[int, int], ...]
    """Start and end of each slice it ran in."""


@frozen(kw_only=True)
class DeviceLog:
    """One run of a simulated node."""

    header: Header
    kernels: tuple[Kernel, ...]
    """In the order in which they ended; the dropped ones of programs that died are left out."""

    def model_ns(self, wall_ns: int) -> int:
        """CLOCK_MONOTONIC nanoseconds → model nanoseconds."""
        return round((wall_ns - self.header.epoch_ns) / self.header.time_scale)


def read_log(path: Path) -> DeviceLog:
    """Reads a whole log. Raises `BadLog` (also when it is not there)."""
    try:
        with path.open(encoding="utf-8") as lines:
            return parse(lines, str(path))
    except OSError as error:
        raise BadLog(f"{path}: {error.strerror}") from None


def parse(lines: Iterable[str], where: str = "device log") -> DeviceLog:
    """Parses the lines of a log. Raises `BadLog` for a line that is wrong, a log without header or with lost lines."""
    header: Header | None = None
    kernels: list[Kernel] = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            kind = fields["type"]
            if kind == "header":
                header = _header(fields)
            elif kind == "kernel" and not fields.get("dropped"):
                kernels.append(_kernel(fields))
            elif kind == "end" and fields["lost_lines"]:
                raise BadLog(f"{where}: {fields['lost_lines']} lines could not be written; is the disk full?")
        except (ValueError, KeyError, TypeError) as error:
            raise BadLog(f"{where}:{number}: not a line of a device log ({type(error).__name__}: {error})") from None
    if header is None:
        raise BadLog(f"{where}: has no header: no program reached the simulated device")
    return DeviceLog(header=header, kernels=tuple(kernels))


def _header(fields: dict[str, Any]) -> Header:
    scale = float(fields["time_scale"])
    if not scale > 0:
        raise ValueError(f"time_scale {scale}")
    return Header(
        profile=str(fields["profile"]),
        devices=int(fields["devices"]),
        time_scale=scale,
        epoch_ns=int(fields["epoch_ns"]),
        slice_ns=int(fields["slice_ns"]),
        switch_ns=int(fields["switch_ns"]),
    )


def _kernel(fields: dict[str, Any]) -> Kernel:
    start, end = int(fields["start"]), int(fields["end"])
    return Kernel(
        device=int(fields["device"]),
        pid=int(fields["pid"]),
        name=str(fields["name"]),
        submit_ns=int(fields["submit"]),
        start_ns=start,
        end_ns=end,
        run_ns=int(fields["run"]),
        overrun_ns=int(fields["overrun"]),
        pieces=tuple((int(a), int(b)) for a, b in fields.get("pieces", [(start, end)])),
    )
