import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpud.control.wire import AskJournal
from gpud.model.errors import Refused, UsageError
from gpud.testing.scripted_feed import BEGIN_NS, Script
from gpud.tui.ask import ReplayAsker
from gpud.tui.feed import Ended, Item, ReplaySource, Step
from gpud.tui.recording import MAGIC, Recorder, Recording


def recorded(path: Path, steps: int = 10) -> Path:
    recorder = Recorder(path)
    for feed in Script().steps(steps):
        recorder.write(feed)
    recorder.close()
    return path


def read(path: Path) -> tuple[list[int], bool]:
    recording = Recording(path)
    try:
        return [feed.number for feed in recording.steps()], recording.cut
    finally:
        recording.close()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    recording = Recording(recorded(tmp_path / "r"))
    assert list(recording.steps()) == list(Script().steps(10))
    assert list(recording.steps()) == list(Script().steps(10))
    assert not recording.cut
    recording.close()


def test_a_recording_that_was_cut_off_plays_to_its_last_whole_step(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "whole").read_bytes()
    ends = []  # where each frame ends
    at = len(MAGIC)
    while at < len(whole):
        at += 4 + int.from_bytes(whole[at : at + 4], "little")
        ends.append(at)
    cut = tmp_path / "cut"
    for size in range(ends[0], len(whole), 97):
        cut.write_bytes(whole[:size])
        steps = sum(end <= size for end in ends[1:])
        assert read(cut) == (list(range(1, steps + 1)), size not in ends)


def test_a_replay_says_that_it_was_cut_off(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "r", 1)
    whole.write_bytes(whole.read_bytes() + b"\x50\x00\x00\x00half")
    posted: list[Item] = []
    recording = Recording(whole)
    ReplaySource(recording).run(posted.append, threading.Event())
    assert [type(item) for item in posted] == [Step, Ended]
    assert isinstance(posted[-1], Ended)
    assert posted[-1].bad
    assert "cut off" in posted[-1].text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no recording"),
        (b"PNG\r\n" * 40, "no recording"),
        (MAGIC, "ends before its first step"),
        (MAGIC + b"\x05\x00\x00\x00hello", "damaged"),
        (MAGIC + b"\xff\xff\xff\xff", "damaged"),
        (MAGIC + b"\x0a\x00\x00\x00\x81\xa7version\x63", "damaged"),
    ],
)
def test_a_foreign_file_is_named_as_such(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=says) as caught:
        Recording(path)
    assert str(path) in str(caught.value)


def test_one_of_a_later_version_is_not_guessed_at(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r")
    path.write_bytes(path.read_bytes().replace(b"\xa7version\x01", b"\xa7version\x02", 1))
    with pytest.raises(UsageError, match="version 2 of recordings"):
        Recording(path)


def test_a_recording_answers_several_questions_at_once(tmp_path: Path) -> None:
    recording = Recording(recorded(tmp_path / "r", 40))
    asker = ReplayAsker(recording)
    times = [BEGIN_NS + second * 10**9 for second in range(1, 19)] * 3
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda at_ns: asker.past(at_ns)[-1].at_ns, times))
    recording.close()
    assert found == times


def test_a_damaged_step_ends_the_replay_with_a_sentence(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", 2)
    path.write_bytes(path.read_bytes() + b"\x03\x00\x00\x00\xc1\xc1\xc1")
    posted: list[Item] = []
    recording = Recording(path)
    ReplaySource(recording).run(posted.append, threading.Event())
    assert isinstance(posted[-1], Ended)
    assert "damaged" in posted[-1].text
    assert sum(isinstance(item, Step) for item in posted) == 2


def test_no_file_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text("precious")
    with pytest.raises(UsageError, match="is there already"):
        Recorder(path)
    assert path.read_text() == "precious"
    with pytest.raises(UsageError, match="cannot write"):
        Recorder(tmp_path / "nowhere" / "r")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        Recording(tmp_path / "none")


def test_a_recording_knows_its_past_and_changes_nothing(tmp_path: Path) -> None:
    recording = Recording(recorded(tmp_path / "r", 30))
    asker = ReplayAsker(recording)
    steps = asker.past(BEGIN_NS + 5_200_000_000)
    assert steps[-1].at_ns == BEGIN_NS + 5_000_000_000
    assert all(step.full for step in steps)
    assert len(steps) > 1
    with pytest.raises(UsageError, match="so far"):
        asker.past(BEGIN_NS - 1)
    found = asker.journal(AskJournal(since_at_ns=0, until_at_ns=2**62, device=1, most=3))
    assert len(found.decisions) == 3
    assert {one.device for one in found.decisions} == {1}
    assert found.left_out > 0
    for refused in (asker.reload, asker.diff, lambda: asker.why(1), lambda: asker.rollback(None)):
        with pytest.raises(Refused):
            refused()
    recording.close()
