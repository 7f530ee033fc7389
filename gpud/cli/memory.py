"""A job's device memory in a few words."""

from gpud.cli.screen import size
from gpud.model.views import JobView, MemoryView


def brief(job: JobView) -> str:
    """`1.2 GiB`, `1.2 GiB of 2 GiB` where a limit holds on its only device, `… (over)` where it was lowered below;
    where memory leaves: what has left, cannot, or is lost, and whether copies are slower."""
    notes = ["over"] if any(one.over for one in job.memory) else []
    if any(one.host for one in job.memory):
        notes.append(f"{size(sum(one.host for one in job.memory))} in host memory")
    if any(one.pinned for one in job.memory):
        notes.append(f"{size(sum(one.pinned for one in job.memory))} pinned")
    if any(one.unpinned for one in job.memory):
        notes.append("slow copies")
    if any(one.lost for one in job.memory):
        notes.append(f"{size(sum(one.lost for one in job.memory))} lost")
    told = f" ({', '.join(notes)})" if notes else ""
    if len(job.memory) != 1 or job.memory[0].limit is None:
        return size(job.used_bytes) + told
    (one,) = job.memory
    return f"{size(one.used)} of {size(one.limit)}{told}"


def lines(one: MemoryView) -> list[str]:
    """All of it, a sentence each."""
    found = [f"memory: {size(one.used)} used"]
    if one.resident or one.host or one.lazy or one.pinned:
        parts = f"{size(one.resident)} on the device, {size(one.host)} in host memory, {size(one.lazy)} not backed yet"
        why = f" ({', '.join(one.pinned_why)})" if one.pinned and one.pinned_why else ""
        found.append(f"of that can leave the device: {parts}; {size(one.pinned)} cannot{why}")
    if one.unpinned:
        found.append(
            f"{size(one.unpinned)} of host memory are not page-locked, the driver has refused: what leaves and comes "
            "back is copied at a lower speed; is the limit of locked memory (ulimit -l) too low?"
        )
    if one.lost:
        found.append(
            f"{size(one.lost)} of it have changed in the host's memory and are lost: the program gets an error where "
            "it uses them; is the host's memory in order?"
        )
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
