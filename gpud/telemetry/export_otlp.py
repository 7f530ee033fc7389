"""Spans of the journal as OTLP in its JSON form, a line for some spans each, as the protocol's file exporter writes
them: a collector's otlpjsonfile receiver reads it, Jaeger opens it, each line can be posted to /v1/traces. Pure.

As the protocol says, and other than protobuf's own JSON: ids are hex, enumerations are numbers. 64-bit integers are
text.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from gpud.telemetry.journal_lines import Begin, Entry
from gpud.telemetry.span import SpanRecord, Value

PER_LINE = 256
_INTERNAL = 1
_ERROR = 2
_SAMPLED, _KNOWS_REMOTE, _IS_REMOTE = 0x1, 0x100, 0x200
"""Of `flags`."""
_encode = msgspec.json.Encoder().encode


def otlp_lines(entries: Iterable[Entry], *, since_ns: int | None, until_ns: int | None) -> Iterator[bytes]:
    """Those that were, at least in part, between two times (Unix time; None: all)."""
    begin: Begin | None = None
    spans: list[dict[str, Any]] = []
    for entry in entries:
        if isinstance(entry, Begin):
            if begin is not None and entry.daemon != begin.daemon and spans:
                yield _line(begin, spans)
                spans = []
            begin = entry
        elif isinstance(entry, SpanRecord) and _within(entry, since_ns, until_ns):
            spans.append(span_object(entry))
            if len(spans) >= PER_LINE:
                yield _line(begin, spans)
                spans = []
    if spans:
        yield _line(begin, spans)


def _within(span: SpanRecord, since_ns: int | None, until_ns: int | None) -> bool:
    return (since_ns is None or span.end_ns >= since_ns) and (until_ns is None or span.start_ns <= until_ns)


def _line(begin: Begin | None, spans: list[dict[str, Any]]) -> bytes:
    about: dict[str, Value] = {"service.name": "gpud"}
    version = ""
    if begin is not None:
        version = begin.version
        about |= {
            "service.version": version,
            "service.instance.id": f"{begin.host}:{begin.pid}",
            "host.name": begin.host,
        }
    scope = {"scope": {"name": "gpud", "version": version}, "spans": spans}
    return _encode({"resourceSpans": [{"resource": {"attributes": _attributes(about)}, "scopeSpans": [scope]}]}) + b"\n"


def span_object(span: SpanRecord) -> dict[str, Any]:
    """One span as OTLP has it."""
    found: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _INTERNAL,
        "flags": _SAMPLED | _KNOWS_REMOTE | (_IS_REMOTE if span.remote else 0),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "status": {"code": _ERROR, "message": span.error} if span.error else {},
    }
    if span.parent_id:
        found["parentSpanId"] = span.parent_id
    if span.links:
        found["links"] = [
            {
                "traceId": link.trace_id,
                "spanId": link.span_id,
                "attributes": _attributes({"gpud.link": link.kind}),
                "flags": _SAMPLED | _KNOWS_REMOTE,
            }
            for link in span.links
        ]
    return found


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": value}
