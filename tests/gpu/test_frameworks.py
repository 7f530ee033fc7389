"""Each framework under the hook: every launch is counted once, held when it must be, and computed right."""

import subprocess

import pytest

from gpud.testing.node import Node
from gpud.testing.talk import Talk, stats_of
from tests.gpu.conftest import Gpu, framework

pytestmark = pytest.mark.gpu

KINDS = {
    "eager": ("torch",),
    "graphs": ("torch",),
    "compile": ("torch", "triton"),
    "compile-reduce-overhead": ("torch", "triton"),
    "cupy": ("cupy",),
    "triton": ("torch", "triton"),
    "numba": ("numba_cuda",),
}
WORK, WORK_BESIDE = 2000, 400


def counted(node: Node, job: Talk, work: int) -> tuple[int, int | None]:
    """How many launches the daemon counts of so much work, and how many they are; None: the framework alone knows."""
    before = stats_of(node, "it").launches
    made = job.ask("work", within=120, count=work)["launches"]
    return stats_of(node, "it").launches - before, made


@pytest.mark.parametrize("kind", KINDS)
def test_open(gpu: Gpu, kind: str) -> None:
    """As high, which nothing holds: as many launches as the program made."""
    gpu.needs(*KINDS[kind])
    with gpu.node() as node:
        job = framework(gpu, node, kind, tier="online")
        first, made = counted(node, job, WORK)
        again, _ = counted(node, job, WORK)
        assert first == made if made is not None else first >= WORK
        assert again == first
        after = stats_of(node, "it")
        assert (after.unfinished, after.held, after.hook_errors) == (0, 0, 0)
        assert job.ask("right")["right"]
        assert job.ask("check")["right"]
        assert job.end() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_beside_high(gpu: Gpu, counter: list[str], kind: str) -> None:
    """Below a high job that comes and goes: held again and again, counted as often as launched, and right."""
    gpu.needs(*KINDS[kind])
    with gpu.node("preempt-mix(quiet = 1ms, window = 4, patience = unlimited)") as node:
        job = framework(gpu, node, kind)
        command = [*counter, "20", "0", "10000"]
        labels, options = {"tier": "online"}, ("--name", "high")
        high = node.run(command, labels=labels, options=options, stdout=subprocess.DEVNULL)
        stats_of(node, "high")
        before = stats_of(node, "it").held
        found, made = counted(node, job, WORK_BESIDE)
        assert found == made if made is not None else found >= WORK_BESIDE
        after = stats_of(node, "it")
        assert after.held > before, "nothing was held: is the gate on?"
        assert (after.unfinished, after.hook_errors) == (0, 0)
        assert high.poll() is None, "high computed something wrong"
        assert job.ask("right")["right"]
        assert job.ask("check")["right"]
        assert job.end() == 0
