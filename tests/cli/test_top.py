"""How `gpud top` and `gpud demo --top` are started; what the screen does is tests/tui's."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from gpud.cli.demo import prerequisites, watched
from gpud.cli.failure import Failure
from gpud.cli.verbs import dispatch
from gpud.tui import main as screen
from gpud.tui.options import Options


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """What the screen was asked for; it ends at once, with 3."""
    found: list[Options] = []

    def run(options: Options) -> int:
        found.append(options)
        return 3

    monkeypatch.setattr(screen, "run", run)
    return found


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], Options()),
        (["--once"], Options(once=True)),
        (["--json", "--user", "ann"], Options(json=True, user="ann")),
        (["--readonly", "--class", "low", "--gpu", "1"], Options(readonly=True, job_class="low", gpu="1")),
        (["--filter", "state:wait mem>4G", "--interval", "2s"], Options(filter="state:wait mem>4G", interval_ms=2000)),
        (["--record", "day.gpudtop", "--look", "light"], Options(record=Path("day.gpudtop"), look="light")),
        (["--replay", __file__], Options(replay=Path(__file__))),
    ],
)
def test_options_reach_the_screen(shown: list[Options], words: list[str], wanted: Options) -> None:
    assert dispatch(["top", *words]) == 3
    assert shown == [wanted]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--interval", "50ms"], "'50ms' is not from 100ms to 1min"),
        (["--interval", "2min"], "is not from 100ms to 1min"),
        (["--interval", "soon"], "is not a duration"),
        (["--record", "x", "--replay", __file__], "--record and --replay exclude each other"),
        (["--replay", "/nowhere/x"], "/nowhere/x"),
        (["--look", "blue"], "blue"),
    ],
)
def test_wrong_usage(shown: list[Options], words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["top", *words]) == 2
    assert says in capsys.readouterr().err
    assert not shown


DEMO = """
import os, pathlib, signal, sys
directory, ending = pathlib.Path(sys.argv[1]), sys.argv[2]
print("the demo says this", flush=True)
if ending == "fails":
    sys.exit("a package is missing")
signal.signal(signal.SIGTERM, lambda *_: (print("ended in order", flush=True), os._exit(143)))
(directory / "gpud").mkdir(mode=0o700)
(directory / "gpud" / "control.sock").touch()
if ending == "ends":
    sys.exit(1)
signal.pause()
"""


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """A demo made of a script, which does as the first argument says; its directories."""
    directories: list[Path] = []

    def command(directory: Path, arguments: list[str]) -> list[str]:
        directories.append(directory)
        return [sys.executable, "-c", DEMO, str(directory), arguments[0]]

    monkeypatch.setattr(watched, "demo_command", command)
    monkeypatch.chdir(tmp_path)
    return directories


def test_q_ends_the_demo_in_order(shown: list[Options], demo: list[Path]) -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    assert watched.watch(["runs"]) == 0
    (options,) = shown
    assert options.config is not None
    assert options.config.runtime_dir == demo[0] / "gpud"
    assert options.wait
    assert Path("gpud-demo.log").read_text() == "the demo says this\nended in order\n"
    assert not demo[0].exists()
    assert not {name for name in set(os.listdir(tempfile.gettempdir())) - before if name.startswith("gpud-demo-")}


def test_a_demo_that_fails_before_there_is_anything_to_show(shown: list[Options], demo: list[Path]) -> None:
    with pytest.raises(Failure, match=r"(?s)exit code 1.*the demo says this\na package is missing"):
        watched.watch(["fails"])
    assert not shown


def test_whatever_ends_the_screen_ends_the_demo(
    monkeypatch: pytest.MonkeyPatch, demo: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(options: Options) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(screen, "run", broken)
    with pytest.raises(KeyboardInterrupt):
        watched.watch(["runs"])
    assert Path("gpud-demo.log").read_text().endswith("ended in order\n")


def test_a_log_that_cannot_be_written(shown: list[Options], demo: list[Path]) -> None:
    with pytest.raises(Failure, match="cannot write /nowhere/x"):
        watched.watch(["runs"], Path("/nowhere/x"))
    assert not shown


def test_the_demo_hands_its_options_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(prerequisites, "check", lambda simulated: None)
    monkeypatch.setattr(watched, "watch", lambda arguments: asked.append(arguments) or 0)
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    assert dispatch(["demo", "--top", "--device", "sim", "--seconds", "4", "--seed", "7", "--out", "x.svg"]) == 0
    assert asked == [["--device", "sim", "--seconds", "4", "--seed", "7", "--out", str(tmp_path / "x.svg")]]
    assert signal.getsignal(signal.SIGTERM) is before
    assert dispatch(["demo", "--top", "--json"]) == 2
    command = watched.demo_command(tmp_path, asked[0])
    assert command[-10:] == ["--inside", str(tmp_path), *asked[0]]
