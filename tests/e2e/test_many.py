"""Many processes and many threads on one daemon: nothing is counted wrongly, nothing is left behind.

On the simulated GPU."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bench.harness import policy_file
from gpud.model.views import JobStats
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

CLASSES = """class counted { match label("c") == "counted"  share = fixed(60%) }
  class rest { match any  share = fixed(30%) }"""
POLICY = policy_file("arbitrate share { period = 20ms  reclaim = 2ms }", CLASSES)
PTX = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry us200()\n{\n    ret;\n}\n"
CLIENTS, TREES, THREADS = 256, 4, 2000
MIB = 1 << 20
PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    policies = tmp_path / "policies"
    policies.mkdir()
    for name, text in POLICY.items():
        (policies / name).write_text(text)
    with Node(profile="test-small", policy="bench", policies=policies) as running:
        yield running


@pytest.fixture
def live(life: str, tmp_path: Path, node: Node) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts `life` under gpud; returns once it has said its line."""
    ptx = tmp_path / "life.ptx"
    ptx.write_text(PTX)

    def start(mode: str, count: int, label: str = "counted") -> "subprocess.Popen[str]":
        job = node.run([life, mode, ptx, "us200", str(count)], labels={"c": label}, stdin=subprocess.PIPE)
        return job

    return start


def said(job: "subprocess.Popen[str]", word: str) -> int:
    assert job.stdout is not None
    words = job.stdout.readline().split()
    assert words[:1] == [word], words
    return int(words[1])


def end(job: "subprocess.Popen[str]") -> None:
    assert job.stdin is not None
    job.stdin.close()
    job.wait(PATIENCE_S)


def stats(node: Node) -> list[JobStats]:
    with node.client() as client:
        return client.stats()


def descriptors(daemon: psutil.Process) -> int:
    """But for files that it has open for a moment, and the journal, which begins with the first decision."""
    return min(_descriptors(daemon.pid) for _ in range(10))


def _descriptors(pid: int) -> int:
    count = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed just now
            count += "/journal/" not in os.readlink(path)
    return count


def clients(node: Node) -> int:
    with node.client() as client:
        return client.status().clients


def test_short_lived_threads_are_all_counted(node: Node, live: Callable[..., "subprocess.Popen[str]"]) -> None:
    """Each of the 64 places for threads is used by many, one after another."""
    job = live("threads", THREADS)
    launches = said(job, "launched")
    assert launches == 3 * THREADS
    (found,) = stats(node)
    assert (found.launches, found.unfinished, found.launches_failed, found.hook_errors) == (launches, 0, 0, 0)
    assert found.job.time[0].limit == 0.6
    assert sum(found.held_histogram) == found.held
    end(job)


def test_a_crowd_comes_and_goes(node: Node, live: Callable[..., "subprocess.Popen[str]"]) -> None:
    """256 clients in four jobs, twice; what the first crowd needed is enough for the second one."""
    assert node.daemon is not None
    daemon = psutil.Process(node.daemon.pid)
    figures = []
    for _ in range(2):
        empty = until(lambda: clients(node) == 0 and descriptors(daemon), PATIENCE_S, "nobody is there")
        jobs = [live("forks", CLIENTS // TREES) for _ in range(TREES)]
        for job in jobs:
            assert said(job, "attached") == CLIENTS // TREES
        until(lambda: clients(node) == CLIENTS, PATIENCE_S, "all are attached")
        with node.client() as client:
            assert sorted(len(job.pids) for job in client.ps()) == [CLIENTS // TREES] * TREES, "a tree is one tenant"
        for job in jobs:
            end(job)
        until(lambda: clients(node) == 0, PATIENCE_S, "all are gone")
        with node.client() as client:
            until(lambda: client.ps() == [], PATIENCE_S, "no job is left")
        until(lambda: descriptors(daemon) <= empty, PATIENCE_S, "no descriptor is left")  # noqa: B023
        figures.append((descriptors(daemon), daemon.memory_info().rss, len(daemon.memory_maps(grouped=False))))
    print(figures)
    assert figures[1][0] == figures[0][0]
    assert figures[1][1] <= figures[0][1] + 4 * MIB, "memory"
    assert figures[1][2] <= figures[0][2] + 8, "mappings"
    assert node.daemon.poll() is None


def test_a_killed_crowd_leaves_nothing(node: Node, live: Callable[..., "subprocess.Popen[str]"]) -> None:
    """Nobody says good-bye."""
    assert node.daemon is not None
    daemon = psutil.Process(node.daemon.pid)
    job = live("forks", 64)
    said(job, "attached")
    until(lambda: clients(node) == 64, PATIENCE_S, "all are attached")
    fds = descriptors(daemon)
    for child in psutil.Process(job.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # they end with their parent
            child.send_signal(signal.SIGKILL)
    until(lambda: clients(node) == 0, PATIENCE_S, "all are gone")
    until(lambda: descriptors(daemon) <= fds - 64, PATIENCE_S, "their descriptors are closed")
    assert job.wait(PATIENCE_S) == 128 + signal.SIGKILL
