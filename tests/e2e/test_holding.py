"""What low waits for, and what ends the wait: high that dies, max_pause, gpud stop. Real programs on the simulated
GPU."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence

import psutil
import pytest

from gpud.model.views import JobView
from gpud.testing.command import gpud
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

ENDLESS = "100000000"
"""Kernels of a round that never comes to its synchronise."""


class Pair:
    """Low, which counts rounds, and high, which launches without end and never synchronises."""

    def __init__(self, node: Node, counter: Sequence[str]) -> None:
        self.node = node
        self.lines = node.directory / "low.txt"
        with self.lines.open("w") as out:
            self.low = node.run([*counter, "1", "0"], labels={"tier": "batch"}, stdout=out)
        until(lambda: self.rounds > 2, 30, "low computes")
        self.high = node.run([*counter, ENDLESS], labels={"tier": "online"}, stdout=subprocess.DEVNULL)
        until(lambda: self.job("high").state == "active", 30, "high is active")

    @property
    def rounds(self) -> int:
        return self.lines.read_text().count("ok\n")

    def job(self, job_class: str) -> JobView:
        """As `gpud ps` shows it; before it is there: the other one, or what makes the caller ask again."""
        with self.node.client() as client:
            jobs = client.ps()
        return next((job for job in jobs if job.job_class == job_class), jobs[0])

    def wait_until_held(self) -> int:
        """The rounds of low once it is held."""
        until(lambda: self.job("low").state == "held", 10, "low is held")
        return self.rounds

    def goes_on_within(self, rounds: int, seconds: float, what: str) -> None:
        began = time.monotonic()
        until(lambda: self.rounds >= rounds + 3 or self.low.poll() is not None, seconds, what)
        print(f"{what}: low went on after {time.monotonic() - began:.3f} s")
        assert self.low.poll() is None


def test_kill_of_high_while_low_is_held(counter: list[str]) -> None:
    with Node(profile="a100-40gb", policy="preempt-mix(quiet = 1ms, patience = unlimited)") as node:
        pair = Pair(node, counter)
        rounds = pair.wait_until_held()
        why = pair.job("low").why
        assert why is not None
        assert why.held_by == pair.job("high").id
        os.kill(pair.job("high").pids[0], signal.SIGKILL)
        pair.goes_on_within(rounds, 2, "high was killed")
        assert pair.high.wait(10) == 128 + signal.SIGKILL


def test_max_pause_lets_low_through(counter: list[str]) -> None:
    """High never synchronises and never ends; low gets one launch through each 200 ms, and not more."""
    with Node(profile="a100-40gb", policy="preempt-mix(quiet = 1ms, patience = 200ms)") as node:
        pair = Pair(node, counter)
        rounds = pair.wait_until_held()
        began = time.monotonic()
        until(lambda: pair.rounds >= rounds + 4, 20, "four rounds got through")
        assert time.monotonic() - began >= 3 * 0.2 * 0.9
        assert pair.job("high").state == "active"
        with node.client() as client:
            passed = next(stats.passed for stats in client.stats() if stats.job.job_class == "low")
        assert passed >= 4


def test_stop_opens_the_gates_at_once(counter: list[str]) -> None:
    with Node(profile="a100-40gb", policy="preempt-mix(quiet = 1ms, patience = unlimited)") as node:
        pair = Pair(node, counter)
        rounds = pair.wait_until_held()
        result = gpud(node.environment, "stop")
        assert (result.returncode, result.stdout) == (0, "stopped; the gates of 2 processes were opened\n")
        pair.goes_on_within(rounds, 2, "the daemon was stopped")
        assert pair.high.poll() is None
        assert node.daemon is not None
        assert node.daemon.wait(10) == 0


def test_a_chain_of_processes_is_one_job(counter: list[str]) -> None:
    """Children, grandchildren, and what exec made of them; a child whose parent has ended, too."""
    count = " ".join([*counter, "1", "0", "100000"])
    script = f"sh -c '{count} & exec {count}' & (sh -c '{count} & exit' ); exec {count}"
    with Node(profile="a100-40gb") as node:
        job = node.run(["sh", "-c", script], labels={"tier": "online"}, stdout=subprocess.DEVNULL)
        with node.client() as client:
            until(lambda: client.status().clients == 4, 30, "four processes are attached")
            jobs = client.ps()
        assert len(jobs) == 1
        assert jobs[0].launcher_pid == job.pid
        assert len(jobs[0].pids) == 4
        assert jobs[0].job_class == "high"
        for pid in jobs[0].pids:
            psutil.Process(pid).kill()
        assert job.wait(10) == 128 + signal.SIGKILL
        with node.client() as client:
            until(lambda: client.ps() == [], 10, "the job has ended")
