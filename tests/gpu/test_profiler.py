"""A profiler beside the hook: CUPTI subscribes to the same driver, and both see every launch."""

import pytest

from gpud.testing.talk import Talk, stats_of
from tests.gpu.conftest import ROOT, START_S, Gpu

pytestmark = pytest.mark.gpu

JOBS = ROOT / "bench" / "gpu" / "programs" / "torch_jobs.py"
WORK = 1000


def test_both_see_every_launch(gpu: Gpu) -> None:
    gpu.needs("torch")
    with gpu.node() as node:
        job = Talk(node, [gpu.python, JOBS], labels={"tier": "online"})
        job.ask("prepare", within=START_S, kind="tiny")
        before = stats_of(node, "it").launches
        seen = job.ask("profiled", within=120, kind="tiny", count=WORK)
        counted = stats_of(node, "it")
        assert counted.launches - before == WORK
        assert seen["kernels"] == WORK
        assert seen["device_ms"] > WORK / 2 / 1e3
        job.ask("steps", kind="tiny", count=WORK)
        after = stats_of(node, "it")
        assert after.launches - counted.launches == WORK
        assert job.ask("check", kind="tiny")["right"]
        assert (after.unfinished, after.hook_errors) == (0, 0)
        assert job.end() == 0
