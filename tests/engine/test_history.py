import errno
import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpud.engine import history
from gpud.engine.history import Entry, History


def entry(digest: str, text: str = "gpol 1") -> Entry:
    return Entry(
        number=0, digest=digest, files={"a.gpol": text}, applied=None, directory="/d", began_ns=7, how="start"
    )  # fmt: skip


def opened(state: Path, **bounds: int) -> History:
    found = History(state, **bounds)
    found.open()
    return found


def test_survives_a_restart(tmp_path: Path) -> None:
    first = opened(tmp_path)
    assert first.entries == ()
    assert first.add(entry("aa")).number == 1
    first.add(entry("bb", "text of b\n"))
    first.change(1, proved=True)
    first.change(2, failed="three ticks took too long")
    again = opened(tmp_path)
    assert again.entries == first.entries
    assert [e.digest for e in again.entries] == ["bb", "aa"]
    assert again.entries[0].files == {"a.gpol": "text of b\n"}
    assert again.entries[1].proved
    assert again.add(entry("cc")).number == 3


def test_what_was_given_up_is_not_good_even_where_it_ran_before(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    for digest in ("aa", "bb", "aa"):
        kept.add(entry(digest))
    kept.change(3, failed="too slow")
    assert [e.number for e in kept.good()] == [2]
    assert kept.given_up("aa") == "too slow"
    assert kept.given_up("bb") == kept.given_up("never ran") == ""
    kept.add(entry("aa"))  # the operator wants it all the same
    assert kept.given_up("aa") == ""
    assert [e.number for e in kept.good()] == [4, 2, 1]


def test_only_we_may_write_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(tmp_path / "state").add(entry("aa"))
    directory = tmp_path / "state" / "sets"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    (file,) = directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    directory.chmod(0o777)
    other = opened(tmp_path / "state")
    assert other.entries == ()  # somebody else may have put it there
    assert "may be written by others" in caplog.text


def test_the_oldest_go_but_never_the_last_good(tmp_path: Path) -> None:
    kept = opened(tmp_path, most_sets=3)
    kept.add(entry("good"))
    for number in range(5):
        kept.change(kept.add(entry(f"bad{number}")).number, failed="no")
    assert [e.digest for e in kept.entries] == ["bad4", "bad3", "good"]
    assert len(list((tmp_path / "sets").iterdir())) == 3
    assert opened(tmp_path).entries == kept.entries


def test_bytes_are_bounded_too(tmp_path: Path) -> None:
    kept = opened(tmp_path, most_bytes=10_000)
    for number in range(9):
        kept.add(entry(f"{number}", "x" * 3_000))
    assert [e.number for e in kept.entries] == [9, 8, 7]
    kept.add(entry("huge", "x" * 20_000))
    assert [e.number for e in kept.entries] == [10, 9]
    assert sum(path.stat().st_size for path in (tmp_path / "sets").iterdir()) < 30_000


def test_a_full_disk_costs_the_history_on_disk_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = opened(tmp_path)
    kept.add(entry("aa"))
    before = {path: path.read_bytes() for path in (tmp_path / "sets").iterdir()}

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    kept.add(entry("bb"))
    kept.change(1, proved=True)
    assert [e.digest for e in kept.entries] == ["bb", "aa"]
    assert {path: path.read_bytes() for path in (tmp_path / "sets").iterdir()} == before
    assert [record.levelno for record in caplog.records] == [logging.WARNING]  # once
    assert "no space left on device" in caplog.text
    assert "GPUD_STATE_DIR" in caplog.text


def test_a_state_directory_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    kept = opened(tmp_path / "file" / "state")
    kept.add(entry("aa"))
    assert [e.digest for e in kept.entries] == ["aa"]
    assert "not a directory" in caplog.text


@pytest.mark.parametrize("content", [b"", b"{", b"null", b'{"number": "x"}', b"\xff", b'{"format": 99}'])
def test_nonsense_is_left_out(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    opened(tmp_path).add(entry("aa"))
    (tmp_path / "sets" / "00000000-bad.json").write_bytes(content)
    assert [e.digest for e in opened(tmp_path).entries] == ["aa"]
    assert "00000000-bad.json" in caplog.text


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"number": -1}, "-0000001-aa.json"),
        ({"number": 10**30}, f"{10**30}-aa.json"),
        ({"number": 7}, "00000001-aa.json"),
        ({"began_ns": 10**40}, "00000001-aa.json"),
        ({"began_ns": -1}, "00000001-aa.json"),
        ({"digest": "../../x"}, "00000001-aa.json"),
    ],
)
def test_what_no_daemon_wrote_is_left_out(
    tmp_path: Path, change: dict[str, object], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path).add(entry("aa"))
    (file,) = (tmp_path / "sets").iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    file.rename(file.with_name(name))
    kept = opened(tmp_path)
    assert kept.entries == ()
    assert name in caplog.text
    assert kept.add(entry("bb")).number == 1


def test_two_sets_of_one_number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A copy, and what was restored from a backup."""
    kept = opened(tmp_path, most_sets=2)
    kept.add(entry("aa"))
    (file,) = (tmp_path / "sets").iterdir()
    file.with_name("copy.json").write_bytes(file.read_bytes())
    file.with_name("00000001-bb.json").write_text(file.read_text().replace('"aa"', '"bb"'))
    kept = opened(tmp_path, most_sets=2)
    assert [e.digest for e in kept.entries] == ["aa"]
    assert "another set has its number" in caplog.text
    assert "it has another name" in caplog.text
    for digest in ("cc", "dd", "ee"):
        kept.add(entry(digest))
    assert [e.digest for e in kept.entries] == ["ee", "dd"]


def test_pipes_and_devices_are_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(tmp_path).add(entry("aa"))
    os.mkfifo(tmp_path / "sets" / "00000002-bb.json")
    (tmp_path / "sets" / "00000003-cc.json").symlink_to("/dev/zero")
    (tmp_path / "sets" / "00000004-dd.json").mkdir()
    assert [e.digest for e in opened(tmp_path).entries] == ["aa"]
    assert "it is no regular file" in caplog.text


def test_another_format_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path).add(entry("aa"))
    monkeypatch.setattr(history, "FORMAT", 2)
    assert opened(tmp_path).entries == ()


WRITER = """
import sys
from pathlib import Path
from gpud.engine.history import Entry, History
history = History(Path(sys.argv[1]))
history.open()
number = 0
while True:
    number += 1
    files = {"a.gpol": f"{number} " * 50_000}
    history.add(
        Entry(number=0, digest=f"{number:08x}", files=files, applied=None, directory="d", began_ns=number, how="files")
    )
    print(number, flush=True)
"""


def test_a_daemon_killed_while_it_writes(tmp_path: Path) -> None:
    """Whatever is there afterwards is whole, and what was said to be kept is there."""
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout
            for _ in range(3):
                said = int(writer.stdout.readline())
            writer.kill()
            said = int((writer.stdout.read().splitlines() or [said])[-1])
        kept = opened(tmp_path)
        assert kept.entries[0].began_ns >= said
        for found in kept.entries:
            assert found.files["a.gpol"] == f"{found.began_ns} " * 50_000
        assert not list((tmp_path / "sets").glob("*.new"))
