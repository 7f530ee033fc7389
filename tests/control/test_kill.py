"""A signal reaches all processes of a job, and no other, whatever has become of their numbers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpud.control import kill
from gpud.hooks import identity

TREE = """
import os, sys, time
depth = int(sys.argv[1])
if depth:
    import subprocess
    subprocess.Popen([sys.executable, *sys.orig_argv[1:-1], str(depth - 1)], stdout=sys.stdout)
print(os.getpid(), flush=True)
time.sleep(1000)
"""


class Tree:
    """A process with a chain of descendants, all asleep."""

    def __init__(self, depth: int) -> None:
        read, write = os.pipe()
        command = [sys.executable, "-I", "-c", TREE, str(depth)]
        self.root = subprocess.Popen(command, stdout=write, start_new_session=True)
        os.close(write)
        with os.fdopen(read, "rb", buffering=0) as self.output:
            self.pids = sorted(int(self.output.readline()) for _ in range(depth + 1))
        self.key = key(self.root.pid)

    def close(self) -> None:
        os.killpg(self.root.pid, signal.SIGKILL)
        self.root.wait()


def key(pid: int) -> tuple[int, int]:
    started = identity.start_time(pid)
    assert started is not None
    return pid, started


def ended(pids: list[int]) -> list[int]:
    return [pid for pid in pids if identity.parent_and_start(pid) is None]


@pytest.fixture
def tree() -> Iterator[Tree]:
    tree = Tree(2)
    yield tree
    tree.close()


def test_a_launcher_is_spared_and_all_below_it_are_reached(tree: Tree) -> None:
    sent = kill.send(3, {tree.key: 3}, tree.key, "KILL", None)
    assert sorted(sent.reached) == [pid for pid in tree.pids if pid != tree.root.pid]
    assert sent.others == ()
    assert tree.root.poll() is None


def test_a_launcher_without_a_program_gets_it_itself() -> None:
    alone = Tree(0)
    try:
        assert kill.send(3, {alone.key: 3}, alone.key, "TERM", None).reached == (alone.root.pid,)
        assert alone.root.wait(60) == -signal.SIGTERM
    finally:
        alone.root.kill()
        alone.root.wait()


def test_a_process_that_attached_by_itself_and_its_children(tree: Tree) -> None:
    assert sorted(kill.send(3, {tree.key: 3}, None, "KILL", None).reached) == tree.pids


def test_a_job_within_a_job_is_another(tree: Tree) -> None:
    table = {pid: identity.parent_and_start(pid) for pid in tree.pids}
    middle = next(pid for pid, found in table.items() if found is not None and found[0] == tree.root.pid)
    sent = kill.send(3, {tree.key: 3, key(middle): 4}, tree.key, "KILL", None)
    assert sent.reached == (tree.root.pid,), "its only process is not of this job"


def test_never_a_process_that_has_the_number_by_now(tree: Tree) -> None:
    pid, started = tree.key
    sent = kill.send(3, {(pid, started - 1): 3}, None, "KILL", None)
    assert sent == kill.Sent(reached=(), others=())
    assert ended(tree.pids) == []


def test_a_number_that_changes_hands_between_look_and_signal(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the process had ended just after it was listed, and another one had got its number."""
    pid, started = tree.key
    monkeypatch.setattr(kill, "processes_of", lambda job, known: [(pid, started - 1)])
    assert kill.send(3, {(pid, started): 3}, None, "KILL", None) == kill.Sent(reached=(), others=())
    assert ended(tree.pids) == []


def test_a_job_that_has_ended(tree: Tree) -> None:
    known = {tree.key: 3}
    tree.root.kill()
    tree.root.wait()
    assert kill.send(3, known, tree.key, "TERM", None) == kill.Sent(reached=(), others=())


def test_processes_of_another_user_are_left_alone(tree: Tree) -> None:
    sent = kill.send(3, {tree.key: 3}, None, "KILL", os.getuid() + 1)
    assert (sent.reached, sorted(sent.others)) == ((), tree.pids)
    assert ended(tree.pids) == []
    assert sorted(kill.send(3, {tree.key: 3}, None, "KILL", os.getuid()).reached) == tree.pids


FORKS = """
import ctypes, os, signal, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # as `gpud run`: what loses its parent becomes a child of this one
if os.fork():
    time.sleep(1000)
print("up", flush=True)
before = 0
while True:
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    if before:
        os.kill(before, signal.SIGKILL)
        os.waitpid(before, 0)
    before = child
"""


def test_who_forks_all_the_time_leaves_no_child() -> None:
    launcher = subprocess.Popen([sys.executable, "-I", "-c", FORKS], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        at = key(launcher.pid)
        sent = kill.send(3, {at: 3}, at, "KILL", None, within_s=60)
        assert sent.reached  # the one that forks at least; whom it has ended itself need not be
        assert list(kill.processes_of(3, {at: 3})) == [at]
    finally:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()
        if launcher.stdout is not None:
            launcher.stdout.close()


def test_signals_have_names() -> None:
    assert kill.SIGNALS["TERM"] is signal.SIGTERM
    assert sorted(kill.SIGNALS) == ["CONT", "HUP", "INT", "KILL", "QUIT", "STOP", "TERM", "USR1", "USR2"]
