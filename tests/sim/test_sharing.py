"""Programs of two processes share memory and events on the simulated GPU, and what the killed ones had comes back."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.testing.node import until

from .conftest import DEADLINE_S, Start

pytestmark = pytest.mark.e2e
KILLS = 4


@pytest.fixture
def node() -> str:
    """The name of a node that lives as long as somebody is on it."""
    return f"share-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose name is short enough for sockets."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def run(start: Start, node: str) -> Iterator[Start]:
    """run(mode, *arguments): programs/share.py on the node; whatever comes of the test, none of them is left."""
    started: list[subprocess.Popen[str]] = []

    def one(*arguments: str) -> subprocess.Popen[str]:
        started.append(start("share", *arguments, node=node))
        return started[-1]

    yield one
    for process in started:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def line(process: subprocess.Popen[str]) -> str:
    """The next line of a program."""
    assert process.stdout
    text = process.stdout.readline()
    assert text, process.communicate(timeout=DEADLINE_S)[1]
    return text.strip()


def free(run: Start) -> int:
    """The free bytes of the device that a program sees which has nothing but a context."""
    process = run("free")
    value = int(line(process))
    process.communicate(timeout=DEADLINE_S)
    return value


def test_memory_and_an_event(run: Start, place: Path) -> None:
    giver = run("give", str(place / "a"))
    assert line(giver) == "ready"
    taker = run("take", str(place / "a"))
    out, err = taker.communicate(timeout=DEADLINE_S)
    assert taker.returncode == 0, err
    assert json.loads(out) == {"words": [11, 22, 33], "done_when_told": False}
    _, err = giver.communicate(timeout=DEADLINE_S)
    assert giver.returncode == 0, err


def test_killed_givers_lose_nothing_of_their_takers(run: Start, place: Path) -> None:
    assert line(run("give", str(place / "keeper"))) == "ready"  # keeps the node
    before = free(run)
    for i in range(KILLS):
        path = str(place / str(i))
        giver = run("give", path)
        assert line(giver) == "ready"
        taker = run("take", path, str(giver.pid))
        out, err = taker.communicate(timeout=DEADLINE_S)
        # The fill was under way when its process died: done or not, but the memory is there, and nobody waits for ever.
        assert taker.returncode == 0, err
        for word, filled in zip(json.loads(out)["words"], (11, 22, 33), strict=True):
            assert word in (0, filled)
        giver.communicate(timeout=DEADLINE_S)
        until(lambda: free(run) == before, DEADLINE_S, "all that was theirs has come back")
