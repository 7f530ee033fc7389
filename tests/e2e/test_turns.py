"""`arbitrate exclusive` with real programs on the simulated device: one at a time, whatever they do."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.model.views import JobView, LockView
from gpud.testing.node import Node, until
from tests.e2e.test_enforced import ENDLESS, Jobs, slow

pytestmark = pytest.mark.e2e

TURNS = """gpol 1
policy "p" {
  class job { match any }
  arbitrate exclusive { max_hold = 200ms  grace = 1s  idle_release = 20ms  min_hold = 0s }
}
"""
PATIENT = TURNS.replace("grace = 1s", "grace = 10min")
"""A turn of acquire() is never cut here, however slow the machine."""
INSIDE = """
import os, sys, time
import gpud
path, rounds = sys.argv[1], int(sys.argv[2])
for _ in range(rounds):
    with gpud.acquire(timeout=60) as turn:
        assert turn.locked, turn
        fd = os.open(path, os.O_CREAT | os.O_EXCL)      # fails if another one is inside
        os.write(1, b"in\\n")
        time.sleep(float(sys.argv[3]))
        os.close(fd)
        os.unlink(path)
print("done")
"""


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "p.gpol").write_text(getattr(request, "param", TURNS))
    with Node(profile=slow(tmp_path), policy="p", policies=policies) as node:
        yield node


def lock(node: Node, pid: int) -> LockView | None:
    def of(job: JobView) -> bool:
        return pid in (job.launcher_pid, *job.pids)

    with node.client() as client:
        return next((job.lock[0] for job in client.ps() if of(job) and job.lock), None)


def states(node: Node) -> list[str]:
    with node.client() as client:
        return sorted(job.lock[0].state for job in client.ps() if job.lock)


def test_unmodified_programs_take_turns(node: Node, counter: list[str]) -> None:
    jobs = Jobs(node, counter)
    for name in ("a", "b"):
        jobs.start(name, "20", ENDLESS)
    for _ in range(3):
        before = {name: jobs.rounds(name) for name in ("a", "b")}
        until(lambda: all(jobs.rounds(name) > before[name] for name in before), 60, "both go on")  # noqa: B023
    until(lambda: states(node) == ["has", "waits"], 60, "one has the device, the other waits")
    with node.client() as client:
        device = client.status().devices[0]
        held = next(job for job in client.ps() if job.id == device.holder)
        assert device.waiters == 1
        assert held.lock[0].by.endswith("p.gpol:4")


@pytest.mark.parametrize("node", [PATIENT], indirect=True, ids=["patient"])
@pytest.mark.parametrize(
    ("rounds", "seconds"),
    [
        pytest.param("30", "0.005", id="many in a turn"),
        pytest.param("5", "0.25", id="each longer than a turn"),
    ],
)
def test_a_turn_in_python_has_the_device_alone(node: Node, tmp_path: Path, rounds: str, seconds: str) -> None:
    command = [sys.executable, "-c", INSIDE, str(tmp_path / "inside"), rounds, seconds]
    for job in [node.run(command) for _ in range(3)]:
        out, _ = job.communicate(timeout=60)
        assert (job.returncode, out.splitlines()[-1]) == (0, "done")


def test_the_next_one_is_in_once_a_holder_is_killed(node: Node, tmp_path: Path) -> None:
    holder = node.run([sys.executable, "-c", INSIDE, str(tmp_path / "one"), "1", "600"])
    until(lambda: "has" in states(node), 60, "it has the device")
    other = node.run([sys.executable, "-c", INSIDE, str(tmp_path / "two"), "1", "0"])
    until(lambda: "waits" in states(node) or other.poll() is not None, 60, "the other one waits")
    with node.client() as client:
        pid = next(job.pids[0] for job in client.ps() if job.launcher_pid != other.pid)
    os.kill(pid, signal.SIGKILL)
    out, _ = other.communicate(timeout=30)
    assert (other.returncode, out.split()) == (0, ["in", "done"])
    holder.wait(timeout=30)


def test_a_holder_that_is_stopped_overruns_and_nobody_else_gets_in(node: Node, tmp_path: Path) -> None:
    node.run([sys.executable, "-c", INSIDE, str(tmp_path / "one"), "1", "600"])
    until(lambda: "has" in states(node), 60, "it has the device")
    with node.client() as client:
        pid = next(job.pids[0] for job in client.ps())
    os.kill(pid, signal.SIGSTOP)
    other = node.run([sys.executable, "-c", INSIDE, str(tmp_path / "two"), "1", "0"])
    until(lambda: states(node) == ["overruns", "waits"], 60, "it is late")
    with node.client() as client:
        late = next(one.lock[0] for one in client.ps() if one.lock[0].state == "overruns")
        waits = next(one.lock[0] for one in client.ps() if one.lock[0].state == "waits")
    assert "p.gpol:4" in late.text
    assert (waits.place, waits.starts_ns) == (1, None)
    assert other.poll() is None
    os.kill(pid, signal.SIGCONT)
    out, _ = other.communicate(timeout=30)
    assert (other.returncode, out.split()) == (0, ["in", "done"])
