"""The journal on a disk that is full, read-only or hangs: lines are lost and counted, and nobody waits."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpud.engine.decisions import Made
from gpud.engine.journal import Numbered
from gpud.telemetry import journal_file
from gpud.telemetry.journal_file import JournalFile
from gpud.telemetry.journal_lines import (
    Decided,
    Lost,
    decode,
)
from tests.telemetry.kept import (
    T0,
    WITHIN,
    begin,
    entries,
    journal_at,
    note,
    numbers,
    written,
)

ROOT = Path(__file__).parents[2]

_FULL = """
import logging, os, resource, sys
from pathlib import Path
from gpud.testing.node import until
from tests.telemetry.kept import entries, journal_at, note, numbers, written
from gpud.telemetry.journal_lines import Lost

filler = Path(sys.argv[1]) / "filler"
fill, free = {"tmpfs": (
    lambda: filler.write_bytes(b"x" * (os.statvfs(sys.argv[1]).f_bavail * os.statvfs(sys.argv[1]).f_bsize)),
    lambda: filler.unlink(),
), "read only": (
    lambda: os.system(f"mount -o remount,ro {sys.argv[1]}"),
    lambda: os.system(f"mount -o remount,rw {sys.argv[1]}"),
), "limit": (
    lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY)),
    lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
)}[sys.argv[2]]

class Told(logging.Handler):
    texts = []
    def emit(self, record):
        self.texts.append((record.levelname, record.getMessage()))

logging.getLogger().addHandler(Told())
logging.getLogger().setLevel("INFO")
directory = Path(sys.argv[1]) / "j"
from_the_start = sys.argv[2] == "read only"  # no file system becomes so while something is written there
if from_the_start:
    fill()
with journal_at(directory, "first", 1 << 20) as journal:
    if not from_the_start:
        note(journal, 1)
        written(directory, 1)
        fill()
    note(journal, *range(2, 200), text="x" * 500)
    until(lambda: Told.texts and journal._left_out == 198, 60, "lines are lost")
    free()
    note(journal, 200)
    written(directory, 200)
    if not from_the_start:
        fill()
        note(journal, *range(201, 250), text="x" * 500)
        until(lambda: journal._left_out == 49, 60, "lines are lost again")
        free()
found = numbers(directory)
assert found == ([200] if from_the_start else [1, 200]), found
lost = [one.lines for one in entries(directory) if isinstance(one, Lost)]
assert lost == ([198] if from_the_start else [198, 49]), lost
warnings = [text for level, text in Told.texts if level == "WARNING"]
assert len(warnings) == 1, Told.texts
assert "cannot be written" in warnings[0] and str(directory) in warnings[0]
again = [text for level, text in Told.texts if "written again" in text]
assert len(again) == 1, "as often as there was a warning: %s" % Told.texts
print("right", warnings[0])
"""


def _full(arguments: Sequence[str], namespace: bool) -> str:
    command = [sys.executable, "-c", _FULL, *arguments]
    if namespace:
        mount = f'mount -t tmpfs -o size=512k tmpfs "{arguments[0]}" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mount, "sh", *command]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert found.stdout.startswith("right"), found.stdout + found.stderr
    return found.stdout


def _may_mount(directory: Path) -> bool:
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(directory)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("how", "says"), [("tmpfs", "no space left on device"), ("read only", "read-only file system")]
)
def test_a_disk_that_is_full_costs_lines_and_one_warning(tmp_path: Path, how: str, says: str) -> None:
    """And once there is room again, the journal goes on, and says how much is missing."""
    if not _may_mount(tmp_path):
        pytest.skip("a file system of one's own needs root and mount namespaces")
    assert says in _full([str(tmp_path), how], namespace=True)


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """ulimit -f: writes fail after a part of them."""
    assert "file too large" in _full([str(tmp_path), "limit"], namespace=False)


class _Hangs:
    """Files on a disk that does not answer until it is let go."""

    longest = 1 << 20
    directory = Path("/nowhere")

    def __init__(self) -> None:
        self.entered, self.goes_on = threading.Event(), threading.Event()
        self.lines: list[bytes] = []

    def append(self, lines: Sequence[bytes]) -> tuple[int, None]:
        self.entered.set()
        self.goes_on.wait(WITHIN)
        self.lines += lines
        return len(lines), None

    def close(self) -> None:
        pass


def test_a_disk_that_hangs_holds_nobody_and_what_waits_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_file, "MOST_WAITING", 1000)
    disk = _Hangs()
    journal = JournalFile(tmp_path, begin(), max_bytes=1 << 20, wall=lambda: T0)
    journal._files = disk  # type: ignore[assignment]
    note(journal, 0)
    assert disk.entered.wait(WITHIN)
    note(journal, *range(1, 5001))  # it returns although nothing is written
    assert not disk.lines
    assert len(journal._waiting) == 1000
    journal.close(0.01)  # as does this
    disk.goes_on.set()
    journal.close(WITHIN)
    found = [decode(line) for line in disk.lines]
    assert [one.decision.number for one in found if isinstance(one, Decided)] == list(range(1001))
    assert [one.lines for one in found if isinstance(one, Lost)] == [4000]


def test_one_entry_that_fails_costs_itself(tmp_path: Path) -> None:
    def tell() -> tuple[str, str]:
        raise RuntimeError("no words")

    with journal_at(tmp_path) as journal:
        note(journal, 1)
        journal.decided([Numbered(2, Made(mono_ns=0, kind="knob", tell=tell))], T0, lambda job: "")
        note(journal, 3)
        written(tmp_path, 3)
        note(journal, 4)
    assert numbers(tmp_path) == [1, 3, 4]
    assert [one.lines for one in entries(tmp_path) if isinstance(one, Lost)] == [1]


# ------------------------------------------------------------------------------------------------- what is written
