"""The driver's own entries under the hook, and what gpud shows of the device."""

from pathlib import Path

import pytest

from gpud.testing.node import until
from gpud.testing.talk import Talk, stats_of
from tests.gpu.conftest import PROGRAMS, ROOT, Gpu, compiled

pytestmark = pytest.mark.gpu

NATIVE = ROOT / "hooks-native"


def test_every_entry_is_counted(gpu: Gpu, tmp_path: Path) -> None:
    binary = compiled([PROGRAMS / "entries.c"], tmp_path / "entries", f"-I{NATIVE}/src", f"-I{NATIVE}/include")
    with gpu.node() as node:
        job = Talk(node, [binary, NATIVE / "tests" / "matrix" / "matrix.ptx"], labels={"tier": "batch"})
        said = job.hear(60)
        counted = stats_of(node, "it")
        assert said["wrong"] == 0, job.said()
        assert said["entries"] >= 8
        assert said["checks"] > 100
        assert counted.launches == said["entered"] - said["captured"]
        assert counted.launches_failed == said["failed"]
        assert (counted.unfinished, counted.hook_errors) == (0, 0)
        assert job.end() == 0


def test_the_device_is_shown(gpu: Gpu, counter: list[str]) -> None:
    """With its name and memory by the driver's account; a managed process is no unmanaged one."""
    with gpu.node() as node:
        job = node.run([*counter, "1", "0", "1000"], labels={"tier": "online"}, options=("--name", "it"))
        stats_of(node, "it")
        with node.client() as client:
            status = client.status()
            jobs = client.ps()
        assert status.driver == "ok"
        assert (status.simulated is not None) == gpu.simulated
        (device,) = (device for device in status.devices if device.jobs)
        assert device.uuid.startswith("GPU-")
        assert device.name
        assert device.used_bytes is not None
        assert 0 < device.used_bytes <= device.total_bytes
        assert not set(jobs[0].pids) & {one.pid for one in device.unmanaged}
        assert jobs[0].job_class == "high"
        assert job.poll() is None


def test_a_process_without_the_hook_is_unmanaged(gpu: Gpu, counter: list[str]) -> None:
    with gpu.node() as node:
        managed = node.run([*counter, "1", "0", "1000"], options=("--name", "it"))
        stats_of(node, "it")
        other = node.run([*counter, "1", "0", "1000"], managed=False)

        def unmanaged() -> bool:
            with node.client() as client:
                return other.pid in {one.pid for one in client.unmanaged()}

        until(unmanaged, 20, f"{other.pid} is shown as unmanaged", step=0.2)
        assert managed.poll() is None
