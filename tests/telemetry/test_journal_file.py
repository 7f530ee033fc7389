"""The journal on disk: nothing it is given holds the daemon, and what is there can be read whatever happened to it."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.engine.decisions import Made
from gpud.engine.journal import Numbered
from gpud.engine.live import Rows
from gpud.model.live_views import DeviceRow
from gpud.model.units import SECOND
from gpud.telemetry import journal_file
from gpud.telemetry.journal_file import open_journal
from gpud.telemetry.journal_lines import (
    LONGEST_LINE,
    BadJournal,
    Begin,
    Busy,
    Decided,
    Lost,
    Reading,
    decode,
    encode,
    files_of,
    read,
)
from gpud.telemetry.span import Link, SpanRecord
from gpud.testing.node import until
from tests.telemetry.kept import (
    T0,
    WITHIN,
    begin,
    busy,
    decided,
    entries,
    journal_at,
    note,
    numbers,
    span,
    total,
    written,
)

ROOT = Path(__file__).parents[2]
ODD = 'a"b\\c\nd\te\x1b[31m\u202e' + "x" * 10_000 + "\udcff"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    one = span(0, 5, error="it failed", links=(Link(trace_id="a" * 32, span_id="b" * 16, kind="victim"),), remote=True)
    with journal_at(tmp_path / "j") as journal:
        note(journal, 1, 2)
        journal.span(one)
        note(journal, 3)
    first, *rest = entries(tmp_path / "j")
    assert first == begin()
    assert [type(entry) for entry in rest] == [Decided, Decided, SpanRecord, Decided]
    assert rest[2] == one
    told = rest[0]
    assert isinstance(told, Decided)
    assert (told.name, told.decision.job, told.decision.at_ns) == ("train7", 7, T0)


@pytest.mark.parametrize(
    "entry",
    [
        begin(),
        decided(1, "grant", name=ODD.replace("\udcff", "")),
        decided(1, "reload", None, None),
        span(0, 1, attributes={"gpud.label.x": "é" * 200, "n": -(2**63), "f": 0.1, "b": True, "": ""}),
        busy(5, 2**62),
        Lost(at_ns=T0, lines=3),
    ],
    ids=lambda entry: type(entry).__name__,
)
def test_lines_hold_entries(entry: Decided) -> None:
    line = encode(entry)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == entry


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """Names and command lines are any bytes."""
    with journal_at(tmp_path) as journal:
        journal.span(span(0, 1, attributes={"process.command_line": ODD, ODD: 1}))
        journal.decided([Numbered(1, Made(mono_ns=0, kind="note", text="x", job=1))], 0, lambda job: ODD)
    _, found, told = entries(tmp_path)
    assert isinstance(found, SpanRecord)
    assert isinstance(told, Decided)
    shown = ODD.replace("\udcff", "\\udcff")
    assert dict(found.attributes) == {"process.command_line": shown, shown: 1}
    assert told.name == shown


def test_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with journal_at(tmp_path / "state" / "j") as journal:
            note(journal, 1)
    finally:
        os.umask(before)
    ((_, path),) = files_of(tmp_path / "state" / "j")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_who_cannot_be_trusted_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who can write in the directory could make the daemon write over another file."""
    (tmp_path / "j").mkdir()
    (tmp_path / "j").chmod(0o777)
    with journal_at(tmp_path / "j") as journal:
        note(journal, 1)
    assert files_of(tmp_path / "j") == []
    assert "it may be written by others" in caplog.text


def test_a_link_in_its_place_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "j").mkdir(0o700)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "j" / "00000001.jsonl").symlink_to(tmp_path / "precious")
    with journal_at(tmp_path / "j") as journal:
        note(journal, 1)
    assert (tmp_path / "precious").read_text() == "precious"
    assert "cannot be written" in caplog.text


def test_none_where_it_may_have_no_bytes(tmp_path: Path) -> None:
    with open_journal(tmp_path / "j", begin(), max_bytes=0) as journal:
        assert journal is None
    assert not (tmp_path / "j").exists()


# ------------------------------------------------------------------------------------------------------- rotation


