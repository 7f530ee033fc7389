"""Who had a device, when: what the timeline shows."""

from collections import deque

from attrs import define, evolve, field

KEPT = 4000
"""Spans of one device."""


@define
class Held:
    """One job had one device for a while."""

    job: int
    began_at_ns: int
    ended_at_ns: int | None = None
    """Unix time; None: it still has it."""
    turn: bool = True
    """By a turn; False: nobody takes turns there, and it used most of the GPU time."""


@define
class Holders:
    """Of one device, oldest first, without overlaps."""

    spans: deque[Held] = field(factory=lambda: deque(maxlen=KEPT))
    turns: bool = False
    """Jobs take turns there."""

    @property
    def job(self) -> int | None:
        """Who has it now."""
        return self.spans[-1].job if self.spans and self.spans[-1].ended_at_ns is None else None

    def take(self, job: int | None, at_ns: int, *, turn: bool = True) -> None:
        """From `at_ns` on it is with `job`; None: with nobody. What is told late counts from the last change on."""
        if self.job == job:
            return
        if self.spans:
            at_ns = max(at_ns, self.spans[-1].ended_at_ns or self.spans[-1].began_at_ns)
        if self.spans and self.spans[-1].ended_at_ns is None:
            self.spans[-1].ended_at_ns = at_ns
        if job is not None:
            self.spans.append(Held(job, at_ns, turn=turn))

    def append(self, later: "Holders") -> None:
        """What is known of the time after this."""
        self.turns = self.turns or later.turns
        if later.spans:
            self.take(None, later.spans[0].began_at_ns)
        self.spans.extend(later.spans)

    def snapshot(self) -> "Holders":
        """As it is now. Only the last span can change."""
        spans = self.spans.copy()
        if spans:
            spans[-1] = evolve(spans[-1])
        return Holders(spans, self.turns)

    def between(self, begin_ns: int, end_ns: int) -> list[Held]:
        """Spans that touch it, oldest first."""
        found: list[Held] = []
        for span in reversed(self.spans):
            if span.ended_at_ns is not None and span.ended_at_ns <= begin_ns:
                break
            if span.began_at_ns < end_ns:
                found.append(span)
        found.reverse()
        return found
