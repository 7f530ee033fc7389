"""The journal as Perfetto's own engine sees it, and as the format's document wants it."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.model.units import MILLISECOND, SECOND
from gpud.telemetry.export_chrome import BEFORE_NS, chrome_trace
from gpud.telemetry.journal_lines import Begin, Decided, Entry, Lost
from tests.telemetry import perfetto, trace_format
from tests.telemetry.kept import GIB, T0, begin, busy, decided, span

S = SECOND


def two_turns() -> list[Entry]:
    """Job 3 has device 0 from 1 s to 4 s, job 4 from 4 s on, and is paused between 6 and 7 s; both with spans."""
    return [
        begin(),
        decided(1 * S, "grant", 3, by="time-share.gpol:23"),
        decided(2 * S, "swap_in", 3),
        busy(2 * S, 0),
        decided(3 * S, "revoke", 3),
        busy(3 * S, 900 * MILLISECOND, utilisation=0.25),
        decided(4 * S, "back", 3),
        decided(4 * S, "grant", 4),
        busy(4 * S, 1400 * MILLISECOND, memory=2 * GIB),
        span(S // 2, 5 * S, "turn", number=1, parent="f" * 16),
        span(S // 2, 1 * S, "wait", number=2, parent=f"{1:016x}"),
        span(1 * S, 2 * S, "swap_in", number=3, parent=f"{1:016x}"),
        span(2 * S, 4 * S, "hold", number=4, parent=f"{1:016x}"),
        span(4 * S, 5 * S, "swap_out", number=5, parent=f"{1:016x}", error="it could not let go"),
        span(3 * S, 4 * S, "preempt", number=6, parent=f"{1:016x}"),
        decided(6 * S, "hold", 4, by="alice (uid 1000)"),
        decided(7 * S, "go", 4),
        decided(8 * S, "reload", None, None, by="alice (uid 1000)"),
        span(0, 9 * S, "job.segment", number=7, attributes={"gpud.job.id": 3, "gpud.job.name": "train3"}),
        decided(9 * S, "note", 4),
    ]


def exported(entries: Iterable[Entry], since: int | None = None, until: int | None = None) -> bytes:
    return b"".join(chrome_trace(iter(entries), since_ns=since, until_ns=until))


def events(entries: Iterable[Entry], since: int | None = None, until: int | None = None) -> list[dict[str, Any]]:
    return trace_format.check(json.loads(exported(entries, since, until)))


def opened(tmp_path: Path, content: bytes, *questions: str) -> list[list[dict[str, Any]]]:
    (tmp_path / "trace.json").write_bytes(content)
    return perfetto.ask(tmp_path / "trace.json", *questions)


def test_as_perfetto_shows_it(tmp_path: Path) -> None:
    slices, counters = opened(tmp_path, exported(two_turns()), perfetto.SLICES, perfetto.COUNTERS)
    base = BEFORE_NS
    lanes: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
    for one in slices:
        if one["lane"] != "decisions":
            lane = lanes.setdefault((one["process"], one["lane"]), [])
            lane.append((one["name"], (one["ts"] - base) / S, one["dur"] / S))
    assert lanes == {
        ("gpud", "job 3 (train3)"): [("job.segment", 0, 9)],
        ("GPU 0", "turns"): [("job 3 (train3)", 1, 3), ("job 4 (train4)", 4, 5)],
        ("GPU 0", "asked back"): [("job 3 (train3)", 3, 1)],
        ("GPU 0", "memory comes in"): [("job 3 (train3)", 1, 1)],
        ("GPU 0", "job 3 (train3)"): [
            ("turn", 0.5, 4.5),
            ("wait", 0.5, 0.5),
            ("swap_in", 1, 1),
            ("hold", 2, 2),
            ("swap_out", 4, 1),
        ],
        ("GPU 0", "job 4 (train4): paused"): [("paused", 6, 1)],
    }
    instants = [(one["process"], one["name"], (one["ts"] - base) / S) for one in slices if one["lane"] == "decisions"]
    assert instants == [
        ("gpud", "begin", 0),
        ("gpud", "reload", 8),
        ("GPU 0", "grant", 1),
        ("GPU 0", "swap_in", 2),
        ("GPU 0", "revoke", 3),
        ("GPU 0", "back", 4),
        ("GPU 0", "grant", 4),
        ("GPU 0", "hold", 6),
        ("GPU 0", "go", 7),
        ("GPU 0", "note", 9),
    ]
    assert [(one["name"], (one["ts"] - base) / S, one["value"]) for one in counters] == [
        ("busy %", 2, 90),
        ("busy %", 3, 50),
        ("busy %", 4, 0),
        ("memory GiB", 2, 1),
        ("memory GiB", 3, 1),
        ("memory GiB", 4, 2),
        ("utilisation %", 3, 25),
    ]
    nested = [one["name"] for one in slices if one["nested"] and one["lane"] != "decisions"]
    assert nested == ["wait", "swap_in", "hold", "swap_out"]


def test_what_is_said_of_a_slice(tmp_path: Path) -> None:
    (found,) = opened(
        tmp_path,
        exported(two_turns()),
        "select slice.name, args.key, args.display_value as value from slice join args using (arg_set_id)",
    )
    said = {(one["name"], one["key"].removeprefix("args."), str(one["value"])) for one in found}
    assert ("job 3 (train3)", "by", "time-share.gpol:23") in said
    assert ("grant", "text", "job 3: grant") in said
    assert ("paused", "by", "alice (uid 1000)") in said
    assert ("swap_out", "error", "it could not let go") in said
    assert ("turn", "span_id", f"{1:016x}") in said, "what leads to the same span in Jaeger"


def test_a_piece_of_it() -> None:
    """What goes on at its ends is cut there; what was before and after is not in it."""
    found = events(two_turns(), T0 + 3500 * MILLISECOND, T0 + 6500 * MILLISECOND)
    turns = [(one["name"], one["ts"], one["dur"]) for one in found if one.get("cat") == "turn"]
    assert turns == [("job 3 (train3)", 0, 500_000), ("job 4 (train4)", 500_000, 2_500_000)]
    paused = [(one["ts"], one["dur"]) for one in found if one.get("cat") == "pause"]
    assert paused == [(2_500_000, 500_000)]
    assert [one["name"] for one in found if one["ph"] == "i"] == ["back", "grant", "hold"]
    document = json.loads(exported(two_turns(), T0 + 3500 * MILLISECOND, None))
    assert document["otherData"]["began_at_ns"] == str(T0 + 3500 * MILLISECOND)


def test_what_goes_on_when_a_daemon_ends_ends_there() -> None:
    entries = [
        begin("first"),
        decided(1 * S, "grant", 3),
        decided(2 * S, "hold", 4),
        decided(3 * S, "note", 3),
        begin("first", 3 * S),  # another file of the same daemon
        decided(4 * S, "note", 3),
        begin("second", 60 * S),
        decided(61 * S, "grant", 3),
        decided(62 * S, "back", 3),
    ]
    found = events(entries)
    base = BEFORE_NS // 1000
    ends = [(one["cat"], one["ts"] - base, one["dur"], one["args"].get("end")) for one in found if one["ph"] == "X"]
    assert ends == [
        ("turn", 1e6, 59e6, "the daemon ended"),
        ("pause", 2e6, 58e6, "the daemon ended"),
        ("turn", 61e6, 1e6, "given back"),
    ]
    assert sum(one["name"] == "begin" for one in found) == 2


def test_what_began_in_a_file_that_is_gone() -> None:
    found = events([begin(at=10 * S), decided(11 * S, "back", 3), decided(12 * S, "go", 4)], T0)
    assert [(one["cat"], one["ts"], one["dur"]) for one in found if one["ph"] == "X"] == [
        ("turn", 0, 11e6),
        ("pause", 0, 12e6),
    ]


def test_memory_that_leaves_in_two_processes_at_once_is_in_two_lanes() -> None:
    entries = [begin(), span(0, 5 * S, "swap_out", number=1), span(1 * S, 6 * S, "swap_out", number=2)]
    found = events(entries)
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in found if one["name"] == "thread_name"}
    assert [names[one["pid"], one["tid"]] for one in found if one["ph"] == "X"] == [
        "job 3 (train3)",
        "job 3 (train3) (2)",
    ]


def test_what_is_missing_is_said() -> None:
    found = events([begin(), Lost(at_ns=T0 + S, lines=17)])
    assert [one["args"]["text"] for one in found if one["name"] == "lost"] == ["17 entries of the journal are missing"]


def test_gpu_time_of_another_daemon_begins_anew() -> None:
    entries = [begin("a"), busy(1 * S, 9 * S), begin("b", 2 * S), busy(3 * S, 0), busy(4 * S, S // 2)]
    values = [one["args"]["%"] for one in events(entries) if one["ph"] == "C" and one["name"] == "busy"]
    assert values == [0, 50, 0]


def test_nothing(tmp_path: Path) -> None:
    assert events([]) == []
    assert opened(tmp_path, exported([]), "select 1 as one") == [[{"one": 1}]]


def test_names_that_would_break_it(tmp_path: Path) -> None:
    odd = '"}],\n\u2028</script>\x00é' + "x" * 5000
    entries = [begin(), decided(0, "grant", 3, name=odd), decided(S, "back", 3, name=odd)]
    (slices,) = opened(tmp_path, exported(entries), "select name, dur from slice where category = 'turn'")
    assert [one["dur"] for one in slices] == [S]
    assert slices[0]["name"].startswith('job 3 ("}],\n\u2028</script>')


_OF_SPANS = ("turn", "swap_out", "policy.reload")
_KINDS = ("grant", "back", "revoke", "swap_in", "hold", "go", "note", "begin", "busy", *_OF_SPANS)


@given(seed=st.integers(0, 2**32), count=st.integers(0, 80), piece=st.booleans())
@settings(max_examples=150)
def test_whatever_the_journal_says_the_format_holds(seed: int, count: int, piece: bool) -> None:
    """Also where lines are missing, or the clock was set back."""
    draw = random.Random(seed)
    entries: list[Entry] = []
    for number in range(count):
        at, kind = draw.randrange(100) * S, draw.choice(_KINDS)
        if kind == "begin":
            entries.append(begin(draw.choice("ab"), at))
        elif kind == "busy":
            entries.append(busy(at, draw.randrange(100) * S, draw.randrange(2)))
        elif kind in _OF_SPANS:
            parent = f"{draw.randrange(count):016x}"
            entries.append(span(max(at - draw.randrange(50) * S, 0), at, kind, number=number, parent=parent))
        else:
            entries.append(decided(at, kind, draw.choice([None, 3, 4]), draw.choice([None, 0, 1])))
    bounds = (T0 + 30 * S, T0 + 70 * S) if piece else (None, None)
    found = events(entries, *bounds)
    if piece:
        assert all(one.get("ts", 0) + one.get("dur", 0) <= 40e6 + 1e-3 for one in found)
    kept = sum(isinstance(one, Decided) for one in entries)
    begun = sum(isinstance(one, Begin) for one in entries)
    assert sum(one["ph"] == "i" for one in found) <= kept + begun


@pytest.mark.parametrize("size", [2000])
def test_it_is_made_in_pieces(size: int) -> None:
    """Who reads a journal of hours needs no memory for it."""
    taken = 0

    def entries() -> Iterable[Entry]:
        nonlocal taken
        for number in range(size):
            taken = number
            yield decided(number * MILLISECOND, "grant" if number % 2 else "back", 3)

    pieces = chrome_trace(entries(), since_ns=None, until_ns=None)
    for _ in range(10):
        next(pieces)
    assert taken < 10
