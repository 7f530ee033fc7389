"""An OTLP receiver on loopback, made of opentelemetry-proto: takes spans over HTTP, or treats them badly."""

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@define(kw_only=True)
class Span:
    """One as it came."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: list[tuple[str, str, str]]
    """(trace, span, kind)."""
    error: str
    """"": no error status."""
    resource: dict[str, Any]
    scope: str

    @property
    def took_ns(self) -> int:
        return self.end_ns - self.start_ns


@define
class Receiver:
    """`status`: what each request is answered with; None: nothing, ever."""

    status: int | None = 200
    url: str = ""
    spans: list[Span] = field(factory=list)
    requests: int = 0
    asked: threading.Event = field(factory=threading.Event)
    """Somebody has sent something."""
    over: threading.Event = field(factory=threading.Event)

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]

    def children(self, parent: Span) -> list[Span]:
        """In the order of time."""
        own = (parent.trace_id, parent.span_id)
        found = [span for span in list(self.spans) if (span.trace_id, span.parent_id) == own]
        return sorted(found, key=lambda span: span.start_ns)

    def take(self, content: bytes) -> None:
        """An ExportTraceServiceRequest, in bytes."""
        for of_resource in ExportTraceServiceRequest.FromString(content).resource_spans:
            resource = _attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                self.spans += [_span(span, resource, of_scope.scope.name) for span in of_scope.spans]


@contextmanager
def receiving(status: int | None = 200, wrap: Callable[[ssl.SSLContext], None] | None = None) -> Iterator[Receiver]:
    """`wrap`: puts a certificate into a TLS context, in which it then listens."""
    receiver = Receiver(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests += 1
            receiver.asked.set()
            if receiver.status is None:
                receiver.over.wait()
                return
            if receiver.status == 200:
                receiver.take(gzip.decompress(content) if self.headers["Content-Encoding"] == "gzip" else content)
            self.send_response(receiver.status)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Who hangs up in the middle is no news."""

    with Server(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if wrap is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            wrap(context)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        receiver.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.over.set()
            server.shutdown()
            thread.join()


def _span(span: Any, resource: dict[str, Any], scope: str) -> Span:
    return Span(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        links=[
            (link.trace_id.hex(), link.span_id.hex(), str(_attributes(link.attributes).get("gpud.link")))
            for link in span.links
        ],
        error=span.status.message if span.status.code == 2 else "",
        resource=resource,
        scope=scope,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
