"""Worlds whose events an observer hears, and what it makes of them."""

import random
from collections.abc import Iterable

from gpud.engine.reducer import react
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId
from gpud.model.units import SECOND
from gpud.telemetry.observer import Observer
from gpud.telemetry.span import SpanRecord
from tests.engine.conftest import World, only
from tests.engine.swaps import ZERO, Swaps
from tests.engine.test_lock import Turns

OFFSET = 1_700_000_000 * SECOND
"""Unix time less the clock of the events."""


class Heard(World):
    """Beside a world: `spans`, as they come."""

    sample = 1
    spans: list[SpanRecord]
    observer: Observer | None = None

    def react(self, event: ev.Event) -> list[Effect]:
        if self.observer is None:
            self.listen()
        effects = react(self.state, event, self.now)
        assert self.observer is not None
        self.observer.saw(event, effects, self.now)
        return effects

    def listen(self) -> None:
        self.spans = []
        self.observer = Observer(
            self.state,
            lambda span: self.spans.append(span),
            seed="boot",
            sample=self.sample,
            now=self.now,
            offset=lambda: OFFSET,
            bits=random.Random(1).getrandbits,
        )

    def close(self) -> list[SpanRecord]:
        """The daemon ends."""
        assert self.observer is not None
        self.observer.close(self.now)
        return self.spans

    def named(self, name: str) -> list[SpanRecord]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> SpanRecord:
        (span,) = self.named(name)
        return span

    def job(self, client: ClientId) -> int:
        return self.state.clients[client].job


class HeardTurns(Heard, Turns):
    """Turns without memory that moves."""


class HeardSwaps(Heard, Swaps):
    """Turns with memory that moves."""

    def comes_in(self, client: ClientId) -> list[Effect]:
        """All that it lacks, and it says how much that was."""
        row = self.rows[client]
        count = row.host_bytes + row.lazy_bytes
        self.set(client, resident_bytes=row.resident_bytes + count, host_bytes=0, lazy_bytes=0)
        return self.react(
            ev.LockIsIn(
                client=client, slots=frozenset({ZERO}), epoch=self.epoch(), bytes=count, short=False, took_ns=1,
                held=self.held,
            )
        )  # fmt: skip


def children(spans: Iterable[SpanRecord], parent: SpanRecord) -> list[SpanRecord]:
    """In the order of time."""
    found = [span for span in spans if (span.trace_id, span.parent_id) == (parent.trace_id, parent.span_id)]
    return sorted(found, key=lambda span: span.start_ns)


def took(span: SpanRecord) -> int:
    return span.end_ns - span.start_ns


def out_of(effects: Iterable[Effect]) -> do.SwapOut:
    (out,) = only(list(effects), do.SwapOut)
    return out
