"""`gpud trace export`: from the files alone, in pieces, with words for all that can be wrong."""

import json
import os
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from gpud.cli.verbs import dispatch
from gpud.cli.when import parse_moment, shown
from gpud.config import load_config
from gpud.model.errors import UsageError
from gpud.model.units import SECOND
from gpud.telemetry.journal_lines import encode
from tests.telemetry import trace_format
from tests.telemetry.kept import T0, begin, decided, journal_at, note, span

NOW = datetime(2026, 11, 30, 14, 10, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of a daemon that does not run, with an hour in its journal."""
    for name in [name for name in os.environ if name.startswith("GPUD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("GPUD_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("GPUD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "state" / "journal"
    directory.mkdir(0o700, parents=True)
    lines = [begin(), decided(0, "grant", 3), span(0, 60 * SECOND), decided(60 * SECOND, "back", 3)]
    lines += [decided(1800 * SECOND, "grant", 4), decided(3600 * SECOND, "back", 4)]
    (directory / "00000001.jsonl").write_bytes(b"".join(map(encode, lines)))
    return tmp_path / "state"


def trace(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = dispatch(["trace", "export", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def turns(document: str) -> list[str]:
    return [one["name"] for one in trace_format.check(json.loads(document)) if one.get("cat") == "turn"]


def at(seconds: int) -> str:
    return datetime.fromtimestamp(T0 // SECOND + seconds).isoformat()


def test_to_standard_output(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = trace(capfd)
    assert (code, turns(out)) == (0, ["job 3 (train3)", "job 4 (train4)"])
    assert err == (f"4 decisions, 1 spans; the journal reaches from {shown(T0)} to {shown(T0 + 3600 * SECOND)}\n")


def test_to_a_file(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = trace(capfd, "--output", "t.json", "--json")
    result = json.loads(out)
    content = Path("t.json").read_text()
    assert (code, err, turns(content)) == (0, "", ["job 3 (train3)", "job 4 (train4)"])
    assert result == {
        "format": "chrome", "output": "t.json", "decisions": 4, "spans": 1, "bytes": len(content.encode()),
        "first_ns": T0, "last_ns": T0 + 3600 * SECOND, "broken": 0, "lost": 0,
    }  # fmt: skip
    assert sorted(os.listdir()) == ["state", "t.json"]


def test_a_part_of_the_time(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = trace(capfd, "--since", at(900), "--until", at(2000))
    assert (code, turns(out)) == (0, ["job 4 (train4)"])
    assert err.startswith("1 decisions, 0 spans;")


def test_spans_for_a_collector(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = trace(capfd, "--format", "otlp-json")
    (line,) = out.splitlines()
    assert code == 0
    assert json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] == "turn"
    assert err.startswith("4 decisions, 1 spans;")


def test_what_is_missing_is_said(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (state / "journal" / "00000001.jsonl").open("ab") as file:
        file.write(b'{"lost":{"at_ns":%d,"lines":17}}\n{"decision":{"num' % T0)
    code, _, err = trace(capfd)
    assert code == 0
    assert err.endswith("; 17 entries are missing, there was no room for them; 1 lines were cut or are none of ours\n")


def test_while_the_daemon_writes(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with journal_at(state / "journal", "second") as journal:
        note(journal, 1)
        code, out, _ = trace(capfd)
        assert code == 0
        turns(out)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--since", "yesterday"], 2, "--since: 'yesterday' is no moment; write e.g. 10min, 14:03"),
        (["--since", "10m"], 2, "--since: unknown unit 'm' in '10m'"),
        (["--until", "25:00"], 2, "--until: '25:00' is no moment"),
        (["--since", "1min", "--until", "2min"], 2, "--since 1min is not before --until 2min"),
        (["--format", "svg"], 2, "Invalid value for '--format'"),
        (["--journal", "none"], 125, "there is no journal at none\n  the daemon writes it while it runs;"),
        (["--since", "1h"], 125, "nothing happened in that time\n  the journal reaches from "),
        (["--output", "none/t.json"], 125, "cannot write none/t.json: no such file or directory"),
        (["--output", "state"], 125, "cannot write state: is a directory"),
        (["--format", "otlp-json", "--since", at(1000)], 125, "there are no spans of that time, only decisions\n"),
    ],
)  # fmt: skip
def test_what_can_be_wrong(
    state: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    before = sorted(os.listdir())
    found, _, err = trace(capfd, *arguments)
    assert found == code
    assert says in err
    assert "Traceback" not in err
    assert sorted(os.listdir()) == before, "nothing half-made is left"


def test_an_empty_journal(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (state / "journal" / "00000001.jsonl").write_bytes(b"")
    code, _, err = trace(capfd, "--output", "t.json")
    assert (code, Path("t.json").exists()) == (125, False)
    assert f"the journal at {state / 'journal'} has nothing in it" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file is one only for root's children")
def test_somebody_elses(state: Path) -> None:
    """Of the machine's daemon, asked by anybody. All that it takes is imported first: the checkout may be root's."""
    first = "import os, sys, gpud.cli.trace, gpud.cli.trace_export; from gpud.cli.verbs import dispatch"
    code = f"{first}; os.setuid(65534); sys.exit(dispatch(sys.argv[1:]))"
    found = subprocess.run(
        [sys.executable, "-c", code, "trace", "export", "--journal", "/proc/1/fd"],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 125
    assert found.stderr.startswith("gpud trace: cannot read the journal /proc/1/fd: permission denied\n")
    assert "read it as the daemon's user" in found.stderr


def test_a_reader_that_goes_away(state: Path) -> None:
    """`gpud trace export | head`."""
    with (state / "journal" / "00000001.jsonl").open("ab") as file:
        file.write(encode(decided(0, "note", 3)) * 20_000)
    command = f"{sys.executable} -m gpud.cli.main trace export | head -c 100"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert len(found.stdout) == 100
    assert found.stderr == ""


def test_a_journal_of_any_size_needs_little_memory(state: Path) -> None:
    """Sixteen times as much of it takes no more."""
    path = state / "journal" / "00000001.jsonl"
    peaks = []
    for count in (1_000, 20_000):
        with path.open("wb") as file:
            for number in range(count):
                at = number * SECOND
                file.write(encode(decided(at, "grant", number)) + encode(span(at, at + SECOND, number=number)))
                file.write(encode(decided(at + SECOND, "back", number)))
        code = "import resource, sys\nfrom gpud.cli.verbs import dispatch\nassert dispatch(sys.argv[1:]) == 0\n"
        code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        command = [sys.executable, "-c", code, "trace", "export", "--output", "/dev/null", "--json"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        result, _, peak = said.strip().rpartition("\n")
        assert json.loads(result)["decisions"] == 2 * count
        peaks.append(int(peak) << 10)
    size = path.stat().st_size
    assert peaks[1] - peaks[0] < size // 3, (peaks, size)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10min", NOW - timedelta(minutes=10)),
        ("1.5h", NOW - timedelta(minutes=90)),
        ("14:03", NOW.replace(minute=3, second=0)),
        ("14:10:20", NOW.replace(second=20)),
        ("15:00", NOW.replace(hour=15, minute=0, second=0) - timedelta(days=1)),
        ("2026-11-29T14:03", datetime(2026, 11, 29, 14, 3, tzinfo=NOW.tzinfo)),
        ("2026-11-29 14:03:20.5", datetime(2026, 11, 29, 14, 3, 20, 500_000, tzinfo=NOW.tzinfo)),
        ("2026-11-29T14:03:20Z", datetime(2026, 11, 29, 16, 3, 20, tzinfo=NOW.tzinfo)),
        ("2026-11-29", datetime(2026, 11, 29, tzinfo=NOW.tzinfo)),
    ],
)
def test_moments(text: str, wanted: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert parse_moment(text, "--since", NOW) == round(wanted.timestamp() * 1_000_000) * 1000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "-", "x", "14", "2026-13-01", "T", "Z", "9" * 40 + "min", ":", "12:61"])
def test_no_moments(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--since: "):
        parse_moment(text, "--since", NOW)


def test_of_whom_is_asked_the_journal_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no daemon of their own asks the machine's."""
    monkeypatch.setattr("gpud.config.SYSTEM_RUNTIME_DIR", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    environ = {"HOME": "/h", "XDG_RUNTIME_DIR": "/nowhere", "XDG_CONFIG_HOME": str(tmp_path)}
    assert load_config(environ).journal_dir == Path("/h/.local/state/gpud/journal")
    (tmp_path / "control.sock").touch()
    assert load_config(environ).journal_dir == Path("/var/lib/gpud/journal")
    assert load_config(environ, serving=True).journal_dir == Path("/h/.local/state/gpud/journal")
