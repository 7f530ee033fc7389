"""Two programs take turns on the simulated GPU; what `gpud trace export` says of it is what the device's own log says,
by the clock of the machine that both have."""

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpud.model.units import MILLISECOND
from gpud.telemetry.journal_lines import Busy, Decided, Entry, read
from gpud.testing.command import gpud
from gpud.testing.node import Node, until
from tests.e2e.test_charges import CHARGED
from tests.e2e.test_swap import WITHIN, Large, Turns
from tests.telemetry import perfetto, trace_format

pytestmark = pytest.mark.e2e

CLOCKS_NS = 5 * MILLISECOND
"""Between the clock of the device's log and Unix time, as read here and by the daemon."""
ROUNDS = 3


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path) as node:
        yield node


def work(node: Turns, kind: str, offset: int) -> dict[int, list[tuple[int, int]]]:
    """Process → Unix times at which the device was given each of its kernels or copies, and told of its end."""
    found: dict[int, list[tuple[int, int]]] = {}
    epoch = 0
    for line in node.device_log.read_text().splitlines():
        fields = json.loads(line)
        if fields["type"] == "header":
            epoch = fields["epoch_ns"]
        elif fields["type"] == kind:
            given, told = fields["wall"]
            found.setdefault(fields["pid"], []).append((given + epoch + offset, told + epoch + offset))
    return found


def within(given: int, told: int, spans: list[tuple[int, int]]) -> bool:
    return any(began - CLOCKS_NS <= given and told <= ended + CLOCKS_NS for began, ended in spans)


def noted(node: Node) -> list[Entry]:
    """By now; its directory is made with the first of it."""
    journal = node.runtime_dir / "state" / "journal"
    return list(read(journal)) if journal.exists() else []


def decided(node: Node, kind: str) -> int:
    return sum(isinstance(one, Decided) and one.decision.kind == kind for one in noted(node))


def test_lanes_and_times_are_those_of_the_device(node: Turns, large: list[str], tmp_path: Path) -> None:
    offset = time.time_ns() - time.monotonic_ns()
    one, two = Large(node, large, "one", 180), Large(node, large, "two", 180)
    one.filled()
    two.filled()
    for _ in range(ROUNDS):
        one.do("r")
        two.do("r")
    pids = {node.pid(name): name for name in ("one", "two")}
    jobs = {name: node.job(name) for name in ("one", "two")}
    for program in (one, two):
        program.do("c")
        assert program.process.stdin is not None
        program.process.stdin.close()
        assert program.process.wait(WITHIN) == 0
    until(lambda: decided(node, "detach") >= 2, WITHIN, "both are gone, in the journal, too")
    exported = tmp_path / "trace.json"
    done = gpud(node.environment, "trace", "export", "--output", str(exported))
    assert done.returncode == 0, done.stderr
    node.stop()

    document = json.loads(exported.read_text())
    base = int(document["otherData"]["began_at_ns"])
    events = trace_format.check(document)

    def times(event: dict[str, Any]) -> tuple[int, int]:
        return base + round(event["ts"] * 1000), base + round((event["ts"] + event["dur"]) * 1000)

    turns: dict[str, list[tuple[int, int]]] = {}
    leaving: dict[str, list[tuple[int, int]]] = {}
    for name, job in jobs.items():
        assert job is not None
        shown = f"job {job.id} ({job.name})"
        turns[name] = [times(event) for event in events if event.get("cat") == "turn" and event["name"] == shown]
        assert len(turns[name]) >= ROUNDS, "it had to give the device away in between"
        outs = [event for event in events if (event["ph"], event["name"]) == ("X", "swap_out")]
        leaving[name] = [times(event) for event in outs if event["args"]["gpud.job.id"] == job.id]
        assert len(leaving[name]) >= ROUNDS - 1
    in_order = sorted((turn, name) for name, found in turns.items() for turn in found)
    for (before, _), (after, _) in pairwise(in_order):
        assert before[1] <= after[0], "one after the other"

    ran, moved = work(node, "kernel", offset), work(node, "copy", offset)
    for pid, name in pids.items():
        for given, told in ran[pid]:
            assert within(given, told, turns[name]), f"{name} has computed in none of its turns"
        for given, told in moved[pid]:
            assert within(given, told, turns[name] + leaving[name]), f"{name} has copied outside of its turns"
        used = [turn for turn in turns[name] if any(within(*one, [turn]) for one in ran[pid])]
        assert len(used) >= ROUNDS, "each of its rounds was in a turn of its own"
    as_perfetto_has_it(exported, events)


