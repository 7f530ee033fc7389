"""Turns of programs that do, step by step, what the test tells them: cut, timed out, killed, forked, left alone."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.control.wire import AskJournal
from gpud.engine.lock import AHEAD_NS
from gpud.model.live_views import Decision
from gpud.testing.command import hold_of
from gpud.testing.node import Node, until
from tests.e2e.test_enforced import Jobs, slow
from tests.e2e.test_turns import lock, states

pytestmark = pytest.mark.e2e

PATIENT = """gpol 1
policy "p" {
  class job { match any }
  arbitrate exclusive { max_hold = 50ms  grace = 10min  idle_release = 20ms  min_hold = 0s }
}
"""
SHORT = PATIENT.replace("10min", "200ms")
TOLD = """
import os, sys, threading
import gpud
turns = []
def take(*more):
    timeout, reason = float(more[0]) if more else 600, " ".join(more[1:])
    try:
        turns.append(gpud.acquire(timeout=timeout, reason=reason))
        return "in" if turns[-1].locked else "alone"
    except gpud.TurnError as error:
        return f"{type(error).__name__} {error}"
def both(devices, timeout=600):
    try:
        turns.append(gpud.acquire([int(one) for one in devices.split(",")], timeout=float(timeout)))
        return "in" if turns[-1].locked else "alone"
    except gpud.TurnError as error:
        return f"{type(error).__name__} {error}"
def rounds(devices, count, path):
    for _ in range(int(count)):
        if both(devices) != "in":
            return "not in"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))     # fails if another one is inside
        os.unlink(path)
        drop()
    return "done"
def drop():
    turns.pop().release()
    return "out"
def release():
    try:
        gpud.release()
        return "out"
    except gpud.TurnError as error:
        return f"{type(error).__name__} {error}"
def threads():
    said = []
    both = [threading.Thread(target=lambda: said.append(take())) for _ in range(2)]
    [one.start() for one in both]
    [one.join() for one in both]
    return " ".join(said)
def fork():
    child = os.fork()
    if child == 0:
        said = [take(1), release()]
        os._exit(0 if all(one.split()[0] in ("TurnError", "NoDaemon") for one in said) else 1)
    return str(os.waitpid(child, 0)[1])
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    name, *more = line.split()
    print(globals()[name](*more), flush=True)
