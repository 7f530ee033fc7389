"""What policies say is what happens to real programs: windows, ranks, rules, guards, several policies on one GPU.

A kernel takes 0.1 ms here: a program that is not held back has all of a round's on the device at once.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from gpud.model.views import JobView
from gpud.native import sim_dir
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

ENDLESS = "100000000"
"""Kernels of a round that never comes to its synchronise."""
PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""


def slow(directory: Path) -> str:
    """A profile for it."""
    shipped = (sim_dir() / "profiles" / "a100-40gb.toml").read_text()
    assert "[kernels]" in shipped
    path = directory / "slow.toml"
    path.write_text(f'{shipped}\n"add_amount" = 0.1\n')
    return str(path)


class Jobs:
    """Counters by label `c`, and what they have done."""

    def __init__(self, node: Node, counter: Sequence[str]) -> None:
        self.node = node
        self._counter = counter
        self._lines: dict[str, Path] = {}

    def start(self, name: str, kernels: str, *more: str) -> subprocess.Popen[str]:
        """`more`: rounds, pause in µs."""
        lines = self._lines[name] = self.node.directory / f"{name}.txt"
        with lines.open("w") as out:
            return self.node.run([*self._counter, kernels, *more], labels={"c": name}, stdout=out)

    def rounds(self, name: str) -> int:
        return self._lines[name].read_text().count("ok\n")

    def launches(self, name: str) -> int:
        with self.node.client() as client:
            return next((one.launches for one in client.stats() if one.job.labels["c"] == name), 0)

    def job(self, name: str) -> JobView:
        def found() -> JobView | None:
            with self.node.client() as client:
                return next((job for job in client.ps() if job.labels["c"] == name), None)

        return cast(JobView, until(found, PATIENCE_S, f"{name} is there"))

    def kill(self, name: str) -> None:
        for pid in self.job(name).pids:
            os.kill(pid, signal.SIGKILL)

    def goes_on(self, name: str, count: Callable[[str], int], by: int) -> None:
        before = count(name)
        until(lambda: count(name) >= before + by, PATIENCE_S, f"{name} goes on")

    def stands(self, name: str) -> None:
        until(lambda: self.job(name).state == "held", PATIENCE_S, f"{name} is held")


def most_unfinished(node: Node) -> dict[int, int]:
    """By process, in the order of their first kernels: kernels submitted and not finished at one time, by the device's
    own log. The node must be stopped."""
    edges: dict[int, list[tuple[int, int]]] = {}
    for line in node.device_log.read_text().splitlines():
        row = json.loads(line)
        if row["type"] == "kernel":
            edges.setdefault(row["pid"], []).extend([(row["submit"], 1), (row["end"], -1)])
    most: dict[int, int] = {}
    for pid, changes in sorted(edges.items(), key=lambda item: min(item[1])):
        unfinished = 0
        for _, change in sorted(changes):
            unfinished += change
            most[pid] = max(most.get(pid, 0), unfinished)
    return most


WINDOWS = """gpol 1
policy "ranks" {
  class free { match label("c") == "free" }
  class low  { match any }
  arbitrate preempt { order = [free, low]  resume_after = 1ms  max_inflight = 7 }
}
policy "limits" {
  class tight { match label("c") == "tight" }
  class own   { match label("c") == "own" }
  class rest  { match any }
  tight.max_inflight = 2
  rest.max_inflight  = 9
  each own as n { n.max_inflight = 3 }
}
apply "ranks", "limits" to gpu *
"""


def test_windows_of_two_policies_and_of_one_job_meet(counter: list[str], tmp_path: Path) -> None:
    """The tighter one counts: 7 of the arbiter, 2 of the limiter, 3 of a rule about one job, 9 above the arbiter's."""
    (tmp_path / "p.gpol").write_text(WINDOWS)
    with Node(profile=slow(tmp_path), policies=tmp_path, policy=None) as node:
        jobs = Jobs(node, counter)
        for name in ("free", "tight", "own", "other"):
            assert jobs.start(name, "200", "3").wait(60) == 0
        node.stop()
        most = most_unfinished(node)
    assert [*most.values()] == [9, 2, 3, 7], "one after another, in this order"


RANKS = """gpol 1
policy "ranks" {
  class a    { match label("c") == "a" }
  class b    { match label("c") == "b" }
  class low  { match label("c") == "low" }
  class last { match any }
  arbitrate preempt { order = [[a, b], low, last]  resume_after = 1ms  max_pause = unlimited }
  when b.launch_rate > 10/s { last.yield = false }
}
apply "ranks" to gpu *
"""


def test_equal_ranks_run_beside_each_other_and_a_rule_says_who_yields(counter: list[str], tmp_path: Path) -> None:
    (tmp_path / "p.gpol").write_text(RANKS)
    with Node(profile=slow(tmp_path), policies=tmp_path, policy=None) as node:
        jobs = Jobs(node, counter)
        jobs.start("a", ENDLESS)
        jobs.start("b", ENDLESS)
        jobs.goes_on("a", jobs.launches, 100)
        jobs.goes_on("b", jobs.launches, 100)
        jobs.goes_on("a", jobs.launches, 100)  # b does not stop it
        jobs.start("low", "1", "0")
        jobs.stands("low")
        why = jobs.job("low").why
        assert why is not None
        assert why.code == "preempt"
        jobs.start("last", "1", "0")
        jobs.goes_on("last", jobs.rounds, 3)  # ranked below low, and yet it need not yield
        assert jobs.rounds("low") == 0
        jobs.kill("b")
        jobs.stands("last")  # b launches nothing any more
        jobs.kill("a")
        jobs.goes_on("low", jobs.rounds, 3)
        jobs.goes_on("last", jobs.rounds, 3)


GUARD = """gpol 1
policy "base" {
  class a { match label("c") == "a" }
  class b { match any }
  arbitrate open {}
  when a.active { b.pause = false }
  when a.idle_for > 300ms { b.max_inflight = 5 }
}
policy "guard" {
  class a { match label("c") == "a" }
  class b { match any }
  guard a.launch_rate > 50/s for 100ms until a.idle_for > 500ms for 200ms because "a is busy" { b.pause = true }
}
apply "base", "guard" to gpu *
"""


def test_a_guard_holds_whatever_another_policy_says_and_lets_go_with_its_own_condition(
    counter: list[str], tmp_path: Path
) -> None:
    (tmp_path / "p.gpol").write_text(GUARD)
    with Node(profile=slow(tmp_path), policies=tmp_path, policy=None) as node:
        jobs = Jobs(node, counter)
        jobs.start("b", "1", "0")
        jobs.goes_on("b", jobs.rounds, 3)
        jobs.start("a", "5", "0", "20000")
        jobs.stands("b")
        why = jobs.job("b").why
        assert why is not None
        assert "it is paused: “a is busy”" in why.text
        held = jobs.rounds("b")
        jobs.goes_on("a", jobs.rounds, 30)
        assert jobs.rounds("b") == held
        jobs.kill("a")
        jobs.goes_on("b", jobs.rounds, 3)
        with node.client() as client:
            (device,) = client.why(jobs.job("b").id).devices
        found = {one.because.knob: one.because.value for one in device.knobs if one.because.policy == "base"}
        assert found["b.max_inflight"] == "5"