@given(
    batches=st.lists(st.lists(st.integers(10, 30_000), min_size=1, max_size=6), min_size=1, max_size=25),
    most=st.sampled_from([256 << 10, 300_000, 1 << 20]),
)
@settings(max_examples=40)
def test_never_larger_than_it_may_be_and_the_newest_is_there(
    tmp_path_factory: pytest.TempPathFactory, batches: Sequence[Sequence[int]], most: int
) -> None:
    directory = tmp_path_factory.mktemp("j")
    files = journal_file.Files(directory, begin(), max_bytes=most, wall=lambda: T0)
    count = 0
    for sizes in batches:
        lines = [encode(decided(0, "x" * size, number=count + at)) for at, size in enumerate(sizes)]
        assert files.append(lines) == (len(lines), None)
        count += len(lines)
        assert total(directory) <= most
    files.close()
    found = numbers(directory)
    assert found == list(range(count - len(found), count)), "the oldest goes, nothing is missing after it"
    everything = sum(map(sum, batches))
    assert len(found) == count or total(directory) > most - 2 * (most // 4), "no more goes than has to"
    assert everything > most // 2 or len(found) == count
    for _, path in files_of(directory):
        assert isinstance(decode(path.read_bytes().splitlines()[0]), Begin), "each file stands alone"


def test_one_that_was_allowed_more_before(tmp_path: Path) -> None:
    with journal_at(tmp_path, max_bytes=4 << 20) as journal:
        for number in range(100):
            journal.span(span(0, 1, number=number, attributes={"x": "y" * 20_000}))
    assert total(tmp_path) > 1 << 20
    with journal_at(tmp_path, "second", max_bytes=1 << 20) as journal:
        note(journal, 1)
    assert total(tmp_path) <= 1 << 20
    assert numbers(tmp_path) == [1]


# ------------------------------------------------------------------------------------------- killed, torn, in turn


def test_daemons_in_turn_go_on_with_the_same_file(tmp_path: Path) -> None:
    for number, daemon in enumerate(("first", "second", "third")):
        with journal_at(tmp_path, daemon) as journal:
            note(journal, number)
    assert len(files_of(tmp_path)) == 1
    assert [one.daemon for one in entries(tmp_path) if isinstance(one, Begin)] == ["first", "second", "third"]
    assert numbers(tmp_path) == [0, 1, 2]


def test_two_daemons_at_once_lose_nothing_and_stay_within_bounds(tmp_path: Path) -> None:
    """Where two have one state directory."""
    with journal_at(tmp_path, "a", 1 << 20) as one, journal_at(tmp_path, "b", 1 << 20) as other:
        for number in range(0, 400, 2):
            note(one, number, text="x" * 500)
            note(other, number + 1, text="x" * 500)
    reading = Reading()
    found = [one.decision.number for one in entries(tmp_path, reading) if isinstance(one, Decided)]
    assert sorted(found) == list(range(400))
    assert reading.broken == 0


def test_every_cut_of_the_last_line_is_survived(tmp_path: Path) -> None:
    with journal_at(tmp_path / "j") as journal:
        note(journal, 1, 2, 3)
    ((_, path),) = files_of(tmp_path / "j")
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for size in range(last, len(whole) + 1):
        directory = tmp_path / str(size)
        directory.mkdir(0o700)
        (directory / path.name).write_bytes(whole[:size])
        first = [1, 2, 3] if size >= len(whole) - 1 else [1, 2]
        assert numbers(directory) == first
        with journal_at(directory, "second") as journal:
            note(journal, 4)
        reading = Reading()
        found = [one.decision.number for one in entries(directory, reading) if isinstance(one, Decided)]
        assert found == [*first, 4]
        assert reading.broken == (last < size < len(whole) - 1)


_WRITER = """
import sys
from pathlib import Path
from gpud.telemetry import journal_file
from tests.telemetry.kept import journal_at, note
journal_file.BATCH_S = 0.001
with journal_at(Path(sys.argv[1]), sys.argv[2], 64 << 20) as journal:
    number = int(sys.argv[3])
    print("begun", flush=True)
    while True:
        note(journal, *range(number, number + 20), text="x" * 300)
        number += 20
        if number % 100 == 0:
            note(journal, -1)
"""


def test_kill_9_in_the_middle(tmp_path: Path) -> None:
    """What was written stays; what was being written is cut at most, and the next daemon goes on."""
    reached = 0
    for life in range(4):
        command = [sys.executable, "-c", _WRITER, str(tmp_path / "j"), f"life {life}", str(reached)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        written(tmp_path / "j", reached + 500 + 37 * life)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        reading = Reading()
        found = [one for one in entries(tmp_path / "j", reading) if isinstance(one, Decided | Lost)]
        seen = [one.decision.number for one in found if isinstance(one, Decided) and one.decision.number >= 0]
        gaps = sum(1 for before, after in pairwise(seen) if after != before + 1)
        assert gaps <= sum(isinstance(one, Lost) for one in found), "where something is missing, the journal says so"
        assert reading.broken <= life + 1
        reached = seen[-1] + 1


@pytest.mark.parametrize(
    "rubbish", [b"\0\xff\xfe" * 100, b"{}\n" * 3, b"[1,2]\n", b'{"span": 3}\n', b'"x"\n{\n', b"9" * 5000]
)
def test_rubbish_in_between(tmp_path: Path, rubbish: bytes) -> None:
    with journal_at(tmp_path) as journal:
        note(journal, 1)
    ((_, path),) = files_of(tmp_path)
    with path.open("ab") as file:
        file.write(rubbish)
    with journal_at(tmp_path, "second") as journal:
        note(journal, 2)
    assert numbers(tmp_path) == [1, 2]


def test_a_line_without_end_costs_no_memory(tmp_path: Path) -> None:
    with journal_at(tmp_path) as journal:
        note(journal, 1)
    ((_, path),) = files_of(tmp_path)
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + (64 << 20))  # a hole
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + encode(decided(0, "grant", number=2)))
    code = """
import resource, sys
from pathlib import Path
from tests.telemetry.kept import numbers
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(numbers(Path(sys.argv[1])), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found, _, grown = said.rpartition(" ")
    assert found == "[1, 2]"
    assert int(grown) << 10 < 16 * LONGEST_LINE


def test_of_a_later_version(tmp_path: Path) -> None:
    with journal_at(tmp_path) as journal:
        note(journal, 1)
    ((_, path),) = files_of(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"marvel":{"at_ns":1}}\n')
    reading = Reading()
    assert len(entries(tmp_path, reading)) == 2
    assert reading.broken == 0


def test_somebody_deletes_what_is_written(tmp_path: Path) -> None:
    with journal_at(tmp_path) as journal:
        note(journal, 1)
        written(tmp_path, 1)
        ((_, path),) = files_of(tmp_path)
        path.unlink()
        note(journal, 2)
        written(tmp_path, 2)
    assert numbers(tmp_path) == [2]
    assert isinstance(entries(tmp_path)[0], Begin)


def test_no_journal_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadJournal, match="there is no journal at"):
        list(read(tmp_path / "none"))
    (tmp_path / "file").touch()
    with pytest.raises(BadJournal, match=r"cannot read the journal .*: not a directory"):
        list(read(tmp_path / "file"))
    (tmp_path / "00000001.jsonl").mkdir()
    os.mkfifo(tmp_path / "00000002.jsonl")
    (tmp_path / "notes.txt").write_text("x")
    assert list(read(tmp_path)) == []


def test_knobs_that_turn_all_the_time_do_not_push_out_the_rest(tmp_path: Path) -> None:
    with journal_at(tmp_path) as journal:
        for second in range(3):
            for number in range(200):
                note(journal, number, kind="knob", at=second * SECOND + number)
                note(journal, number, kind="back", at=second * SECOND + number)
    kinds = [one.decision.kind for one in entries(tmp_path) if isinstance(one, Decided)]
    assert (kinds.count("knob"), kinds.count("back")) == (60, 600)


def _rows(at: int, busy_ns: int, used: int | None) -> Rows:
    device = DeviceRow(
        slot=0, uuid="GPU-1", name="A100", total_bytes=4, used_bytes=used, reserved_bytes=2, utilisation=None,
        power_w=None, temperature_c=None, holder=None, holder_until_at_ns=None, waiters=0, unmanaged=0,
        busy_ns=busy_ns, arbiter="open", policies=(),
    )  # fmt: skip
    return Rows(mono_ns=at * SECOND, offset=0, node=None, devices={"GPU-1": device})  # type: ignore[arg-type]


def test_gpu_time_is_written_when_it_changes_as_of_before_and_after(tmp_path: Path) -> None:
    """So that who reads it knows in which second it was."""
    with journal_at(tmp_path) as journal:
        for at, spent in enumerate((0, 5, 5, 5, 5, 9, 9)):
            journal.looked(_rows(at, spent, None if at < 5 else 3), T0)
    found = [one for one in entries(tmp_path) if isinstance(one, Busy)]
    assert [((one.at_ns - T0) // SECOND, one.busy_ns, one.memory_bytes) for one in found] == [
        (0, 0, 2),
        (1, 5, 2),
        (4, 5, 2),
        (5, 9, 3),
    ]


def test_a_warning_is_not_repeated_when_it_fails_again_soon(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "j").write_text("no directory")
    with journal_at(tmp_path / "j") as journal:
        for again in range(3):
            note(journal, again)
            until(lambda: journal._left_out == again + 1, WITHIN, "it is lost")  # noqa: B023
    assert [record.levelname for record in caplog.records] == ["WARNING"]
