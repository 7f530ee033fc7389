"""From what the engine does to spans: moments → spans, segment by segment. Pure."""

from collections.abc import Callable, Sequence

from gpud.engine.standing import class_text
from gpud.engine.state import State
from gpud.model.effects import Effect
from gpud.model.events import Event
from gpud.model.ids import JobId
from gpud.telemetry import attributes
from gpud.telemetry.moments import Moments
from gpud.telemetry.records import job_of
from gpud.telemetry.span import Put
from gpud.telemetry.spans import Spans


class Observer:
    """Implements ports.ObserverPort for one engine's state. Arguments as `Spans` has them; jobs that are there already
    are a daemon's before."""

    def __init__(
        self,
        state: State,
        put: Put,
        *,
        seed: str,
        sample: int,
        now: int,
        offset: Callable[[], int],
        bits: Callable[[int], int],
    ) -> None:
        self._state = state
        self._moments = Moments(state, now)
        self._spans = Spans(
            put,
            seed=seed,
            sample=sample,
            offset=offset,
            bits=bits,
            device=lambda slot: attributes.of_device(state, slot),
            class_of=self._class_of,
        )
        self.trace_of = self._spans.trace_of
        for tenant in state.tenants.values():
            self._spans.adopt(job_of(tenant), now)

    def saw(self, event: Event, effects: Sequence[Effect], now: int) -> None:
        spans = self._spans
        for record in self._moments.saw(event, effects, now):
            spans.take(record)
        if spans.due_ns is not None and now >= spans.due_ns:
            self._cut(now)

    def close(self, now: int) -> None:
        """Tells what goes on, as far as it has come."""
        for part in self._moments.close(now):
            self._spans.take(part)
        self._spans.close(now)

    def _cut(self, now: int) -> None:
        """Segments end. What began before one of them is told with it."""
        while (over := self._spans.due(now)) is not None:
            job, began, ended = over
            for part in self._moments.split(job, began, ended):
                self._spans.take(part)
            if self._spans.due(now) == over:
                self._spans.cut(job, ended)

    def _class_of(self, job: JobId) -> str:
        tenant = self._state.tenants.get(job)
        return class_text(self._state, tenant) if tenant is not None else ""
