"""Spans of the journal as OTLP's own messages parse them."""

import base64
import json
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from gpud.model.units import SECOND
from gpud.telemetry.export_otlp import PER_LINE, otlp_lines
from gpud.telemetry.journal_lines import Entry
from gpud.telemetry.span import Link
from tests.telemetry.kept import T0, begin, decided, span

_IDS = {"traceId", "spanId", "parentSpanId"}


def _as_protobuf(value: Any) -> Any:
    """OTLP's JSON is protobuf's but for ids, which are hex there and base64 here."""
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(one)).decode() if key in _IDS else _as_protobuf(one)
            for key, one in value.items()
        }
    return [_as_protobuf(one) for one in value] if isinstance(value, list) else value


def parsed(entries: list[Entry], since: int | None = None, until: int | None = None) -> list[TracesData]:
    found = []
    for line in otlp_lines(iter(entries), since_ns=since, until_ns=until):
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        found.append(json_format.ParseDict(_as_protobuf(json.loads(line)), TracesData()))
    return found


def spans_of(data: TracesData) -> list[Span]:
    return [one for resource in data.resource_spans for scope in resource.scope_spans for one in scope.spans]


def values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def test_a_span_with_all_there_is_to_it() -> None:
    link = Link(trace_id="0123456789abcdef" * 2, span_id="fedcba9876543210", kind="victim")
    attributes = {"text": 'a"b\n', "int": -(2**63), "float": 0.25, "whole": 3.0, "yes": True, "no": False}
    one = span(1, 2 * SECOND, number=7, parent="f" * 16, error="why", links=(link,), remote=True, attributes=attributes)
    (data,) = parsed([begin(), decided(0, "grant"), one])
    (found,) = spans_of(data)
    assert (found.trace_id.hex(), found.span_id.hex(), found.parent_span_id.hex()) == (
        one.trace_id,
        one.span_id,
        one.parent_id,
    )
    assert (found.name, found.kind) == ("turn", Span.SPAN_KIND_INTERNAL)
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (T0 + 1, T0 + 2 * SECOND)
    assert values(found.attributes) == attributes
    kinds = {pair.key: pair.value.WhichOneof("value") for pair in found.attributes}
    assert kinds == {
        "text": "string_value", "int": "int_value", "float": "double_value", "whole": "double_value",
        "yes": "bool_value", "no": "bool_value",
    }  # fmt: skip
    assert (found.status.code, found.status.message) == (Status.STATUS_CODE_ERROR, "why")
    (linked,) = found.links
    assert (linked.trace_id.hex(), linked.span_id.hex()) == (link.trace_id, link.span_id)
    assert values(linked.attributes) == {"gpud.link": "victim"}
    assert found.flags & 0x301 == 0x301, "sampled; its parent is known to be remote"
    (resource,) = data.resource_spans
    assert values(resource.resource.attributes) == {
        "service.name": "gpud",
        "service.version": "1.2",
        "service.instance.id": "node1:4711",
        "host.name": "node1",
    }
    assert (resource.scope_spans[0].scope.name, resource.scope_spans[0].scope.version) == ("gpud", "1.2")


def test_a_root_that_went_well() -> None:
    ((found,),) = [spans_of(data) for data in parsed([begin(), span(0, 1)])]
    assert found.parent_span_id == b""
    assert found.status.code == Status.STATUS_CODE_UNSET
    assert found.flags & 0x300 == 0x100


def test_each_line_can_be_sent_by_itself_and_says_whose_it_is() -> None:
    """Two daemons in turn."""
    many = [span(0, number, number=number + 1) for number in range(PER_LINE + 10)]
    one, other = begin("a", pid=1), begin("b", pid=2)
    lines = parsed([one, *many, one, span(0, 1, number=5000), other, span(0, 1)])
    assert [len(spans_of(data)) for data in lines] == [PER_LINE, 11, 1]
    whose = [values(data.resource_spans[0].resource.attributes)["service.instance.id"] for data in lines]
    assert whose == ["node1:1", "node1:1", "node1:2"]
    assert [one.span_id for one in spans_of(lines[0])] == [bytes.fromhex(one.span_id) for one in many[:PER_LINE]]


def test_a_piece_of_time_has_what_was_at_least_in_part_in_it() -> None:
    entries: list[Entry] = [begin(), *(span(at, at + 10, number=at + 1) for at in range(0, 100, 10))]
    found = [one for data in parsed(entries, T0 + 35, T0 + 60) for one in spans_of(data)]
    assert [one.start_time_unix_nano - T0 for one in found] == [30, 40, 50, 60]
    assert parsed(entries, T0 + 500) == []


def test_a_journal_whose_beginning_is_gone() -> None:
    (data,) = parsed([span(0, 1)])
    assert values(data.resource_spans[0].resource.attributes) == {"service.name": "gpud"}
