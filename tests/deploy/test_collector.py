"""A collector that is not ours (rotel, of PyPI) takes the spans of a real daemon, over HTTP and over gRPC, and hands
them on as they were."""

import importlib.util
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpud.testing.node import Node, until
from tests.deploy.prometheus import WITHIN, free_port
from tests.e2e.test_traces import CALLER, traced
from tests.telemetry.receiver import receiving

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(importlib.util.find_spec("rotel") is None, reason="no rotel for this Python or machine"),
]


@contextmanager
def collector(directory: Path, protocol: str, beyond: str) -> Iterator[str]:
    """The URL of one that hands all it gets to `beyond`."""
    found = importlib.util.find_spec("rotel")
    assert found is not None
    assert found.origin is not None
    for _ in range(5):  # somebody else may take a port meanwhile
        ports = {"http": free_port(), "grpc": free_port()}
        said = {
            "ROTEL_OTLP_GRPC_ENDPOINT": f"127.0.0.1:{ports['grpc']}",
            "ROTEL_OTLP_HTTP_ENDPOINT": f"127.0.0.1:{ports['http']}",
            "ROTEL_EXPORTERS": "otlp",
            "ROTEL_EXPORTERS_TRACES": "otlp",
            "ROTEL_EXPORTER_OTLP_ENDPOINT": beyond,
            "ROTEL_EXPORTER_OTLP_PROTOCOL": "http",
        }
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("ROTEL_", "OTEL_"))}
        with (directory / "rotel.log").open("wb") as log:
            process = subprocess.Popen(
                [Path(found.origin).parent / "rotel-agent", "start"], env=ours | said, stdout=log, stderr=log
            )
        try:
            until(lambda: process.poll() is not None or all(map(_listens, ports.values())), WITHIN, "it listens")  # noqa: B023
            if process.poll() is None:
                yield f"http://127.0.0.1:{ports[protocol]}"
                return
        finally:
            process.kill()
            process.wait()
    raise AssertionError((directory / "rotel.log").read_text())


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), WITHIN).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_what_a_collector_hands_on_is_what_the_daemon_saw(tmp_path: Path, counter: list[str], protocol: str) -> None:
    if protocol == "grpc":
        pytest.importorskip("grpc", reason="OTLP over gRPC is not installed (gpud[grpc])")
    named = {"http": "http/protobuf", "grpc": "grpc"}[protocol]
    with receiving() as receiver, collector(tmp_path, protocol, receiver.url) as url:
        node = Node(profile="test-small", policy="turns")
        traced(node, url, OTEL_EXPORTER_OTLP_PROTOCOL=named)
        with node:
            node.environment["TRACEPARENT"] = CALLER
            job = node.run([*counter, "1", "5"], labels={"tier": "a"})
            assert job.wait(WITHIN) == 0
            assert node.daemon is not None
            node.daemon.send_signal(signal.SIGTERM)
            assert node.daemon.wait(WITHIN) == 0
        until(lambda: receiver.named("job.segment"), WITHIN, "all of it is here")
        (root,) = receiver.named("job")
        (segment,) = receiver.named("job.segment")
        assert (root.trace_id, root.parent_id) == (CALLER[3:35], CALLER[36:52])
        assert receiver.children(root) == [segment]
        assert root.attributes["gpud.label.tier"] == "a"
        turns = [span for span in receiver.children(segment) if span.name == "turn"]
        assert segment.attributes["gpud.segment.turns"] == len(turns) > 0
        assert all(span.scope == "gpud" for span in receiver.spans)
        assert {span.resource["service.name"] for span in receiver.spans} == {"gpud"}
        for turn in turns:
            assert turn.attributes["hw.id"].startswith("GPU-")
            parts = receiver.children(turn)
            assert sum(span.took_ns for span in parts) == turn.took_ns > 0
