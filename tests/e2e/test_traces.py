"""Traces of a real daemon: two programs that do not fit together take turns on the simulated GPU, and an OTLP receiver
has the whole tree."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from gpud.model import traceparent
from gpud.model.units import MILLISECOND
from gpud.testing.node import Node, until
from tests.e2e.test_swap import MIB, WITHIN, Large, Turns
from tests.telemetry.receiver import Receiver, Span, receiving

pytestmark = pytest.mark.e2e

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SAY = [sys.executable, "-c", "import os; print(os.environ.get('TRACEPARENT', 'none'))"]


def traced(node: Node, url: str, **more: str) -> None:
    """Before it starts."""
    mine = {name: value for name, value in node.environment.items() if not name.startswith(("OTEL_", "TRACEPARENT"))}
    node.environment = mine | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_TRACES_SAMPLER": "always_on",
    } | more  # fmt: skip


def two_take_turns(node: Turns, large: list[str], receiver: Receiver) -> None:
    """A whole run of a node whose spans come to the receiver. `one` is started by a caller with a trace, and in the end
    a reload is rejected."""
    with node:
        node.environment["TRACEPARENT"] = CALLER
        one = Large(node, large, "one", 190, "4", "1000")
        del node.environment["TRACEPARENT"]
        two = Large(node, large, "two", 190, "4", "1000")
        for program in (one, two):
            program.right()
        file = node.policies / "p.gpol"
        file.write_text(file.read_text().replace("max_hold = 400ms", "max_hold = 400parsecs"))
        with node.client() as client:
            until(lambda: client.reload().result == "rejected", WITHIN, "what makes no sense is rejected")
        until(lambda: len(receiver.named("job.segment")) == 2, WITHIN, "both jobs have ended")
        until(lambda: receiver.named("policy.reload"), WITHIN, "the reload is told")
        assert node.daemon is not None
        node.daemon.send_signal(signal.SIGTERM)
        assert node.daemon.wait(WITHIN) == 0


@pytest.fixture(scope="module")
def run_of_two(tmp_path_factory: pytest.TempPathFactory, large: list[str]) -> Iterator[Receiver]:
    with receiving() as receiver:
        node = Turns(tmp_path_factory.mktemp("two"))
        traced(node, receiver.url)
        two_take_turns(node, large, receiver)
        yield receiver


def test_the_whole_tree_arrives(run_of_two: Receiver) -> None:
    is_the_whole_tree(run_of_two)


def is_the_whole_tree(receiver: Receiver) -> None:
    """Of `two_take_turns`."""
    one, two = sorted(receiver.named("job"), key=lambda span: str(span.attributes["gpud.label.c"]))
    assert (one.trace_id, one.parent_id) == (CALLER[3:35], CALLER[36:52])
    assert two.trace_id != one.trace_id
    assert two.parent_id == ""
    known = {(span.trace_id, span.span_id): span for span in receiver.spans}
    assert len(known) == len(receiver.spans), "ids are unique"
    orphans = [span for span in receiver.spans if span.parent_id and (span.trace_id, span.parent_id) not in known]
    assert orphans == [one], "its caller's span is not ours"
    for job in (one, two):
        assert job.attributes["process.owner"]
        assert job.attributes["process.executable.name"] == "large"
        (segment,) = receiver.children(job)
        turns = [span for span in receiver.children(segment) if span.name == "turn"]
        assert segment.attributes["gpud.segment.turns"] == len(turns) > 1
        for turn in turns:
            adds_up(receiver, turn)
            assert segment.start_ns <= turn.start_ns <= turn.end_ns <= segment.end_ns
            assert turn.attributes["hw.id"].startswith("GPU-")
            assert turn.attributes["gpud.class"] == "job"
            assert turn.resource["service.name"] == "gpud"
            assert turn.resource["host.name"]


def parts_of(receiver: Receiver, turn: Span) -> list[Span]:
    """That it is made of, one after the other."""
    return [span for span in receiver.children(turn) if span.name != "preempt"]


def adds_up(receiver: Receiver, turn: Span) -> None:
    """wait + swap_in + hold + swap_out = turn."""
    parts = parts_of(receiver, turn)
    assert {span.name for span in parts} <= {"wait", "swap_in", "hold", "swap_out"}
    assert abs(sum(span.took_ns for span in parts) - turn.took_ns) <= MILLISECOND
    for before, after in pairwise(parts):
        assert abs(after.start_ns - before.end_ns) <= MILLISECOND


def test_swaps_carry_bytes_and_turns_link_to_who_was_before(run_of_two: Receiver) -> None:
    has_bytes_and_links(run_of_two)


def has_bytes_and_links(receiver: Receiver) -> None:
    known = {(span.trace_id, span.span_id): span for span in receiver.spans}
    ins = [span for span in receiver.named("swap_in") if span.attributes["gpud.swap.bytes"]]
    outs = receiver.named("swap_out")
    assert ins
    assert outs
    for span in (*ins, *outs):
        count, rate = span.attributes["gpud.swap.bytes"], span.attributes["gpud.swap.bytes_per_second"]
        assert 0 < count <= 256 * MIB
        assert rate == pytest.approx(count / span.took_ns * 1e9, rel=0.01)
    after = [span for span in receiver.named("turn") if span.links]
    assert after, "somebody has waited"
    for turn in after:
        ((trace, span_id, kind),) = turn.links
        assert kind == "waited_for"
        before = known[trace, span_id]
        assert before.name in ("turn", "job.segment")
        assert before.attributes["gpud.job.id"] != turn.attributes["gpud.job.id"]
    preempts = receiver.named("preempt")
    assert preempts, "both want the device all the time"
    assert any("gpud.preempt.beneficiary" in preempt.attributes for preempt in preempts)
    for preempt in preempts:
        kinds = [kind for _, _, kind in preempt.links]
        assert kinds[0] == "victim"
        assert preempt.attributes["gpud.preempt.victim"] == known[preempt.links[0][:2]].attributes["gpud.job.id"]
        if "gpud.preempt.beneficiary" in preempt.attributes:
            other = known[preempt.links[1][:2]]
            assert other.attributes["gpud.job.id"] == preempt.attributes["gpud.preempt.beneficiary"]


def test_a_jobs_program_is_told_of_its_span_and_ps_of_its_trace(tmp_path: Path) -> None:
    with receiving() as receiver:
        node = Turns(tmp_path)
        traced(node, receiver.url)
        with node:
            said = node.run(SAY).communicate(timeout=WITHIN)[0].strip()
            told = traceparent.parse(said)
            assert told is not None
            until(lambda: receiver.named("job"), WITHIN, "its span is here")
            (job,) = receiver.named("job")
            assert (told.trace_id, told.span_id) == (job.trace_id, job.span_id)
            node.environment["TRACEPARENT"] = "00-nonsense"
            said = node.run(SAY).communicate(timeout=WITHIN)[0].strip()
            told = traceparent.parse(said)
            assert told is not None
            assert told.trace_id != job.trace_id
            assert "TRACEPARENT of job 2" in node.log.read_text()
            node.environment["TRACEPARENT"] = CALLER
            waits = node.run([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            rows = until(lambda: feed(node), WITHIN, "it is shown")
            assert rows == [CALLER[3:35]]
            waits.communicate("\n", timeout=WITHIN)


def feed(node: Node) -> list[str]:
    """Traces of all jobs that there are."""
    with node.client() as client:
        return [job.trace for job in next(client.feed()).jobs]


def test_a_disabled_sdk_leaves_the_callers_variable_alone(tmp_path: Path) -> None:
    with receiving() as receiver:
        node = Turns(tmp_path)
        traced(node, receiver.url, OTEL_SDK_DISABLED="true")
        with node:
            assert node.run(SAY).communicate(timeout=WITHIN)[0].strip() == "none"
            node.environment["TRACEPARENT"] = CALLER
            assert node.run(SAY).communicate(timeout=WITHIN)[0].strip() == CALLER
            node.environment["TRACEPARENT"] = "nonsense"
            assert node.run(SAY).communicate(timeout=WITHIN)[0].strip() == "nonsense"
        assert receiver.requests == 0


def test_a_rejected_reload_is_a_trace_with_line_and_column(tmp_path: Path) -> None:
    with receiving() as receiver:
        node = Turns(tmp_path)
        traced(node, receiver.url)
        with node:
            file = node.policies / "p.gpol"
            good = file.read_text()
            file.write_text(good.replace("max_hold = 400ms", "max_hold = 400parsecs"))
            with node.client() as client:
                until(lambda: client.reload().result != "loaded", WITHIN, "it is rejected")
                until(lambda: receiver.named("policy.reload"), WITHIN, "its span is here")
                bad = receiver.named("policy.reload")[0]
                assert bad.attributes["gpud.policy.result"] == "rejected"
                assert bad.attributes["code.file.path"].endswith("p.gpol")
                assert (bad.attributes["code.line.number"], bad.attributes["code.column.number"]) == (4, 39)
                assert bad.error
                assert [span.error != "" for span in receiver.children(bad)][-1] is True
                file.write_text(good.replace("max_hold = 400ms", "max_hold = 500ms"))
                until(lambda: client.reload().result != "rejected", WITHIN, "it is taken")
            until(lambda: loaded(receiver), WITHIN, "its span is here")
        (good_one,) = loaded(receiver)
        steps = receiver.children(good_one)
        assert [span.name for span in steps] == ["parse", "check", "plan", "test", "apply"]
        assert good_one.trace_id != bad.trace_id
        assert all(good_one.start_ns <= span.start_ns <= span.end_ns <= good_one.end_ns for span in steps)


def loaded(receiver: Receiver) -> list[Span]:
    return [span for span in receiver.named("policy.reload") if span.attributes["gpud.policy.result"] == "loaded"]


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_daemon_ends_though_nobody_takes_its_spans(tmp_path: Path, protocol: str) -> None:
    """How soon is measured by bench/telemetry. OpenTelemetry alone waits as long as its exporter, here for minutes."""
    with ExitStack() as stack:
        if protocol == "grpc":
            pytest.importorskip("grpc", reason="OTLP over gRPC is not installed (gpud[grpc])")
            from tests.telemetry.grpc_receiver import receiving_grpc

            receiver = stack.enter_context(receiving_grpc("hanging"))
        else:
            receiver = stack.enter_context(receiving(None))
        node = Turns(tmp_path)
        traced(node, receiver.url, OTEL_EXPORTER_OTLP_PROTOCOL=protocol, OTEL_EXPORTER_OTLP_TIMEOUT="600")
        with node:
            node.run(SAY).communicate(timeout=WITHIN)
            until(lambda: receiver.requests, WITHIN, "it sends, and waits for an answer")
            assert node.daemon is not None
            node.daemon.send_signal(signal.SIGTERM)
            assert node.daemon.wait(WITHIN) == 0
            assert receiver.spans == [], "it has had no answer"
            assert "traces are not taken: what waited was not answered" in node.log.read_text()
