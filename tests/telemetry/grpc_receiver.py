"""An OTLP receiver on loopback over gRPC: takes spans, or treats them badly. Needs grpcio."""

import socket
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
import trustme
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tests.telemetry.receiver import Receiver


@contextmanager
def receiving_grpc(kind: str = "") -> Iterator[Receiver]:
    """`kind`: "": all spans are taken; `hanging`: no request is answered, ever; `certificate`: of nobody that is
    trusted; else a gRPC status that each request gets."""
    receiver = Receiver()

    class Service(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: Any) -> object:
            receiver.requests += 1
            receiver.asked.set()
            if kind == "hanging":
                receiver.over.wait()
            elif kind and kind != "certificate":
                context.abort(grpc.StatusCode[kind], "not now")
            receiver.take(request.SerializeToString())
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), server)
    if kind == "certificate":
        issued = trustme.CA().issue_cert("127.0.0.1")
        chain = b"".join(one.bytes() for one in issued.cert_chain_pems)
        pairs = [(issued.private_key_pem.bytes(), chain)]
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pairs))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    receiver.url = f"http{'s' if kind == 'certificate' else ''}://127.0.0.1:{port}"
    server.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.stop(None).wait()


@contextmanager
def bad_grpc(kind: str) -> Iterator[Receiver]:
    """Beside those above: `dead`: nobody listens; `silent`: one is connected, and hears nothing."""
    if kind in ("dead", "silent"):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            receiver = Receiver(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
            if kind == "dead":
                listener.close()
            yield receiver
        return
    with receiving_grpc(kind) as receiver:
        yield receiver
