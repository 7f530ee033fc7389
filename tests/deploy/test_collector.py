"""A collector that is not ours (rotel, of PyPI) takes the spans of a real daemon, over HTTP and over gRPC, and hands
them on as they were: links, preemptions, swaps and errors among them."""

import importlib.util
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpud.model.units import MILLISECOND
from gpud.testing.node import until
from tests.deploy.prometheus import WITHIN, free_port
from tests.e2e.test_swap import Turns
from tests.e2e.test_traces import has_bytes_and_links, is_the_whole_tree, parts_of, traced, two_take_turns
from tests.telemetry.receiver import Receiver, receiving

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
def test_what_a_collector_hands_on_is_what_the_daemon_saw(tmp_path: Path, large: list[str], protocol: str) -> None:
    if protocol == "grpc":
        pytest.importorskip("grpc", reason="OTLP over gRPC is not installed (gpud[grpc])")
    named = {"http": "http/protobuf", "grpc": "grpc"}[protocol]
    with receiving() as receiver, collector(tmp_path, protocol, receiver.url) as url:
        node = Turns(tmp_path)
        traced(node, url, OTEL_EXPORTER_OTLP_PROTOCOL=named)
        two_take_turns(node, large, receiver)
        until(lambda: is_all_here(receiver), WITHIN, "all of it is here")
    is_the_whole_tree(receiver)
    has_bytes_and_links(receiver)
    rejected = receiver.named("policy.reload")[0]  # whoever watches the files may have seen it before it was asked
    assert rejected.attributes["code.file.path"].endswith("p.gpol")
    assert rejected.error == "1 error in 1 file"
    assert all(span.scope == "gpud" for span in receiver.spans)


def is_all_here(receiver: Receiver) -> bool:
    """What a collector holds comes a little later, and in any order."""
    jobs, turns = receiver.named("job"), receiver.named("turn")
    told = sum(span.attributes["gpud.segment.turns"] for span in receiver.named("job.segment"))
    whole = all(
        abs(sum(part.took_ns for part in parts_of(receiver, turn)) - turn.took_ns) <= MILLISECOND for turn in turns
    )
    return len(jobs) == 2 and len(turns) == told and whole
