"""PyTorch's allocators under the hook: memory is right, and gpud's account of it is."""

import pytest

from gpud.testing.node import Node, until
from gpud.testing.talk import Talk, stats_of
from tests.gpu.conftest import PROGRAMS, START_S, Gpu

pytestmark = pytest.mark.gpu

MIB = 1 << 20
GROWN_MIB = 512
SETTINGS = {
    "native": ("", "native"),
    "expandable_segments": ("expandable_segments:True", "native"),
    "cudaMallocAsync": ("backend:cudaMallocAsync", "cudaMallocAsync"),
}


def used(node: Node) -> int:
    return stats_of(node, "it").job.used_bytes


@pytest.mark.parametrize("setting", SETTINGS)
def test_memory(gpu: Gpu, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.needs("torch")
    text, backend = SETTINGS[setting]
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    if text:
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", text)
    with gpu.node() as node:
        job = Talk(node, [gpu.python, PROGRAMS / "allocators.py"], labels={"tier": "online"})
        first = job.ask("grow", within=START_S, mib=1)
        assert first["backend"] == backend
        before = used(node)
        grown = job.ask("grow", mib=GROWN_MIB)
        assert grown["bytes"] >= first["bytes"] + GROWN_MIB * MIB
        until(lambda: used(node) >= before + GROWN_MIB * MIB, 5, f"{GROWN_MIB} MiB more are counted, not {used(node)}")
        assert used(node) <= before + (GROWN_MIB + 128) * MIB
        churned = job.ask("churn", rounds=400)
        assert churned["wrong"] == 0
        assert used(node) >= GROWN_MIB * MIB
        assert job.ask("shrink")["bytes"] == 0
        until(lambda: used(node) <= before + 64 * MIB, 5, f"what was given back is counted: {used(node)}")
        counted = stats_of(node, "it")
        assert (counted.unfinished, counted.hook_errors) == (0, 0)
        assert job.end() == 0
