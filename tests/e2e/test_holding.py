"""What low waits for, and what ends the wait: high that dies, max_pause, gpud stop. Real programs on the simulated
GPU."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from bench.harness import HIGH_AND_LOW, policy_file
from gpud.model.views import JobView
from gpud.testing.command import gpud
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

ENDLESS = "100000000"
"""Kernels of a round that never comes to its synchronise."""
PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""


class Pair:
    """Low, which counts rounds, and high, which launches without end and never synchronises."""

    def __init__(self, node: Node, counter: Sequence[str]) -> None:
        self.node = node
        self.lines = node.directory / "low.txt"
        with self.lines.open("w") as out:
            self.low = node.run([*counter, "1", "0"], labels={"tier": "batch"}, stdout=out)
        until(lambda: self.rounds > 2, PATIENCE_S, "low computes")
        self.high = node.run([*counter, ENDLESS], labels={"tier": "online"}, stdout=subprocess.DEVNULL)
        until(lambda: self.job("high").state == "active", PATIENCE_S, "high is active")

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
        until(lambda: self.job("low").state == "held", PATIENCE_S, "low is held")
        return self.rounds

    def goes_on(self, rounds: int, what: str) -> None:
        until(lambda: self.rounds >= rounds + 3 or self.low.poll() is not None, PATIENCE_S, what)
        assert self.low.poll() is None


def test_kill_of_high_while_low_is_held(counter: list[str]) -> None:
    with Node(profile="a100-40gb", policy="preempt-mix(quiet = 1ms, patience = unlimited)") as node:
        pair = Pair(node, counter)
        rounds = pair.wait_until_held()
        why = pair.job("low").why
        assert why is not None
        assert why.held_by == pair.job("high").id
        os.kill(pair.job("high").pids[0], signal.SIGKILL)
        pair.goes_on(rounds, "high was killed")
        assert pair.high.wait(10) == 128 + signal.SIGKILL


def test_max_pause_lets_low_through(counter: list[str]) -> None:
    """High never synchronises and never ends; low gets one launch through each 200 ms, and not more."""
    with Node(profile="a100-40gb", policy="preempt-mix(quiet = 1ms, patience = 200ms)") as node:
        pair = Pair(node, counter)
        pair.wait_until_held()
        began = time.monotonic()
        rounds = pair.rounds
        until(lambda: pair.rounds >= rounds + 4, PATIENCE_S, "four rounds got through")
        assert time.monotonic() - began >= 3 * 0.2 * 0.9
        assert pair.job("high").state == "active"
        with node.client() as client:
            passed = next(stats.passed for stats in client.stats() if stats.job.job_class == "low")
        assert passed >= 4


def test_stop_opens_what_a_failsafe_would_hold(counter: list[str], tmp_path: Path) -> None:
    """`daemon_lost = closed` is about daemons that are lost; who is asked to stop lets go of everybody."""
    arbiter = "arbitrate preempt { order = [high, low]  resume_after = 1ms  max_pause = unlimited }"
    rules = f"{arbiter}\n  failsafe {{ daemon_lost = closed }}"
    for name, text in policy_file(rules, HIGH_AND_LOW).items():
        (tmp_path / name).write_text(text)
    with Node(profile="a100-40gb", policy="bench", policies=tmp_path) as node:
        pair = Pair(node, counter)
        rounds = pair.wait_until_held()
        result = gpud(node.environment, "stop")
        assert (result.returncode, result.stdout) == (0, "stopped; the gates of 2 processes were opened\n")
        pair.goes_on(rounds, "the daemon was stopped")
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
            until(lambda: client.status().clients == 4, PATIENCE_S, "four processes are attached")
            jobs = client.ps()
        assert len(jobs) == 1
        assert jobs[0].launcher_pid == job.pid
        assert len(jobs[0].pids) == 4
        assert jobs[0].job_class == "high"
        for pid in jobs[0].pids:
            psutil.Process(pid).kill()
        assert job.wait(10) == 128 + signal.SIGKILL
        with node.client() as client:
            until(lambda: client.ps() == [], PATIENCE_S, "the job has ended")
