"""`gpud demo --top` in a real terminal: both programs are seen, `q` ends it all, and nothing of it is left."""

import os
import shutil
import sys
import uuid
from pathlib import Path

import pytest

from gpud.cli.demo import prerequisites
from gpud.testing.node import until
from tests.e2e.test_top_in_terminal import PATIENCE_S, Terminal, row

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here"),
    pytest.mark.skipif(
        bool(prerequisites.missing_packages()), reason="the demo's packages (numba-cuda) are not installed"
    ),
]
LONG = "120"
"""Seconds of a run: nobody waits for its end."""


def marked(mark: str) -> list[str]:
    """Programs that run with it in their environment."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (directory / "environ").read_bytes():
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has just ended
            continue
    return found


def test_both_programs_are_seen_and_q_leaves_nothing_behind(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mark = f"OF_TEST={uuid.uuid4().hex}"
    temporary = tmp_path_factory.mktemp("t")  # where the demo keeps its daemon's sockets: a short path
    demo = f"env {mark} {sys.executable} -m gpud.cli.main demo --top --device sim --seconds {LONG}"
    command = f"cd {tmp_path}; stty -g >before; {demo}; ended=$?; stty -g >after; (exit $ended)"
    top = Terminal(tmp_path / "tmux", command, {**os.environ, "TMPDIR": str(temporary)})
    try:
        lines = top.until(
            lambda lines: row(lines, "serving") and row(lines, "training"), "both programs are on the screen"
        )
        assert "simulated" in lines[0]
        top.until(lambda lines: "high" in row(lines, "serving") and "low" in row(lines, "training"), "in their classes")
        assert any("serve" in command for command in marked(mark)), "its daemon is found by the mark"
        assert top.told("alternate_on", "mouse_any_flag") == "1 1"

        top.press("q")
        lines = top.until(lambda lines: any(line == "ended with 0" for line in lines), "it has ended")
        assert any("the demo was ended; what it said is in gpud-demo.log" in line for line in lines)
        assert top.told("alternate_on", "mouse_any_flag", "cursor_flag") == "0 0 1", "the terminal is as it was"
        assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()
        until(lambda: not marked(mark), PATIENCE_S, "all of it has ended")
        assert list(temporary.glob("gpud-demo-*")) == []
        assert (tmp_path / "gpud-demo.log").is_file()
    finally:
        top.close()
