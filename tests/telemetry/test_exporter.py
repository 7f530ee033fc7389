"""Spans leave over OTLP, and an endpoint that is dead, slow or unfriendly costs nothing but a line a minute."""

import gc
import logging
import os
import ssl
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
import trio
import trustme

from gpud.config_file import TelemetryConfig
from gpud.engine.state import State
from gpud.telemetry.exporter import Exporter
from gpud.telemetry.span import Link, SpanRecord
from gpud.telemetry.traces import endpoint_of, open_traces, sample_of, wanted
from tests.engine.conftest import new_state
from tests.telemetry.receiver import Receiver, receiving

PATIENCE_S = 30
NO_GRPC = "OTLP over gRPC is not installed (gpud[grpc])"
OVER_HTTP = ("dead", "hanging", "429", "500", "certificate")
OVER_GRPC = ("dead", "silent", "hanging", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "certificate")
TRACE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(logging.getLogger("opentelemetry"), "handlers", [])  # of ends that a thread has yet to see
    monkeypatch.setattr(logging.getLogger("opentelemetry"), "propagate", True)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")


def span(number: int = 1, error: str = "") -> SpanRecord:
    return SpanRecord(
        name="turn",
        trace_id=TRACE,
        span_id=f"{number:016x}",
        parent_id="00f067aa0ba902b7",
        start_ns=1_700_000_000_000_000_001,
        end_ns=1_700_000_000_500_000_002,
        attributes={"hw.id": "GPU-1", "gpud.turn.overran": True, "gpud.swap.bytes": 5, "gpud.segment.hold_s": 0.5},
        links=(Link(trace_id=OTHER, span_id="b7ad6b7169203331", kind="waited_for"),),
        error=error,
    )


async def comes(condition: Callable[[], object]) -> None:
    """Of what other threads do."""
    with trio.fail_after(PATIENCE_S):
        while True:
            if condition():
                return
            await trio.sleep(0.01)


async def arrives(receiver: Receiver, count: int) -> None:
    await comes(lambda: len(receiver.spans) >= count)


async def test_what_arrives_is_what_was_sent() -> None:
    with receiving() as receiver:
        exporter = Exporter(f"{receiver.url}/v1/traces", {"service.name": "gpud", "host.name": "h"}, "1.2")
        exporter.put(span(error="it went wrong"))
        await arrives(receiver, 1)
        await exporter.aclose()
    (found,) = receiver.spans
    assert (found.name, found.trace_id, found.span_id, found.parent_id) == (
        "turn", TRACE, "0000000000000001", "00f067aa0ba902b7",
    )  # fmt: skip
    assert (found.start_ns, found.end_ns) == (1_700_000_000_000_000_001, 1_700_000_000_500_000_002)
    assert found.attributes == {
        "hw.id": "GPU-1", "gpud.turn.overran": True, "gpud.swap.bytes": 5, "gpud.segment.hold_s": 0.5,
    }  # fmt: skip
    assert found.links == [(OTHER, "b7ad6b7169203331", "waited_for")]
    assert (found.error, found.scope) == ("it went wrong", "gpud")
    assert found.resource["service.name"] == "gpud"
    assert found.resource["telemetry.sdk.language"] == "python"


async def test_what_waits_at_the_end_is_sent() -> None:
    with receiving() as receiver:
        exporter = Exporter(f"{receiver.url}/v1/traces", {}, "1")
        for number in range(1, 300):
            exporter.put(span(number))
        await exporter.aclose()
        assert len(receiver.spans) == 299


async def test_the_resource_is_what_otel_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gpud-rack-7")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        exporter = Exporter(None, {"service.name": "gpud"}, "1")
        exporter.put(span())
        await exporter.aclose()
    (found,) = receiver.spans
    assert found.resource["service.name"] == "gpud-rack-7"
    assert found.resource["deployment.environment.name"] == "test"


async def test_over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc", reason=NO_GRPC)
    from tests.telemetry.grpc_receiver import receiving_grpc

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with receiving_grpc() as receiver:
        exporter = Exporter(receiver.url, {}, "1")
        exporter.put(span())
        await arrives(receiver, 1)
        await exporter.aclose()
    assert receiver.spans[0].trace_id == TRACE


def _wrong_certificate(context: ssl.SSLContext) -> None:
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)


