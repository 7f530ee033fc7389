"""Who has changed what, and who was not allowed to: one line in the log and the journal for each."""

import time
from collections import Counter

from gpud.control import wire
from gpud.control.authority import Peer, wording
from gpud.control.pace import Pace
from gpud.engine.service import Engine
from gpud.model import effects as do
from gpud.model.text import one_line

DENIED_AT_ONCE, DENIED_PER_S = 10, 0.2
"""Of one user; those beyond are counted."""


class Audit:
    """Of one daemon."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pace = Pace(at_once=DENIED_AT_ONCE, per_s=DENIED_PER_S)
        self._unwritten: Counter[int] = Counter()
        """User → denials since the last line."""

    def changed(self, peer: Peer, ask: wire.Ask, job: int | None, result: str) -> None:
        """`result`: what was done, or why nothing was."""
        self._write(peer, ask, job, result, "info")

    def ended(self, effect: do.EndJob, result: str) -> None:
        """Not a person but a policy has done it."""
        job, by = effect.job, effect.by
        text = one_line(f"policy {by}: kill signal={effect.signal} of job {job}: {effect.why}: {result}")[:1000]
        self._engine.record(do.Record(level="warning", kind="audit", job=job, slot=effect.slot, by=by, text=text))

    def denied(self, peer: Peer, ask: wire.Ask, job: int | None, why: str) -> None:
        if not self._pace.may(peer.uid, time.monotonic()):
            self._unwritten[peer.uid] += 1
            return
        more = self._unwritten.pop(peer.uid, 0)
        self._write(peer, ask, job, f"denied: {why}{f'; {more} more before it' if more else ''}", "warning")

    def _write(self, peer: Peer, ask: wire.Ask, job: int | None, result: str, level: str) -> None:
        of = f" of job {job}" if job is not None else ""
        text = one_line(f"{peer}: {wording(ask)}{of}: {result}")
        self._engine.record(do.Record(level=level, kind="audit", job=_known(job), by=str(peer), text=text[:1000]))


def _known(job: int | None) -> int | None:
    """A number that a journal can keep."""
    return job if job is not None and 0 <= job < 2**63 else None
