"""`gpud top` in a real terminal, by its keys alone: a daemon, two jobs, and what a person does with them."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpud.model.views import JobView
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e
PATIENCE_S = 60
ENDLESS = "100000000"


class Terminal:
    """120 × 40, running a command; then it shows what that ended with."""

    def __init__(self, socket: Path, command: str, environment: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        shell = ["sh", "-c", f"{command}; echo ended with $?; exec sleep 600"]
        plain = {key: value for key, value in environment.items() if key not in ("TMUX", "NO_COLOR")}
        self._call("new-session", "-d", "-x", "120", "-y", "40", *shell, environment=plain)

    def press(self, *keys: str) -> None:
        self._call("send-keys", *keys)

    def lines(self) -> list[str]:
        return self._call("capture-pane", "-p").split("\n")

    def told(self, *names: str) -> str:
        """What tmux knows of the terminal by these names, 0 or 1 each."""
        return self._call("display-message", "-p", " ".join(f"#{{{name}}}" for name in names)).strip()

    def until(self, shows: Callable[[list[str]], object], what: str) -> list[str]:
        """The screen, once it shows that; fails with the screen as it is where it never does."""
        seen: list[str] = []

        def is_so() -> bool:
            seen[:] = self.lines()
            return bool(shows(seen))

        try:
            until(is_so, PATIENCE_S, what, step=0.05)
        except TimeoutError as error:
            raise AssertionError("\n".join([str(error), *seen])) from None
        return seen

    def close(self) -> None:
        self._call("kill-server")

    def _call(self, *words: str, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._tmux, *words], env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        return done.stdout


def row(lines: list[str], name: str) -> str:
    """Of the table of jobs; "" where it is not there."""
    return next((line for line in lines if name in line.split()), "")


def order(lines: list[str]) -> list[str]:
    return [name for line in lines for name in ("serving", "training") if name in line.split()]


@pytest.fixture
def node(counter: list[str]) -> Iterator[Node]:
    """Where training runs, and serving has come after it and does nothing yet."""
    with Node(profile="test-small") as made:
        made.run([*counter, ENDLESS], options=["--name", "training"])
        wait = "import sys; sys.stdin.read()"
        made.run(
            [sys.executable, "-c", wait],
            options=["--name", "serving"],
            labels={"tier": "online"},
            stdin=subprocess.PIPE,
        )
        until(lambda: {job.name: job.state for job in _jobs(made)}.get("training") == "active", PATIENCE_S, "it runs")
        until(lambda: len(_jobs(made)) == 2, PATIENCE_S, "both are there")
        yield made


def _jobs(node: Node) -> list[JobView]:
    with node.client() as client:
        return client.ps()


def test_sort_filter_pause_see_why_resume_and_quit(node: Node) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    top = Terminal(node.directory / "tmux", f"{sys.executable} -m gpud.cli.main top", node.environment)
    try:
        top.until(lambda lines: row(lines, "training") and row(lines, "serving"), "both jobs are shown")
        first = order(top.lines())
        assert first == sorted(first, key=lambda name: {job.name: job.id for job in _jobs(node)}[name])

        top.press(">")
        lines = top.until(lambda lines: "by name" in lines[1], "they are sorted by name")
        by_name = order(lines)
        assert by_name == sorted(by_name)
        top.press("r")
        top.until(lambda lines: order(lines) == by_name[::-1], "they are sorted the other way round")

        top.press("/")
        top.press("-l", "class:low")
        top.press("Enter")
        top.until(lambda lines: row(lines, "training") and not row(lines, "serving"), "only low is shown")

        top.press("p")
        asked = top.until(lambda lines: any("Pause" in line for line in lines), "it asks before it pauses")
        (training,) = [job for job in _jobs(node) if job.name == "training"]
        assert any(f"{training.pids[0]}" in line for line in asked)
        top.press("y")
        top.until(lambda lines: "paused" in row(lines, "training"), "it is paused")
        assert [job.state for job in _jobs(node) if job.name == "training"] == ["paused"]

        top.press("w")
        top.until(lambda lines: any("paused by root" in line for line in lines), "it says who has paused it")
        top.press("Escape")
        top.until(lambda lines: "class:low" in "".join(lines), "the table is there again")

        top.press("p")
        top.until(lambda lines: any("Resume" in line for line in lines), "it asks before it resumes")
        top.press("y")
        top.until(lambda lines: row(lines, "training") and "paused" not in row(lines, "training"), "it goes on")
        until(lambda: [j.state for j in _jobs(node) if j.name == "training"] == ["active"], PATIENCE_S, "it runs")

        top.press("q")
        top.until(lambda lines: any(line == "ended with 0" for line in lines), "it has ended")
    finally:
        top.close()
