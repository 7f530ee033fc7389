"""A job's device memory in a few words."""

from gpud.cli.screen import size
from gpud.model.views import JobView, MemoryView


def brief(job: JobView) -> str:
    """`1.2 GiB`, `1.2 GiB of 2 GiB` where a limit holds on its only device, `… (over)` where it was lowered below."""
    if len(job.memory) != 1 or job.memory[0].limit is None:
        return size(job.used_bytes) + (" (over)" if any(one.over for one in job.memory) else "")
    (one,) = job.memory
    return f"{size(one.used)} of {size(one.limit)}{' (over)' if one.over else ''}"


def lines(one: MemoryView) -> list[str]:
    """All of it, a sentence each."""
    found = [f"memory: {size(one.used)} used"]
    if one.resident or one.host or one.lazy:
        parts = f"{size(one.resident)} on the device, {size(one.host)} in host memory, {size(one.lazy)} not backed yet"
        found.append(f"of that can leave the device: {parts}; {size(one.pinned)} cannot")
    if one.moving:
        found.append(one.moving)
    if one.limit is None:
        return found
    beside = f" and {size(one.overhead)} beside them" if one.overhead else ""
    found.append(f"memory limit: {size(one.limit)}, {size(one.reserved)} of allocations{beside} ({one.place})")
    if one.overhead is None:
        found.append("what it holds beside its allocations is not counted: the driver does not say how much that is")
    if one.over:
        found.append(f"it holds more than its limit ({one.place}): it may only free")
    if one.waiting:
        many = "1 allocation waits" if one.waiting == 1 else f"{one.waiting} allocations wait"
        found.append(f"{many} for room: {size(one.waiting_bytes)}")
    return found
