"""Spans to OpenTelemetry: its batch processor, and its OTLP exporter over HTTP, or gRPC where that is installed. All
that `OTEL_*` says holds. What waits to be sent is bounded, and an endpoint that does not take it costs a line a minute.

Imported by daemons that send spans, and nobody else: it takes a fifth of a second.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

import trio
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from gpud.telemetry.span import SpanRecord

log = logging.getLogger("gpud.telemetry")

CLOSING_S = 1.5
"""For what has not been sent yet, at the end."""
BATCH = 128
"""Spans sent together: making more of them ready at once keeps the engine from its work."""
WARN_EVERY_S = 60.0
LONGEST_TEXT = 300
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)


class Exporter:
    """`endpoint`: an OTLP one, in full; None: as `OTEL_*` says. Raises ValueError for what OpenTelemetry cannot make
    sense of, ImportError where a protocol is not installed."""

    def __init__(self, endpoint: str | None, about: Mapping[str, str], version: str) -> None:
        self._warnings = _Warnings()
        self._inner = make_exporter(endpoint)
        detected = OTELResourceDetector().detect().attributes
        self._resource = Resource.create({**about, **detected})
        self._scope = InstrumentationScope("gpud", version)
        queue: int = BatchSpanProcessor._default_max_queue_size()  # type: ignore[no-untyped-call]
        batch = None if os.environ.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") else min(BATCH, queue)
        self._counted = _Counted(self._inner, self._warnings)
        self._processor = BatchSpanProcessor(self._counted, max_export_batch_size=batch)
        self._warnings.open()

    def put(self, record: SpanRecord) -> None:
        """Never waits; where too much waits already, the oldest is lost."""
        trace_id = _number(record.trace_id)
        parent = SpanContext(trace_id, int(record.parent_id, 16), record.remote, _SAMPLED) if record.parent_id else None
        self._processor.on_end(
            ReadableSpan(
                name=record.name,
                context=SpanContext(trace_id, int(record.span_id, 16), False, _SAMPLED),
                parent=parent,
                resource=self._resource,
                attributes=record.attributes,
                links=tuple(
                    Link(
                        SpanContext(_number(link.trace_id), int(link.span_id, 16), False, _SAMPLED),
                        {"gpud.link": link.kind},
                    )
                    for link in record.links
                ),
                status=Status(StatusCode.ERROR, record.error) if record.error else _UNSET,
                start_time=record.start_ns,
                end_time=record.end_ns,
                instrumentation_scope=self._scope,
            )
        )

    async def aclose(self) -> None:
        """Sends what waits, for a moment; then it is lost. OpenTelemetry's own end may take half a minute where nobody
        answers, so a thread does it that is left to itself."""
        with trio.CancelScope(shield=True):
            with trio.move_on_after(CLOSING_S) as late:
                await trio.to_thread.run_sync(self._processor.shutdown, abandon_on_cancel=True)
            if late.cancelled_caught:
                self._warnings.gave_up()
                with trio.move_on_after(0.2):
                    await trio.to_thread.run_sync(self._inner.shutdown, abandon_on_cancel=True)
        self._warnings.end(goes_on=late.cancelled_caught)


def make_exporter(endpoint: str | None) -> SpanExporter:
    """By OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, else OTEL_EXPORTER_OTLP_PROTOCOL, else http/protobuf."""
    named = (os.environ.get(f"OTEL_EXPORTER_OTLP_{name}PROTOCOL", "").strip() for name in ("TRACES_", ""))
    protocol = next(filter(None, named), "http/protobuf")
    if protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=endpoint)
    if protocol == "grpc":
        try:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc
        except ImportError:
            raise ImportError("OTLP over gRPC is not installed: pip install 'gpud[grpc]'") from None
        return OverGrpc(endpoint=endpoint)
    raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol!r} is neither http/protobuf nor grpc")


class _Counted(SpanExporter):
    """Knows how many were not taken."""

    def __init__(self, inner: SpanExporter, warnings: "_Warnings") -> None:
        self._inner, self._warnings = inner, warnings

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._warnings.worked()
        else:
            self._warnings.lost(len(spans))
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._inner.force_flush(timeout_millis)


class _Warnings(logging.Handler):
    """What OpenTelemetry complains of, a line a minute. Called by its thread, too."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._logger = logging.getLogger("opentelemetry")
        self._before = self._logger.propagate
        self._clock = clock
        self._said = -WARN_EVERY_S
        self._why = ""
        self._lost = 0
        self._ended = False

    def open(self) -> None:
        self._logger.addHandler(self)
        self._logger.propagate = False

    def end(self, *, goes_on: bool) -> None:
        """`goes_on`: a thread that was left to itself may still complain, to nobody."""
        self._ended = True
        if not goes_on:
            self._logger.removeHandler(self)
            self._logger.propagate = self._before

    def emit(self, record: logging.LogRecord) -> None:
        self._why = record.getMessage()
        self._tell()

    def lost(self, count: int) -> None:
        """So many spans were not taken."""
        self.acquire()
        try:
            self._lost += count
            self._tell()
        finally:
            self.release()

    def gave_up(self) -> None:
        """What waited at the end was not sent in time."""
        self.acquire()
        try:
            self._why = self._why or "what waited was not answered before the daemon ended"
            self._tell()
        finally:
            self.release()

    def worked(self) -> None:
        """They are taken, again or still."""
        self.acquire()
        try:
            if self._lost and not self._ended:
                log.warning("traces are taken again; %d spans were lost", self._lost)
                self._lost, self._said = 0, -WARN_EVERY_S
        finally:
            self.release()

    def _tell(self) -> None:
        now = self._clock()
        if self._ended or now - self._said < WARN_EVERY_S:
            return
        self._said = now
        lost = f" ({self._lost} spans lost)" if self._lost else ""
        log.warning("traces are not taken: %s%s", self._why[:LONGEST_TEXT], lost)


_number: Callable[[str], int] = lru_cache(1024)(partial(int, base=16))
"""Of a trace's id: many spans have the same."""
