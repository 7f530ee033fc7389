"""What a person does to a running job, with real programs on the simulated device: pause, resume, evict, set, kill."""

import os
import pwd
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.control import wire
from gpud.model.errors import Refused, UsageError
from gpud.testing.node import Node, until
from tests.e2e.test_enforced import ENDLESS, PATIENCE_S, Jobs, slow
from tests.e2e.test_swap import MIB, WITHIN, Large, Turns

pytestmark = pytest.mark.e2e

ME = f"{pwd.getpwuid(os.geteuid()).pw_name} (uid {os.geteuid()})"
RANKS = """gpol 1
policy "p" {
  class high { match label("c") == "high" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = 1ms  max_pause = unlimited }
}
"""
EXCLUSIVE = """gpol 1
policy "p" {
  class job { match any }
  arbitrate exclusive { max_hold = unlimited  grace = 10min  idle_release = 20ms  min_hold = 0s }
}
"""


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "p.gpol").write_text(getattr(request, "param", RANKS))
    with Node(profile=slow(tmp_path), policy="p", policies=policies) as node:
        yield node


def why(jobs: Jobs, name: str) -> str:
    found = jobs.job(name).why
    return found.code if found is not None else ""


def test_a_paused_job_stands_and_holds_nobody_and_goes_on(node: Node, counter: list[str]) -> None:
    jobs = Jobs(node, counter)
    jobs.start("high", ENDLESS)
    jobs.goes_on("high", jobs.launches, 100)
    jobs.start("low", "20", ENDLESS)
    jobs.stands("low")
    high = jobs.job("high").id
    with node.client() as client:
        client.pause(high)
    jobs.goes_on("low", jobs.rounds, 3)
    until(lambda: jobs.job("high").why and "held for" in jobs.job("high").why.text, PATIENCE_S, "high is held")  # type: ignore[union-attr]
    before = jobs.launches("high")
    jobs.goes_on("low", jobs.rounds, 3)
    assert jobs.launches("high") == before
    assert (jobs.job("high").state, why(jobs, "high")) == ("paused", "paused")
    # Another daemon knows of it.
    assert node.daemon is not None
    node.daemon.kill()
    node.daemon.wait()
    node.start()
    until(lambda: jobs.job("high").state == "paused", PATIENCE_S, "it is paused still")
    jobs.goes_on("low", jobs.rounds, 3)
    assert jobs.launches("high") == before
    with node.client() as client:
        client.resume(high)
    jobs.goes_on("high", jobs.launches, 100)
    jobs.stands("low")


@pytest.mark.parametrize("node", [EXCLUSIVE], indirect=True, ids=["exclusive"])
def test_a_paused_holder_gives_its_turn_to_the_next(node: Node, counter: list[str]) -> None:
    jobs = Jobs(node, counter)
    jobs.start("one", "20", ENDLESS)
    jobs.goes_on("one", jobs.rounds, 2)
    jobs.start("two", "20", ENDLESS)
    until(lambda: [lock.state for lock in jobs.job("two").lock] == ["waits"], PATIENCE_S, "two waits")
    assert jobs.rounds("two") == 0, "the turn has no end"
    with node.client() as client:
        client.pause(jobs.job("one").id)
    jobs.goes_on("two", jobs.rounds, 3)
    with node.client() as client:
        client.resume(jobs.job("one").id)
        client.pause(jobs.job("two").id)
    jobs.goes_on("one", jobs.rounds, 3)


@pytest.mark.parametrize(("name", "code"), [("TERM", 128 + signal.SIGTERM), ("KILL", 128 + signal.SIGKILL)])
def test_a_killed_job_ends_with_its_gpud_run(node: Node, counter: list[str], name: str, code: int) -> None:
    jobs = Jobs(node, counter)
    run, other = jobs.start("one", ENDLESS), jobs.start("other", ENDLESS)
    jobs.goes_on("one", jobs.launches, 10)
    job = jobs.job("one")
    with node.client() as client:
        done = client.kill(job.id, name, job.pids)
        assert f"SIG{name} was sent to pid {job.pids[0]} of job {job.id}" in done.text
        assert run.wait(PATIENCE_S) == code
        until(lambda: [one.id for one in client.ps()] == [jobs.job("other").id], PATIENCE_S, "only the other is there")
        with pytest.raises(UsageError, match=f"job {job.id} has ended"):
            client.kill(job.id, name)
    assert other.poll() is None


def test_limits_of_one_job(node: Node, counter: list[str]) -> None:
    jobs = Jobs(node, counter)
    jobs.start("one", "20", ENDLESS)
    jobs.goes_on("one", jobs.rounds, 2)
    job = jobs.job("one").id
    with node.client() as client:
        view = client.set(wire.AskSet(job=job, memory_bytes=512 * MIB, compute_ppm=50_000))
        assert (view.memory[0].limit, view.memory[0].place) == (512 * MIB, f"set by {ME}")
        until(lambda: client.ps()[0].time and client.ps()[0].time[0].limit == 0.05, PATIENCE_S, "its cap is in force")
        until(lambda: why(jobs, "one") == "budget", PATIENCE_S, "it is held by it")
        until(lambda: f"set by {ME}" in str(client.why(job).hold), PATIENCE_S, "and it is said by whose word")
        client.set(wire.AskSet(job=job, memory_bytes=None, compute_ppm=None))
        assert client.why(job).job.memory[0].limit is None
        until(lambda: all(time.limit is None for time in client.ps()[0].time), PATIENCE_S, "nothing limits it")


def test_an_evicted_job_leaves_and_comes_back_with_all_it_had(tmp_path: Path, large: list[str]) -> None:
    with Turns(tmp_path) as node:
        before = node.used()
        one = Large(node, large, "one", 150)
        one.filled()
        job = node.job("one")
        assert job is not None
        until(lambda: node.used() >= before + 150 * MIB, WITHIN, "the device has it")
        with node.client() as client:
            client.pause(job.id)
            done = client.evict(job.id)
            assert "leave" in done.text
            until(lambda: node.memory("one").resident == 0, WITHIN, "its memory is on the host")
            until(lambda: node.used() <= before + 16 * MIB, WITHIN, "and the device is free")
            two = Large(node, large, "two", 200)
            two.filled()
            assert node.memory("two").host == 0
            with pytest.raises(Refused, match="it has no turn and no memory that could leave"):
                client.evict(job.id)
            client.resume(job.id)
        one.do("c")
        two.do("c")
        one.do("r")
