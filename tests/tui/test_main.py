"""Entry, `--once`, `--json`, a whole run on a terminal of its own."""

import fcntl
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from attrs import evolve

from gpud.config import Config, load_config
from gpud.control import wire
from gpud.model.errors import NoDaemon, UsageError
from gpud.model.live_views import Feed
from gpud.testing.scripted_daemon import ScriptedDaemon
from gpud.testing.scripted_feed import Script
from gpud.tui.draw.view import View
from gpud.tui.look import DARK, LIGHT, NONE, choose_look
from gpud.tui.main import run
from gpud.tui.model import NodeModel
from gpud.tui.options import Options
from gpud.tui.recording import Recording
from gpud.tui.screenshot import picture
from tests.tui.rig import job_view, runtime_dir
from tests.tui.test_recording import recorded

PATIENCE_S = 60.0


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("GPUD_RUNTIME_DIR", str(runtime_dir(tmp_path / "run")))
    return load_config()


def test_once_prints_one_screen_of_plain_text(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedDaemon(config.runtime_dir, lambda: Script().steps(2)):
        assert run(Options(config=config, once=True)) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    for word in ("node7", "A100", "of 70%", "notebook", "preempt  ← #", "p95"):
        assert word in out, word
    assert all(len(line) <= 120 for line in out.splitlines())


def test_once_shows_every_job_however_many(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedDaemon(config.runtime_dir, lambda: Script(90, 8).steps(2)):
        assert run(Options(config=config, once=True, size=(80, 24))) == 0
    out = capsys.readouterr().out
    assert "warmup-88" in out
    assert out.count("A100") == 8


def test_json_is_one_document_of_what_passes_the_filters(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedDaemon(config.runtime_dir, lambda: Script().steps(2)) as daemon:
        assert run(Options(config=config, json=True, user="bob", gpu="0", filter="mem>4G")) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["jobs"]] == ["etl"]
    assert [one["slot"] for one in document["devices"]] == [0]
    assert {one["job_class"] for one in document["classes"]} == {"serving", "training"}
    assert document["node"]["host"] == "node7"
    assert document["classes"][0]["share"] == pytest.approx(0.6)
    assert daemon.asked == [wire.AskFeed(interval_ms=500)]


@pytest.mark.parametrize("how", ["once", "json"])
@pytest.mark.parametrize("gpu", ["99", "2", "gpu-ffff"])
def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(config: Config, how: str, gpu: str) -> None:
    with (
        ScriptedDaemon(config.runtime_dir, lambda: Script().steps(2)),
        pytest.raises(UsageError, match=f"--gpu: there is no GPU {gpu}; there are 0, 1$"),
    ):
        run(Options(config=config, gpu=gpu, **{how: True}))


def test_what_one_look_has_shown_is_recorded(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recorded"
    with ScriptedDaemon(config.runtime_dir, lambda: Script().steps(6)):
        assert run(Options(config=config, once=True, record=path)) == 0
    shown = capsys.readouterr().out
    recording = Recording(path)
    assert [feed.number for feed in recording.steps()] == [1, 2]
    recording.close()
    assert run(Options(once=True, replay=path)) == 0
    assert capsys.readouterr().out == shown
    with (
        ScriptedDaemon(config.runtime_dir, lambda: Script().steps(6)),
        pytest.raises(UsageError, match="there already"),
    ):
        run(Options(config=config, json=True, record=path))


def test_a_recording_is_printed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Options(replay=recorded(tmp_path / "r"), json=True, job_class="serving")) == 0
    document = json.loads(capsys.readouterr().out)
    assert {one["job_class"] for one in document["jobs"]} == {"serving"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"filter": "user:x mem>lots"}, r"--filter: .*amount of memory.*at character 12"),
        ({"interval_ms": 5}, "--interval"),
        ({"look": "pink"}, "--look"),
        ({}, "needs a terminal"),
    ],
)
def test_what_cannot_be_is_refused(
    options: dict[str, object], says: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: False)
    with pytest.raises(UsageError, match=says):
        run(Options(config=config, **options))


def test_without_a_daemon_there_is_no_screen_and_no_file(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: True)
    with pytest.raises(NoDaemon):
        run(Options(config=config, record=tmp_path / "recorded"))
    with pytest.raises(NoDaemon):
        run(Options(config=config, json=True, record=tmp_path / "recorded"))
    assert not (tmp_path / "recorded").exists(), "the next try may have that name"


def test_looks_follow_the_terminal() -> None:
    assert choose_look("auto", {}) is DARK
    assert choose_look("auto", {"COLORFGBG": "0;15"}) is LIGHT
    assert choose_look("auto", {"COLORFGBG": "15;0"}) is DARK
    assert choose_look("light", {}) is LIGHT
    assert choose_look("light", {"NO_COLOR": "1"}) is NONE
    assert choose_look("auto", {"TERM": "dumb"}) is NONE
    assert choose_look("auto", {"NO_COLOR": ""}) is DARK


def test_options_narrow_what_is_shown() -> None:
    model = NodeModel()
    for feed in Script(16, 4).steps(2):
        model.apply(feed)
    assert {job.user for job in View(model, user="dave").jobs()} == {"dave"}
    assert {job.job_class for job in View(model, job_class="serving").jobs()} == {"serving"}
    assert {job.devices for job in View(model, gpu="2").jobs()} == {(2,)}
    assert [row.slot for row in View(model, gpu="GPU-00000003").devices()] == [3]
    assert View(model, gpu="9").jobs() == []


def test_a_picture_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    recording = Recording(recorded(tmp_path / "r"))
    svg = picture(recording, (100, 30), ["down", "enter"])
    recording.close()
    assert svg.startswith("<svg")
    assert "job" in svg
    assert "url(http" not in svg
    assert "@font-face" not in svg


