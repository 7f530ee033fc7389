"""Columns of the job table: what stands in a cell, what a column is sorted by, and which fit."""

from collections.abc import Callable, Sequence

from attrs import frozen

from gpud.model.live_views import JobRow
from gpud.tui.model import NodeModel
from gpud.tui.text import Span, amount, clean, percent, rate, span_of_time
from gpud.tui.words import ROLE_OF_STATE, state_of, why_in_short

Order = float | str | None
"""What a column is sorted by; None comes last in either direction."""


@frozen(kw_only=True)
class Column:
    """One column."""

    key: str
    head: str
    width: int
    """Cells it needs."""
    most: int = 0
    """Cells it makes use of where there is room; 0: `width`."""
    align: str = "<"
    rank: int
    """Which columns stay when the screen is narrow: the smallest."""
    help: str
    cell: Callable[[JobRow, NodeModel], Span]
    order: Callable[[JobRow, NodeModel], Order]
    down: bool = False
    """Its first sort begins with the largest."""


def _state(job: JobRow, model: NodeModel) -> Span:
    word = state_of(job, model)
    return Span(clean(word), ROLE_OF_STATE.get(word, ""))


def _class(job: JobRow, model: NodeModel) -> Span:
    return Span(clean(job.job_class) + ("*" if job.pinned else ""))


def _gpu(job: JobRow, model: NodeModel) -> Span:
    value = model.gpu(job)
    return Span(percent(value), "dim" if not value or value < 0.005 else "")


def _memory(job: JobRow, model: NodeModel) -> Span:
    over = job.limit_bytes is not None and job.used_bytes > job.limit_bytes
    return Span(amount(job.used_bytes), "bad" if over else "dim" if not job.used_bytes else "")


def _why(job: JobRow, model: NodeModel) -> Span:
    return Span(why_in_short(job, model), "warn" if job.why and job.state == "held" else "")


def _dim_zero(text: str) -> Span:
    return Span(text, "dim" if text in ("0", "–", "0s") else "")


COLUMNS: tuple[Column, ...] = (
    Column(key="id", head="ID", width=5, align=">", rank=0, help="number of the job",
           cell=lambda job, model: Span(str(job.id)), order=lambda job, model: job.id),
    Column(key="name", head="NAME", width=10, most=28, rank=0, help="as given by --name, else the program",
           cell=lambda job, model: Span(clean(job.name)), order=lambda job, model: job.name.casefold()),
    Column(key="user", head="USER", width=7, most=12, rank=3, help="whose job it is",
           cell=lambda job, model: Span(clean(job.user)), order=lambda job, model: job.user),
    Column(key="class", head="CLASS", width=8, most=14, rank=2, help="by the policy; `*`: pinned by name",
           cell=_class, order=lambda job, model: job.job_class),
    Column(key="state", head="STATE", width=8, rank=1, help="active, held, queued, paused, swapped, idle, starting",
           cell=_state, order=state_of),
    Column(key="gpu%", head="GPU%", width=5, align=">", rank=1, help="GPU time used; 100%: all of one device",
           cell=_gpu, order=lambda job, model: model.gpu(job), down=True),
    Column(key="share", head="SHARE", width=5, align=">", rank=9, help="its part of a device with turns",
           cell=lambda job, model: _dim_zero(percent(job.share)), order=lambda job, model: job.share, down=True),
    Column(key="max", head="MAX", width=5, align=">", rank=12, help="what it may use of a device at most",
           cell=lambda job, model: _dim_zero(percent(job.limit)), order=lambda job, model: job.limit, down=True),
    Column(key="mem", head="MEM", width=5, align=">", rank=2, help="device memory; K, M, G are of 1024",
           cell=_memory, order=lambda job, model: job.used_bytes, down=True),
    Column(key="limit", head="LIMIT", width=5, align=">", rank=8, help="of device memory, on each device",
           cell=lambda job, model: _dim_zero(amount(job.limit_bytes)), order=lambda job, model: job.limit_bytes,
           down=True),
    Column(key="host", head="HOST", width=5, align=">", rank=11, help="of its memory, what has left the device",
           cell=lambda job, model: _dim_zero(amount(job.host_bytes)), order=lambda job, model: job.host_bytes,
           down=True),
    Column(key="gpus", head="GPUS", width=5, rank=6, help="slots of its devices",
           cell=lambda job, model: Span(slots(job.devices)), order=lambda job, model: min(job.devices, default=None)),
    Column(key="launches", head="LAUN/s", width=6, align=">", rank=10, help="launches a second",
           cell=lambda job, model: _dim_zero(rate(model.launches(job))),
           order=lambda job, model: model.launches(job), down=True),
    Column(key="held", head="HELD", width=5, align=">", rank=7, help="for how long launches were held, in sum",
           cell=lambda job, model: _dim_zero(span_of_time(job.held_ns)), order=lambda job, model: job.held_ns,
           down=True),
    Column(key="pids", head="PIDS", width=4, align=">", rank=13, help="processes",
           cell=lambda job, model: Span(str(len(job.processes))), order=lambda job, model: len(job.processes),
           down=True),
    Column(key="age", head="AGE", width=5, align=">", rank=5, help="since it began",
           cell=lambda job, model: Span(span_of_time(max(model.at_ns - job.began_at_ns, 0)), "dim"),
           order=lambda job, model: -job.began_at_ns, down=True),
    Column(key="why", head="WHY", width=22, most=64, rank=0, help="the one dominant reason why it does not run",
           cell=_why, order=lambda job, model: why_in_short(job, model) or None),
    Column(key="command", head="COMMAND", width=16, most=400, rank=14, help="what runs",
           cell=lambda job, model: Span(clean(job.command), "dim"), order=lambda job, model: job.command),
)  # fmt: skip
BY_KEY = {column.key: column for column in COLUMNS}
GAP = 1
"""Cells between two columns."""
_NEEDED = 6
"""Columns of a higher rank come only after …"""
_REASON = 24
"""… the reasons have so many more cells."""


def slots(devices: Sequence[int]) -> str:
    """`0`, `0,3`, `0-7`; `–` for none."""
    parts: list[str] = []
    ordered = sorted(set(devices))
    while ordered:
        end = 0
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        parts.append(str(ordered[0]) if end == 0 else f"{ordered[0]}{'-' if end > 1 else ','}{ordered[end]}")
        ordered = ordered[end + 1 :]
    return ",".join(parts) or "–"


def choose(width: int) -> list[tuple[Column, int]]:
    """The columns that fit into `width` cells, each with its width. What is left over goes to those that can use it."""
    chosen: list[Column] = []
    left = width
    for column in sorted(COLUMNS, key=lambda one: one.rank):
        spare = _REASON if column.rank > _NEEDED else 0
        if column.width + GAP + spare > left and column.rank > 0:
            continue
        chosen.append(column)
        left -= column.width + GAP
    widths = {column.key: column.width for column in chosen}
    for key in ("why", "name", "class", "user", "command"):
        if key in widths and left > 0:
            more = min(left, max(BY_KEY[key].most - widths[key], 0))
            widths[key] += more
            left -= more
    return [(column, widths[column.key]) for column in COLUMNS if column.key in widths]