"""


class Told:
    """A program that does what it is told."""

    def __init__(self, node: Node, *program: str, managed: bool = True) -> None:
        """`program`: another one than TOLD, for Python; not `managed`: nobody starts it under gpud."""
        self._errors = node.directory / f"told-{len(list(node.directory.glob('told-*')))}.txt"
        command = [sys.executable, "-u", *(program or ("-c", TOLD))]
        with self._errors.open("w") as errors:
            self.job: subprocess.Popen[str] = node.run(command, managed=managed, stdin=subprocess.PIPE, stderr=errors)
        self.pid = int(self.hears().split()[1])

    def says(self, line: str) -> None:
        assert self.job.stdin is not None
        self.job.stdin.write(line + "\n")
        self.job.stdin.flush()

    def hears(self) -> str:
        assert self.job.stdout is not None
        assert self.is_heard(60), "it says nothing"
        return self.job.stdout.readline().strip()

    def is_heard(self, within: float = 0) -> bool:
        assert self.job.stdout is not None
        return bool(select.select([self.job.stdout], [], [], within)[0])

    def does(self, line: str) -> str:
        self.says(line)
        return self.hears()

    def complains(self) -> str:
        return self._errors.read_text()


def begun(tmp_path: Path, policy: str, kernel_ms: float = 0.1, devices: int = 1) -> Node:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "p.gpol").write_text(policy)
    profile = Path(slow(tmp_path))
    profile.write_text(profile.read_text().replace('"add_amount" = 0.1', f'"add_amount" = {kernel_ms}'))
    environment = {"GPUD_SIM_DEVICES": str(devices)}
    return Node(profile=str(profile), policy="p", policies=policies, environment=environment)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with begun(tmp_path, PATIENT) as node:
        yield node


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Node]:
    with begun(tmp_path, SHORT) as node:
        yield node


def audited(node: Node, count: int) -> list[Decision]:
    """Lines of the audit, once there are so many."""
    with node.client() as client:
        journal = client.journal(AskJournal(since_at_ns=0, until_at_ns=time.time_ns()))
    found = [one for one in journal.decisions if one.kind == "audit"]
    return found if len(found) >= count else []


def waits(node: Node, program: Told, place: int) -> None:
    def so() -> bool:
        view = lock(node, program.pid)
        return view is not None and (view.state, view.place) == ("waits", place)

    until(so, 60, f"it waits at place {place}")


def asked_back(node: Node, program: Told) -> None:
    def so() -> bool:
        view = lock(node, program.pid)
        return view is not None and view.state == "leaves"

    until(so, 60, "it is asked back")


def left(node: Node, program: Told) -> None:
    def so() -> bool:
        view = lock(node, program.pid)
        return view is not None and view.state == "none"

    until(so, 60, "it has left")


def dies(node: Node) -> None:
    assert node.daemon is not None
    node.daemon.kill()
    node.daemon.wait()


def test_a_batch_is_not_cut_by_the_end_of_its_turn(node: Node) -> None:
    one, other = Told(node), Told(node)
    assert one.does("take") == "in"
    other.says("take")
    waits(node, other, 1)
    asked_back(node, one)
    assert one.does("take") == "in", "nested"
    assert one.does("drop") == "out"
    assert not other.is_heard()
    assert one.does("drop") == "out"
    assert other.hears() == "in"


def test_a_batch_that_outlasts_the_grace_is_cut_and_told_so(strict: Node) -> None:
    one, other = Told(strict), Told(strict)
    assert one.does("take") == "in"
    assert other.does("take") == "in"
    assert "has not released its turn" in one.complains()
    assert one.does("drop") == "out"
    assert other.does("drop") == "out"
    assert one.does("take") == "in"


def test_a_timeout_passes_and_nothing_of_it_is_left(node: Node) -> None:
    one, other, third = Told(node), Told(node), Told(node)
    assert one.does("take") == "in"
    said = other.does("take 0.05")
    assert said.startswith("TurnTimeout device 0 did not become free in time"), said
    third.says("take")
    waits(node, third, 1)
    assert one.does("drop") == "out"
    assert third.hears() == "in"
    assert states(node).count("has") == 1


def test_who_waits_in_acquire_is_told_why(node: Node) -> None:
    """None of its launches is held: it has made none."""
    one, other = Told(node), Told(node)
    assert one.does("take") == "in"
    other.says("take")
    waits(node, other, 1)
    with node.client() as client:
        jobs = {pid: job for job in client.ps() for pid in job.pids}
    hold = hold_of(node.environment, jobs[other.pid].id)
    assert (hold["code"], hold["held_by"]) == ("lock", jobs[one.pid].id)
    assert re.search(r"\.gpol:\d+$", hold["by"])
    shown = jobs[other.pid].why
    assert shown is not None
    assert (shown.code, shown.by) == ("lock", hold["by"]), "`gpud ps --json` says the same"
    assert one.does("drop") == "out"
    assert other.hears() == "in"
    assert hold_of(node.environment, jobs[other.pid].id) is None


def test_who_waits_sees_what_the_device_is_used_for(node: Node) -> None:
    one, other = Told(node), Told(node)
    assert one.does("take 600 validation [bold] \x1b[2J") == "in"
    other.says("take 600 training")
    waits(node, other, 1)
    held, waiting = lock(node, one.pid), lock(node, other.pid)
    assert held is not None
    assert waiting is not None
    said = "validation [bold] \\x1b[2J"
    assert (held.reason, waiting.reason) == (said, said)
    assert f'("{said}")' in waiting.text
    with node.client() as client:
        job = next(job for job in client.ps() if other.pid in job.pids)
    asked_back(node, one)
    for verb, text in (("ps",), f'leaves ("{said}")'), (("why", str(job.id)), f'finishes its work ("{said}")'):
        shown = subprocess.run(
            [sys.executable, "-m", "gpud.cli.main", *verb],
            env=node.environment | {"COLUMNS": "600"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert text in shown
        assert "\x1b" not in shown
    assert one.does("drop") == "out"
    assert other.hears() == "in"
    after = lock(node, other.pid)
    assert after is not None
    assert after.reason == "training"


def test_one_that_is_killed_while_it_waits_keeps_nobody_waiting(node: Node) -> None:
    one, killed, last = Told(node), Told(node), Told(node)
    assert one.does("take") == "in"
    killed.says("take")
    waits(node, killed, 1)
    last.says("take")
    waits(node, last, 2)
    os.kill(killed.pid, signal.SIGKILL)
    waits(node, last, 1)
    assert one.does("drop") == "out"
    assert last.hears() == "in"


def test_release_without_acquire(node: Node) -> None:
    one = Told(node)
    assert one.does("release").startswith("NotHeld")
    assert one.does("take") == "in"
    assert one.does("drop") == "out"
    assert one.does("release").startswith("NotHeld")


def test_two_threads_of_one_process_share_its_turn(node: Node) -> None:
    one, other = Told(node), Told(node)
    assert one.does("threads") == "in in"
    other.says("take")
    waits(node, other, 1)
    assert one.does("drop") == "out"
    asked_back(node, one)
    assert not other.is_heard()
    assert one.does("drop") == "out"
    assert other.hears() == "in"


def test_a_forked_child_has_no_turn_and_takes_none_from_its_parent(node: Node) -> None:
    one, other = Told(node), Told(node)
    assert one.does("take") == "in"
    assert one.does("fork") == "0"
    other.says("take")
    waits(node, other, 1)
    assert one.does("take") == "in"
    assert one.does("drop") == "out"
    assert one.does("drop") == "out"
    assert other.hears() == "in"


def test_a_holder_whose_work_never_ends_is_late_until_it_is_killed(tmp_path: Path, counter: list[str]) -> None:
    with begun(tmp_path, SHORT, kernel_ms=1_000_000) as node:
        jobs = Jobs(node, counter)
        jobs.start("endless", "1")
        until(lambda: states(node) == ["has"], 60, "it has the device")
        other = Told(node)
        other.says("take")
        until(lambda: states(node) == ["overruns", "waits"], 60, "it is late")
        late = lock(node, jobs.job("endless").pids[0])
        assert late is not None
        assert "its work has not ended; its gate is shut" in late.text
        view = lock(node, other.pid)
        assert view is not None
        assert (view.starts_ns, view.place) == (None, 1), "nobody can say when"
        assert not other.is_heard()
        jobs.kill("endless")
        assert other.hears() == "in"


@pytest.mark.parametrize(
    ("before", "signals"), [("", ["TERM"]), ("trap '' TERM; ", ["TERM", "KILL"])], ids=["ends", "hears no TERM"]
)
def test_a_policy_ends_a_holder_whose_work_never_ends(
    tmp_path: Path, counter: list[str], before: str, signals: list[str]
) -> None:
    policy = SHORT.replace("min_hold", "max_overrun = 100ms  min_hold")
    with begun(tmp_path, policy, kernel_ms=1_000_000) as node:
        endless = node.run(["/bin/sh", "-c", f'{before}exec "$@"', "sh", *counter, "1"])
        until(lambda: states(node) == ["has"], 60, "it has the device")
        other = Told(node)
        assert other.does("take") == "in"
        assert endless.wait(60) == 128 + (signal.SIGKILL if "KILL" in signals else signal.SIGTERM)
        told = until(lambda: audited(node, len(signals)), 60, "each signal is in the audit")
    assert [(one.by, one.text.split()[3]) for one in told] == [("p.gpol:4", f"signal={name}") for name in signals]
    assert "it has not given device 0 back, and others wait (`max_overrun`): SIGTERM was sent to pid" in told[0].text


def test_without_a_daemon_there_is_an_error_that_says_so(node: Node) -> None:
    one = Told(node)
    dies(node)
    assert one.does("take").startswith("NoDaemon no gpud daemon answers: start one with `gpud serve`")


def test_without_a_daemon_it_may_be_optional(tmp_path: Path) -> None:
    node = begun(tmp_path, PATIENT)
    node.environment["GPUD_OPTIONAL"] = "1"
    with node:
        one = Told(node)
        dies(node)
        assert one.does("take") == "alone"
        assert one.does("drop") == "out"


def test_the_holder_keeps_the_device_while_the_daemon_is_gone_and_the_queue_stays_as_it_was(node: Node) -> None:
    one, second, third = Told(node), Told(node), Told(node)
    assert one.does("take") == "in"
    second.says("take")
    waits(node, second, 1)
    third.says("take")
    waits(node, third, 2)
    dies(node)
    assert one.does("take") == "in", "nested"
    assert one.does("drop") == "out"
    assert not second.is_heard()
    os.kill(second.pid, signal.SIGSTOP)  # so it is not the first one that comes back
    before = time.monotonic_ns()
    node.start()
    waits(node, second, 1)
    waits(node, third, 2)
    assert not third.is_heard()
    assert one.does("drop") == "out"
    left(node, one)
    os.kill(second.pid, signal.SIGCONT)
    until(lambda: second.is_heard() or third.is_heard(), 60, "the next one is in")
    if not second.is_heard():
        assert time.monotonic_ns() - before >= AHEAD_NS, "those behind it wait so long, and no longer"
        second, third = third, second
    assert second.hears() == "in"
    assert not third.is_heard()
    assert second.does("drop") == "out"
    assert third.hears() == "in"


def test_who_has_released_gives_the_device_up_as_soon_as_somebody_comes(tmp_path: Path) -> None:
    with begun(tmp_path, PATIENT.replace("50ms", "10min").replace("20ms", "10min")) as node:
        one, other = Told(node), Told(node)
        for _ in range(3):
            assert one.does("take") == "in"
            assert one.does("drop") == "out"
            assert "waits" not in states(node)
            assert other.does("take") == "in"
            one.says("take")
            waits(node, one, 1)
            assert other.does("drop") == "out", "and who releases while one waits, likewise"
            assert one.hears() == "in"
            assert one.does("drop") == "out"


@pytest.mark.parametrize("how", ["releases", "dies"])
def test_a_holder_that_ends_while_the_daemon_is_gone_frees_the_device_once_it_is_back(node: Node, how: str) -> None:
    one, other = Told(node), Told(node)
    assert one.does("take") == "in"
    other.says("take")
    waits(node, other, 1)
    dies(node)
    if how == "releases":
        assert one.does("drop") == "out"
    else:
        os.kill(one.pid, signal.SIGKILL)
        one.job.wait()
    assert not other.is_heard(0.2), "nobody gives it the device"
    node.start()
    assert other.hears() == "in"


def test_one_that_is_killed_while_it_waits_without_a_daemon_is_forgotten(node: Node) -> None:
    one, killed, last = Told(node), Told(node), Told(node)
    assert one.does("take") == "in"
    killed.says("take")
    waits(node, killed, 1)
    last.says("take")
    waits(node, last, 2)
    dies(node)
    os.kill(killed.pid, signal.SIGKILL)
    killed.job.wait()
    node.start()
    waits(node, last, 1)
    assert one.does("drop") == "out"
    assert last.hears() == "in"
