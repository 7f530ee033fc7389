"""Entries of a journal for tests, and a journal that is looked at once it is written."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpud.engine.decisions import Made
from gpud.engine.journal import Numbered
from gpud.model.ids import Slot
from gpud.model.live_views import Decision
from gpud.model.units import SECOND
from gpud.telemetry.journal_file import JournalFile
from gpud.telemetry.journal_lines import Begin, Busy, Decided, Entry, Reading, files_of, read
from gpud.telemetry.span import Link, SpanRecord, Value
from gpud.testing.node import until

T0 = 1_700_000_000 * SECOND
"""Unix time of everything here, about."""
WITHIN = 60.0
GIB = 1 << 30


def begin(daemon: str = "first", at: int = 0, pid: int = 4711) -> Begin:
    return Begin(at_ns=T0 + at, daemon=daemon, pid=pid, host="node1", version="1.2")


def decided(
    at: int, kind: str, job: int | None = 3, device: int | None = 0, *, name: str = "", by: str = "", number: int = 1
) -> Decided:
    text = f"job {job}: {kind}"
    made = Decision(number=number, at_ns=T0 + at, kind=kind, text=text, device=device, job=job, by=by)
    return Decided(decision=made, name=name or (f"train{job}" if job is not None else ""))


def busy(at: int, spent: int, device: int = 0, memory: int = GIB, utilisation: float | None = None) -> Busy:
    return Busy(at_ns=T0 + at, device=device, busy_ns=spent, memory_bytes=memory, utilisation=utilisation)


def span(
    began: int,
    ended: int,
    name: str = "turn",
    *,
    number: int = 1,
    parent: str = "",
    error: str = "",
    links: tuple[Link, ...] = (),
    remote: bool = False,
    attributes: Mapping[str, Value] | None = None,
) -> SpanRecord:
    about: dict[str, Value] = {"gpud.job.id": 3, "gpud.job.name": "train3", "gpud.device": 0}
    return SpanRecord(
        name=name,
        trace_id=f"{0xABC0 + number // 100:032x}",
        span_id=f"{number:016x}",
        parent_id=parent,
        start_ns=T0 + began,
        end_ns=T0 + ended,
        attributes=about if attributes is None else attributes,
        links=links,
        error=error,
        remote=remote,
    )


def note(journal: JournalFile, *numbers: int, kind: str = "grant", text: str = "it has it", at: int = 0) -> None:
    """Decisions with these numbers."""
    journal.decided(
        [Numbered(one, Made(mono_ns=at, kind=kind, text=text, slot=Slot(0), job=7)) for one in numbers],
        T0,
        lambda job: f"train{job}",
    )


@contextlib.contextmanager
def journal_at(directory: Path, daemon: str = "first", max_bytes: int = 1 << 20) -> Iterator[JournalFile]:
    """Written when left."""
    journal = JournalFile(directory, begin(daemon), max_bytes=max_bytes, wall=lambda: T0)
    try:
        yield journal
    finally:
        journal.close(WITHIN)


def entries(directory: Path, reading: Reading | None = None) -> list[Entry]:
    return list(read(directory, reading))


def numbers(directory: Path) -> list[int]:
    """Of the decisions that are there."""
    return [one.decision.number for one in entries(directory) if isinstance(one, Decided)]


def written(directory: Path, number: int) -> None:
    """Waits for it."""
    until(lambda: directory.exists() and number in numbers(directory), WITHIN, f"decision {number} is on disk")


def total(directory: Path) -> int:
    return sum(path.stat().st_size for _, path in files_of(directory))