def as_perfetto_has_it(exported: Path, events: list[dict[str, Any]]) -> None:
    (slices, counters) = perfetto.ask(exported, perfetto.SLICES, perfetto.COUNTERS)
    ours = sorted((event["name"], round(event["ts"] * 1000)) for event in events if event["ph"] == "X")
    theirs = sorted((one["name"], one["ts"]) for one in slices if one["category"] != "decision")
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    assert all(abs(our - their) <= 1000 for (_, our), (_, their) in zip(ours, theirs, strict=True))
    lanes = {(one["process"], one["lane"]) for one in slices}
    assert {("GPU 0", "turns"), ("GPU 0", "decisions"), ("GPU 0", "memory comes in")} <= lanes
    names = {one["name"] for one in slices}
    assert {"turn", "wait", "swap_in", "hold", "swap_out", "grant", "back", "job", "job.segment"} <= names
    memory = [one["value"] for one in counters if one["name"] == "memory GiB"]
    assert (768 + 180) / 1024 <= max(memory) <= 1, "the driver's own, and one of them"


def test_a_pause_gpu_time_and_spans_after_the_daemon_has_ended(counter: list[str], tmp_path: Path) -> None:
    for name, text in CHARGED.items():
        (tmp_path / name).write_text(text)
    with Node(profile="a100-40gb", policy="bench", policies=tmp_path) as node:
        out = tmp_path / "out.txt"
        with out.open("w") as file:
            program = node.run([*counter, "1", "0"], stdout=file)

        def rounds() -> int:
            return out.read_text().count("ok\n")

        until(lambda: rounds() > 2, WITHIN, "it computes")
        with node.client() as client:
            job = client.ps()[0]
            client.pause(job.id)
            until(lambda: client.ps()[0].state == "paused", WITHIN, "it is paused")
            begun = time.time_ns()
            client.resume(job.id)
        goes_on, before = time.time_ns(), rounds()
        until(lambda: rounds() > before + 2, WITHIN, "it goes on")
        until(lambda: any(isinstance(one, Busy) and one.busy_ns for one in noted(node)), WITHIN, "GPU time is noted")
        program.terminate()
        program.wait()
        until(lambda: decided(node, "detach") >= 1, WITHIN, "it is gone, in the journal, too")
        node.stop()
        exported, spans = tmp_path / "trace.json", tmp_path / "spans.jsonl"
        assert gpud(node.environment, "trace", "export", "--output", str(exported)).returncode == 0
        more = ("--format", "otlp-json", "--output", str(spans), "--json")
        done = gpud(node.environment, "trace", "export", *more)
    document = json.loads(exported.read_text())
    base = int(document["otherData"]["began_at_ns"])
    events = trace_format.check(document)
    (pause,) = [event for event in events if event.get("cat") == "pause"]
    assert base + pause["ts"] * 1000 <= begun <= goes_on
    assert begun <= base + (pause["ts"] + pause["dur"]) * 1000 + CLOCKS_NS
    assert any(event["args"]["%"] > 0 for event in events if event["ph"] == "C" and event["name"] == "busy")
    found = [
        span["name"]
        for line in spans.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert {"job", "job.segment"} <= set(found)
    assert json.loads(done.stdout)["spans"] == len(found)
