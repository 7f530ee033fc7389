"""Programs by nvcc: NVIDIA's CUDA runtime, linked statically and shared, with both kinds of default stream."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gpud.testing.talk import Talk, stats_of
from tests.gpu.conftest import PROGRAMS, START_S, Gpu

pytestmark = pytest.mark.gpu

BUILDS = {
    "legacy": [],
    "per-thread": ["--default-stream=per-thread"],
    "shared": ["-cudart=shared"],
}


@pytest.mark.parametrize("build", BUILDS)
def test_every_launch_is_counted(gpu: Gpu, tmp_path: Path, build: str) -> None:
    if gpu.simulated:
        pytest.skip("NVIDIA's CUDA runtime does not run on the simulated driver")
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    binary = tmp_path / "runtime"
    library = Path(nvcc).resolve().parent.parent / "lib64"
    options = [*BUILDS[build], "-O1", f"-Xlinker=-rpath,{library}"]
    subprocess.run([nvcc, *options, str(PROGRAMS / "runtime.cu"), "-o", str(binary)], check=True, timeout=120)
    with gpu.node() as node:
        job = Talk(node, [binary], labels={"tier": "online"})
        said = job.hear(START_S)
        counted = stats_of(node, "it")
        assert said["wrong"] == 0, job.said()
        assert counted.launches == said["launches"]
        assert (counted.launches_failed, counted.unfinished, counted.hook_errors) == (0, 0, 0)
        assert job.end() == 0