@pytest.fixture(params=[*OVER_HTTP, *(f"grpc {kind}" for kind in OVER_GRPC)])
def bad(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An endpoint that takes nothing."""
    kind: str = request.param
    if kind.startswith("grpc "):
        pytest.importorskip("grpc", reason=NO_GRPC)
        from tests.telemetry.grpc_receiver import bad_grpc

        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        with bad_grpc(kind.removeprefix("grpc ")) as receiver:
            yield receiver.url
            assert receiver.spans == []
        return
    if kind == "dead":
        with receiving() as receiver:
            url = receiver.url
        yield f"{url}/v1/traces"
        return
    status = {"hanging": None, "429": 429, "500": 500}.get(kind, 200)
    with receiving(status, _wrong_certificate if kind == "certificate" else None) as receiver:
        yield f"{receiver.url}/v1/traces"
        assert receiver.spans == []


async def test_a_bad_endpoint_costs_no_memory_and_one_line(
    bad: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")

    def ours() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "gpud.telemetry"]

    with caplog.at_level(logging.DEBUG):
        exporter = Exporter(bad, {}, "1")
        for number in range(1, 4001):  # its queue has room for 2048
            exporter.put(span(number))
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(1, 6001):
                exporter.put(span(number))
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert grown < 6 << 20, "as much as the queue has room for"
        await comes(ours)
        await exporter.aclose()
    assert len(ours()) == 1
    assert ours()[0].startswith("traces are not taken: ")
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


async def test_the_end_is_not_kept_up_by_a_bad_endpoint(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    exporter = Exporter(bad, {}, "1")
    for number in range(1, 1000):
        exporter.put(span(number))
    began_s = time.monotonic()
    await exporter.aclose()
    assert time.monotonic() - began_s < 60, "OpenTelemetry alone would take as long as it may"


async def test_what_is_lost_at_the_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Also of an endpoint that has not been late for long enough to be complained of."""
    with receiving(None) as receiver:
        exporter = Exporter(f"{receiver.url}/v1/traces", {}, "1")
        exporter.put(span())
        await exporter.aclose()
    assert caplog.text.count("traces are not taken") == 1


async def test_it_is_said_when_spans_are_taken_again(caplog: pytest.LogCaptureFixture) -> None:
    with receiving(500) as receiver:
        exporter = Exporter(f"{receiver.url}/v1/traces", {}, "1")
        exporter.put(span())
        await comes(lambda: receiver.requests)
        receiver.status = 200
        exporter.put(span(2))
        await arrives(receiver, 1)
        await exporter.aclose()
    assert "traces are taken again; 1 spans were lost" in caplog.text


# ------------------------------------------------------------------------------------------------------ who wants them


@pytest.mark.parametrize(
    ("traces", "environ", "sent"),
    [
        (None, {}, False),
        (True, {}, True),
        ("http://c:4318", {}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/x"}, True),
        (None, {"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        (True, {"OTEL_SDK_DISABLED": "true"}, False),
        (True, {"OTEL_SDK_DISABLED": "TRUE"}, False),
        (True, {"OTEL_SDK_DISABLED": "1"}, True),
        (True, {"OTEL_TRACES_EXPORTER": "none"}, False),
        (True, {"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, False),
    ],
)
def test_who_wants_spans(traces: bool | str | None, environ: dict[str, str], sent: bool) -> None:
    assert wanted(TelemetryConfig(traces=traces), environ) is sent


@pytest.mark.parametrize(
    ("traces", "environ", "endpoint"),
    [
        (True, {}, None),
        ("http://c:4318", {}, "http://c:4318/v1/traces"),
        ("http://c:4318/", {}, "http://c:4318/v1/traces"),
        ("https://c/otlp/v1/traces", {}, "https://c/otlp/v1/traces"),
        ("http://c:4317", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://c:4317"),
        (
            "http://c:4318",
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http://c:4318/v1/traces",
        ),
        ("http://c:4318", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://d:4318"}, None),
    ],
)
def test_where_they_go(traces: bool | str, environ: dict[str, str], endpoint: str | None) -> None:
    assert endpoint_of(TelemetryConfig(traces=traces), environ) == endpoint


@pytest.mark.parametrize(
    ("sampler", "argument", "sample"),
    [
        ("", "", 10),
        ("always_on", "", 1),
        ("parentbased_always_on", "", 1),
        ("traceidratio", "0.25", 4),
        ("parentbased_traceidratio", "1", 1),
        ("traceidratio", "nonsense", 10),
        ("traceidratio", "0", 10),
        ("jaeger_remote", "", 10),
    ],
)
def test_how_many_turns_are_told(sampler: str, argument: str, sample: int) -> None:
    environ = {"OTEL_TRACES_SAMPLER": sampler}
    assert sample_of(environ | ({"OTEL_TRACES_SAMPLER_ARG": argument} if argument else {}), 10) == sample


async def opened(config: TelemetryConfig, environ: dict[str, str]) -> State:
    state = new_state()
    async with open_traces(config, state, boot="boot", environ=environ) as traces:
        assert (traces.observer is None) == (not state.trace_seed)
    return state


async def test_a_disabled_sdk_costs_nothing() -> None:
    state = await opened(TelemetryConfig(traces=True), {"OTEL_SDK_DISABLED": "true"})
    assert state.trace_seed == "", "jobs keep the TRACEPARENT of their callers"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "neither http/protobuf nor grpc"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-5", "must be a positive integer"),
    ],
)
async def test_variables_that_mean_nothing_cost_the_traces_and_no_more(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, value)
    state = await opened(TelemetryConfig(traces=True), {})
    assert state.trace_seed == ""
    (line,) = [record.getMessage() for record in caplog.records if record.name == "gpud.telemetry"]
    assert line.startswith("no traces are sent: ")
    assert said in line


async def test_sinks_get_spans_without_an_exporter() -> None:
    spans: list[SpanRecord] = []
    state = new_state()
    async with open_traces(TelemetryConfig(), state, boot="boot", sinks=(spans.append,), environ={}) as traces:
        assert traces.observer is not None
        assert traces.trace_of(1) == ""  # type: ignore[arg-type]
    assert state.trace_seed == ""
