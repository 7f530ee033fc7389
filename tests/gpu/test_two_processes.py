"""A high and a low job on one device: low stops, goes on, and outlives high."""

import os
import signal

import pytest

from gpud.testing.node import Node, until
from gpud.testing.talk import Talk, stats_of
from tests.gpu.conftest import Gpu, framework

pytestmark = pytest.mark.gpu

WINDOW = 4


@pytest.fixture
def kind(gpu: Gpu) -> str:
    """PyTorch where it can be; else numba."""
    if gpu.simulated:
        gpu.needs("numba_cuda")
        return "numba"
    gpu.needs("torch")
    return "eager"


def launches(node: Node, name: str) -> int:
    return stats_of(node, name).launches


def start(gpu: Gpu, node: Node, kind: str) -> tuple[Talk, Talk]:
    """High, idle, and low, at work for minutes."""
    high = framework(gpu, node, kind, "high", "online")
    low = framework(gpu, node, kind, "low", "batch")
    before = launches(node, "low")
    low.say("spin", seconds=600)
    until(lambda: launches(node, "low") > before + 100, 30, "low computes")
    return high, low


def is_held(node: Node) -> bool:
    with node.client() as client:
        return any(job.name == "low" and job.state == "held" for job in client.ps())


def test_low_is_held_and_goes_on(gpu: Gpu, kind: str) -> None:
    """While high works low launches nothing, and high is right; then low goes on."""
    policy = f"preempt-mix(quiet = 200ms, window = {WINDOW}, patience = unlimited)"
    with gpu.node(policy) as node:
        high, low = start(gpu, node, kind)
        high.say("spin", seconds=3)
        until(lambda: is_held(node), 10, "low is held")
        stopped = launches(node, "low")
        assert high.hear(60)["launches"] > 100
        assert launches(node, "low") <= stopped + WINDOW
        until(lambda: launches(node, "low") > stopped + 100, 30, "low goes on")
        assert high.ask("right")["right"]
        assert low.process.poll() is None


def test_low_outlives_high(gpu: Gpu, kind: str) -> None:
    policy = f"preempt-mix(quiet = 200ms, window = {WINDOW}, patience = unlimited)"
    with gpu.node(policy) as node:
        high, _ = start(gpu, node, kind)
        high.say("spin", seconds=600)
        until(lambda: is_held(node), 10, "low is held")
        stopped = launches(node, "low")
        os.kill(stats_of(node, "high").job.pids[0], signal.SIGKILL)
        until(lambda: launches(node, "low") > stopped + 100, 30, "low goes on after high was killed")
        assert high.process.wait(20) == 128 + signal.SIGKILL


def test_nothing_is_held_without_a_daemon(gpu: Gpu, kind: str) -> None:
    """`gpud stop` opens every gate; both compute, and both are right."""
    with gpu.node("preempt-mix(quiet = 200ms, patience = unlimited)") as node:
        high = framework(gpu, node, kind, "high", "online")
        low = framework(gpu, node, kind, "low", "batch")
        high.say("spin", seconds=8)
        low.say("spin", seconds=2)
        until(lambda: is_held(node), 10, "low is held")
        with node.client() as client:
            client.stop()
        assert low.hear(60)["launches"] > 0
        assert high.hear(60)["launches"] > 0
        assert high.ask("right")["right"]
        assert low.ask("right")["right"]
        assert (high.end(), low.end()) == (0, 0)