class Terminal:
    """A program that runs on a terminal of its own."""

    def __init__(self, options: str, environment: dict[str, str], *, controls: bool = False) -> None:
        """`controls`: it is the program's controlling terminal, whose signals it gets."""
        self.master, theirs = pty.openpty()
        self.resize(100, 30)
        code = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); " if controls else ""
        code += (
            "import sys; from pathlib import Path; from gpud.tui.main import run; "
            f"from gpud.tui.options import Options; sys.exit(run(Options({options})))"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", **environment},
        )  # fmt: skip
        os.close(theirs)
        self.seen = b""
        self.rest = ""
        """What was drawn after the last key."""

    def resize(self, columns: int, lines: int) -> None:
        """What it controls gets SIGWINCH. What was drawn before is forgotten."""
        self.seen = b""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, text: str) -> None:
        """Raises TimeoutError with what was drawn."""
        end_s = time.monotonic() + PATIENCE_S
        while text.encode() not in self.seen:
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not select.select([self.master], [], [], left_s)[0]:
                self.process.kill()
                raise TimeoutError(self.seen[-2000:].decode(errors="replace"))
            self.seen += os.read(self.master, 65536)

    def press(self, keys: str) -> None:
        self.seen = b""
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """Drains it, since a program that waits for its terminal does not end."""
        with io.FileIO(self.master) as file:
            try:
                while some := file.read(65536):
                    self.rest += some.decode(errors="replace")
            except OSError:  # the other end is closed
                pass
        return self.process.wait(timeout=PATIENCE_S)


def test_a_whole_run_on_a_terminal(config: Config, tmp_path: Path) -> None:
    def answers(ask: wire.Ask) -> wire.Answer | None:
        if isinstance(ask, wire.AskPause):
            return wire.DoneAnswer(job=job_view(ask.job), text=f"every launch of job {ask.job} is held")
        return None

    path = tmp_path / "recorded"
    environment = {"GPUD_RUNTIME_DIR": str(config.runtime_dir)}
    with ScriptedDaemon(config.runtime_dir, lambda: Script().steps(6), answers) as daemon:
        terminal = Terminal(f"record=Path({str(path)!r})", environment)
        terminal.until("notebook")
        terminal.press("p")
        terminal.until("yes")
        terminal.press("y")
        terminal.until("every launch of job 1 is held")
        terminal.press("q")
        assert terminal.end() == 0
    assert wire.AskPause(job=1) in daemon.asked
    assert "\x1b[?1049l" in terminal.rest  # the terminal is as it was
    recording = Recording(path)
    assert [feed.number for feed in recording.steps()] == [1, 2, 3, 4, 5, 6]
    recording.close()


def test_it_ends_with_its_terminal(config: Config) -> None:
    with ScriptedDaemon(config.runtime_dir, lambda: Script().steps(6)):
        terminal = Terminal("", {"GPUD_RUNTIME_DIR": str(config.runtime_dir)})
        terminal.until("notebook")
        os.close(terminal.master)
        assert terminal.process.wait(PATIENCE_S) in (128 + signal.SIGHUP, -signal.SIGHUP)


def test_it_follows_the_size_of_its_terminal_and_takes_keys_at_each(config: Config) -> None:
    with ScriptedDaemon(config.runtime_dir, lambda: Script().steps(6)):
        terminal = Terminal("", {"GPUD_RUNTIME_DIR": str(config.runtime_dir)}, controls=True)
        terminal.until("notebook")
        terminal.press("2")
        terminal.until("who had which device")  # it takes keys: it is past its start
        terminal.resize(20, 5)
        terminal.until("20×5, needs")
        terminal.press("2")  # takes off what was seen before
        terminal.resize(100, 30)
        terminal.until("who had which device")
        terminal.press("1")
        terminal.until("notebook")
        terminal.press("q")
        assert terminal.end() == 0


def test_a_daemon_that_dies_and_comes_back(config: Config) -> None:
    def reborn() -> list[Feed]:
        (first,) = Script().steps(1)
        return [evolve(first, jobs=tuple(evolve(row, name=f"{row.name}-again") for row in first.jobs))]

    with ScriptedDaemon(config.runtime_dir, lambda: Script().steps(6)):
        terminal = Terminal("", {"GPUD_RUNTIME_DIR": str(config.runtime_dir)})
        terminal.until("notebook")
    terminal.until("NO DAEMON")
    terminal.until("trying again")
    with ScriptedDaemon(config.runtime_dir, reborn):
        terminal.until("batch-again")
        terminal.press("q")
        assert terminal.end() == 0


def test_without_colour_not_one_colour_is_sent(config: Config) -> None:
    environment = {"GPUD_RUNTIME_DIR": str(config.runtime_dir), "NO_COLOR": "1"}
    with ScriptedDaemon(config.runtime_dir, lambda: Script().steps(6)):
        terminal = Terminal("", environment)
        terminal.until("notebook")
        drawn = terminal.seen
        terminal.press("q")
        assert terminal.end() == 0
    for sequence in drawn.split(b"\x1b[")[1:]:
        parameters, _, _ = sequence.partition(b"m")
        if parameters.replace(b";", b"").isdigit() and sequence[len(parameters) :].startswith(b"m"):
            codes = [int(one) for one in parameters.split(b";")]
            assert not any(30 <= code <= 38 or 40 <= code <= 48 or code >= 90 for code in codes), codes


def test_a_replay_plays_on_a_terminal(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", 3)
    terminal = Terminal(f"replay=Path({str(path)!r})", {})
    terminal.until("the recording ends here")
    terminal.press("k")
    terminal.until("nothing can be changed: this is a recording")
    terminal.press("q")
    assert terminal.end() == 0
