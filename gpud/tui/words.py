"""How a job's reasons are said in few words."""

from gpud.model.live_views import JobRow, SwapRow, WhyRow
from gpud.tui.model import NodeModel
from gpud.tui.text import amount, clean, ordinal, span_of_time

ROLE_OF_STATE = {
    "active": "good",
    "held": "warn",
    "queued": "warn",
    "starting": "dim",
    "paused": "note",
    "swapped": "note",
    "idle": "dim",
    "ended": "dim",
}
"""The role that a state's word has."""


def state_of(job: JobRow, model: NodeModel) -> str:
    """Its state; `ended` for one that is no more."""
    return job.state if job.id in model.jobs else "ended"


def job_title(number: int | None, model: NodeModel) -> str:
    """`#3 train`."""
    if number is None:
        return "–"
    job = model.job(number)
    return f"#{number} {clean(job.name)}" if job else f"#{number}"


def why_in_short(job: JobRow, model: NodeModel) -> str:
    """For the column: code, holder, what is left, place in line, when it starts, where it is written. "": no reason."""
    if job.swap is not None:
        return swap_in_short(job.swap, model.at_ns)
    if job.id not in model.jobs:
        return "it has ended"
    why = job.why
    if why is None:
        return ", ".join(clean(tag) for tag in job.tags)
    return "  ".join(part for part in (clean(why.code), *why_parts(why, model), clean(why.by)) if part)


def why_parts(why: WhyRow, model: NodeModel) -> list[str]:
    """Holder, seconds of its turn left, place in line, estimated start, since when."""
    parts = [f"← {job_title(why.holder, model)}"] if why.holder is not None else []
    if why.turn_ends_at_ns is not None:
        parts.append(f"{span_of_time(why.turn_ends_at_ns - model.at_ns)} left")
    if why.place:
        parts.append(ordinal(why.place))
    if why.starts_at_ns is not None:
        parts.append(f"in ~{span_of_time(why.starts_at_ns - model.at_ns)}")
    elif why.since_at_ns:
        parts.append(f"for {span_of_time(model.at_ns - why.since_at_ns)}")
    return parts


def swap_rate(swap: SwapRow, now_ns: int) -> float | None:
    """Bytes a second since it began."""
    spent = now_ns - swap.began_at_ns
    return swap.done_bytes * 1e9 / spent if spent > 0 else None


def swap_left_ns(swap: SwapRow, now_ns: int) -> int | None:
    """How long it will still take at that rate."""
    speed = swap_rate(swap, now_ns)
    return int((swap.total_bytes - swap.done_bytes) * 1e9 / speed) if speed else None


def swap_in_short(swap: SwapRow, now_ns: int) -> str:
    """`swap out 40%  3.1G of 8G  2.4G/s  2s left`."""
    ratio = swap.done_bytes / swap.total_bytes if swap.total_bytes else 1.0
    speed, left = swap_rate(swap, now_ns), swap_left_ns(swap, now_ns)
    parts = [f"swap {swap.direction} {ratio:.0%}", f"{amount(swap.done_bytes)} of {amount(swap.total_bytes)}"]
    if speed is not None:
        parts.append(f"{amount(int(speed))}/s")
    if left is not None:
        parts.append(f"{span_of_time(left)} left")
    return "  ".join(parts)
