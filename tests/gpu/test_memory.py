"""Jobs whose memory does not fit into the device together take turns on it, unmodified, and lose nothing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.gpu.swap import fill_up
from bench.harness import NATIVE, program
from bench.holders import Holder, swapping
from gpud.native import sim_dir
from gpud.testing.node import Node, until
from gpud.testing.talk import Talk
from tests.gpu.conftest import PROGRAMS, ROOT, START_S, Gpu

pytestmark = pytest.mark.gpu

SMALL = """base = "test-small"
[device]
memory_gib = 0.5
[timing]
h2d_gbs = 25
d2h_gbs = 25
"""
"""The simulated device: all that is moved on it, this machine's processors copy."""
TURNS = {"max_hold": "2s", "min_hold": "0s", "idle_release": "50ms", "grace": "20s"}


@pytest.fixture
def node(gpu: Gpu, tmp_path: Path) -> Iterator[Node]:
    """A node on which memory leaves for the host by need."""
    policies = tmp_path / "policies"
    policies.mkdir()
    for name, text in swapping(host="1TiB", keep="32MiB" if gpu.simulated else "1GiB", **TURNS).items():
        (policies / name).write_text(text)
    profile = None
    if gpu.simulated:
        shutil.copy(sim_dir() / "profiles" / "test-small.toml", tmp_path)
        (tmp_path / "small.toml").write_text(SMALL)
        profile = str(tmp_path / "small.toml")
    environment = {"GPUD_OPTIONAL": "1"} | ({"GPUD_SIM_PYTHON": sys.executable} if gpu.simulated else {})
    with Node(profile=profile, policy="bench", policies=policies, environment=environment) as node:
        yield node


def host_bytes(node: Node) -> int:
    """Memory of jobs that is in host memory now."""
    with node.client() as client:
        return sum(memory.host for job in client.ps() for memory in job.memory)


def total_bytes(node: Node) -> int:
    with node.client() as client:
        return client.status().devices[0].total_bytes


def needs_host(node: Node, percent: int) -> None:
    """Skips where the machine has no room for so much of the device's memory."""
    have = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    need = total_bytes(node) * percent // 100
    if need * 1.2 > have:
        pytest.skip(f"{need >> 30} GiB must go to host memory, which has {have >> 30} GiB free")


@pytest.mark.parametrize("allocator", ["", "expandable_segments:True"], ids=["own", "expandable_segments"])
def test_two_jobs_of_sixty_percent_take_turns(gpu: Gpu, node: Node, allocator: str) -> None:
    """`allocator`: PyTorch's; expandable segments are memory by handles, mapped by PyTorch itself."""
    kind = "numba" if gpu.simulated else "eager"
    gpu.needs("numba_cuda" if gpu.simulated and not allocator else "torch")
    if allocator:
        node.environment["PYTORCH_CUDA_ALLOC_CONF"] = allocator
    needs_host(node, 20)
    jobs = [Talk(node, [gpu.python, PROGRAMS / "large_jobs.py", kind], name=name) for name in ("one", "two")]
    for job in jobs:
        held = job.ask("hold", within=START_S, percent=60)
        assert held["mib"] >= held["total_mib"] / 2
    until(lambda: host_bytes(node) > 0, 30, "what does not fit is in host memory")
    for job in jobs:
        job.say("spin", seconds=6)
    assert all(job.hear(120)["rounds"] > 0 for job in jobs)
    assert all(job.ask("right", within=120)["right"] for job in jobs)
    assert [job.end() for job in jobs] == [0, 0]


@pytest.mark.parametrize("late", [(), ("--late",)], ids=["loaded first", "loaded late"])
def test_two_unmodified_numba_jobs_of_eighty_percent(gpu: Gpu, node: Node, late: tuple[str, ...]) -> None:
    """`late`: the driver needs memory of its own, for a kernel's module, when the device is full of theirs."""
    gpu.needs("numba_cuda")
    needs_host(node, 60)
    command = [gpu.python, ROOT / "examples" / "large.py", "--percent", "80", "--rounds", "2", *late]
    jobs = [node.run([*command, "--seed", str(seed)], stderr=subprocess.STDOUT) for seed in (1, 2)]
    said = [job.communicate(timeout=140)[0] for job in jobs]
    assert [text.splitlines()[-1:] for text in said] == [["right"], ["right"]], said
    assert [job.returncode for job in jobs] == [0, 0]


def test_a_graph_that_was_captured_before_is_replayed_after_a_swap(node: Node) -> None:
    """Its kernels have the addresses in them: what comes in must be where it was."""
    with program(NATIVE / "memory.c") as binary:
        size = fill_up(node, binary, 2048) * 6 // 10 // 32 * 32
        one, two = (Holder(node, binary, size, 32, seed) for seed in (1, 2))
        one.ask("graph", "graphed")
        for _ in range(3):
            two.ask("turn", "turn")
            assert host_bytes(node) > 0
            one.ask("graph", "graphed")
        assert [holder.ask("check", "checked") for holder in (one, two)] == [[0], [0]]
        for holder in (one, two):
            holder.finish()
