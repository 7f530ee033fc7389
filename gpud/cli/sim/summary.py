"""A device log in figures: each device, each program on it, each kernel. All times are model time."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from attrs import asdict, frozen

from gpud.cli.sim.devicelog import Copy, DeviceLog, Kernel, Work


@frozen(kw_only=True)
class DeviceFigures:
    """One device, from the beginning to the last thing on it."""

    device: int
    uuid: str
    span_ns: int
    busy_ns: int
    """Something computed: a kernel, a memset, a copy within the device."""
    kernels: int
    copies: int
    """Those over the bus."""
    switches: int
    switch_ns: int
    overrun_ns: int
    valid: bool
    lost_ns: int | None
    """When it fell off the bus."""


@frozen(kw_only=True)
class ProgramFigures:
    """One program on one device."""

    device: int
    pid: int
    end: str
    """How it went: `running`, `left`, `its process ended`, …"""
    kernels: int
    run_ns: int
    """Of its kernels, memsets and copies within the device."""
    wait_p50_ns: int
    """From the submission of a kernel to its start."""
    wait_max_ns: int
    cuts: int
    """How often a kernel of it was taken off the device and came back."""
    h2d_bytes: int
    d2h_bytes: int
    dropped: int


@frozen(kw_only=True)
class KernelFigures:
    """All kernels of one name, of all programs."""

    name: str
    count: int
    run_p50_ns: int
    run_ns: int


@frozen(kw_only=True)
class Summary:
    """What one run of a simulated node was."""

    node: str
    profile: str
    mode: str
    time_scale: float
    complete: bool
    valid: bool
    devices: tuple[DeviceFigures, ...]
    programs: tuple[ProgramFigures, ...]
    kernels: tuple[KernelFigures, ...]
    faults: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """As JSON: what the figures are comes first."""
        return {"simulated": True, **asdict(self)}


def summarise(log: DeviceLog) -> Summary:
    """Counts a log."""
    return Summary(
        node=log.header.node,
        profile=log.header.profile,
        mode=log.header.mode,
        time_scale=log.header.time_scale,
        complete=log.complete,
        valid=log.valid,
        devices=tuple(_device(log, device) for device in range(log.header.devices)),
        programs=tuple(_programs(log)),
        kernels=tuple(_kernels(log.kernels)),
        faults=tuple(f"{fault.call} of process {fault.pid}: {fault.what}" for fault in log.faults),
    )


def busy_ns(work: Iterable[Work]) -> int:
    """Time in which any of it was on the device."""
    total, until = 0, 0
    for begin, end in sorted(piece for one in work for piece in one.pieces):
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


def on_device(work: Sequence[Work]) -> list[Work]:
    """What computes, and is cut into slices: all but copies over the bus."""
    return [one for one in work if not isinstance(one, Copy) or one.direction == "d2d"]


def _device(log: DeviceLog, device: int) -> DeviceFigures:
    work = [one for one in (*log.work, *log.dropped) if one.device == device]
    counters = next((one for one in log.counters if one.device == device), None)
    switches = [one for one in log.switches if one.device == device]
    return DeviceFigures(
        device=device,
        uuid=log.header.uuids[device] if device < len(log.header.uuids) else "",
        span_ns=max((one.end_ns for one in work), default=0) - min((one.submit_ns for one in work), default=0),
        busy_ns=busy_ns(on_device(work)),
        kernels=sum(isinstance(one, Kernel) for one in work),
        copies=sum(isinstance(one, Copy) and one.direction != "d2d" for one in work),
        switches=len(switches),
        switch_ns=sum(one.end_ns - one.start_ns for one in switches),
        overrun_ns=sum(one.overrun_ns for one in work),
        valid=counters.valid if counters else True,
        lost_ns=next((one.model_ns for one in log.lost if one.device == device), None),
    )


def _programs(log: DeviceLog) -> Iterable[ProgramFigures]:
    ends = {client.pid: client.reason for client in log.clients if client.what == "detached"}
    places = sorted({(one.device, one.pid) for one in (*log.work, *log.dropped)})
    for device, pid in places:
        work = [one for one in log.work if (one.device, one.pid) == (device, pid)]
        kernels = [one for one in work if isinstance(one, Kernel)]
        waits = [one.start_ns - one.submit_ns for one in kernels]
        copies = [one for one in work if isinstance(one, Copy)]
        yield ProgramFigures(
            device=device,
            pid=pid,
            end=ends.get(pid, "running"),
            kernels=len(kernels),
            run_ns=sum(one.run_ns for one in on_device(work)),
            wait_p50_ns=round(median(waits)) if waits else 0,
            wait_max_ns=max(waits, default=0),
            cuts=sum(max(one.slices - 1, 0) for one in work),
            h2d_bytes=sum(one.size for one in copies if one.direction == "h2d"),
            d2h_bytes=sum(one.size for one in copies if one.direction == "d2h"),
            dropped=sum((one.device, one.pid) == (device, pid) for one in log.dropped),
        )


def _kernels(kernels: Sequence[Kernel]) -> Iterable[KernelFigures]:
    """The longest in all first."""
    runs: dict[str, list[int]] = {}
    for kernel in kernels:
        runs.setdefault(kernel.name, []).append(kernel.run_ns)
    for name, times in sorted(runs.items(), key=lambda item: (-sum(item[1]), item[0])):
        yield KernelFigures(name=name, count=len(times), run_p50_ns=round(median(times)), run_ns=sum(times))
