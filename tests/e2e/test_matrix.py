"""The hook's whole matrix under the real daemon, on two simulated devices: what it counts is what ran."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from gpud.cli.sim.devicelog import read_log
from gpud.model.views import JobStats
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

NATIVE = Path(__file__).parents[2] / "hooks-native"
MATRIX = NATIVE / "tests" / "matrix"


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """The program that launches by every entry and every way in; see there."""
    binary = tmp_path / "test_matrix"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}/src", f"-I{NATIVE}/include"]
    source = MATRIX / "test_matrix.c"
    subprocess.run(["cc", *flags, str(source), "-o", str(binary), "-ldl", "-lpthread"], check=True)
    return binary


def test_every_launch_is_counted_once(matrix: Path) -> None:
    with Node(profile="test-small", options=("--sim-devices", "2")) as node:
        command: list[str | Path] = [matrix, MATRIX / "matrix.ptx", "release", "wait"]
        job = node.run(command, labels={"tier": "batch"}, stdin=subprocess.PIPE)
        assert job.stdout
        said = ""
        while "kernels" not in said:
            said = job.stdout.readline()
            assert said, f"the program ended with {job.wait()}"
            print(said, end="")
        figures = {word: int(number) for word, number in re.findall(r"(\w+) (\d+)", said)}

        def stats() -> JobStats:
            with node.client() as client:
                (one,) = client.stats()
                return one

        # What is captured is neither held nor counted: it does not come to the device.
        launched = figures["entered"] - figures["captured"]
        until(
            lambda: stats().launches >= launched, 60, f"the daemon counts {launched} launches, not {stats().launches}"
        )
        counted = stats()
        assert counted.launches == launched
        assert counted.launches_failed == figures["failed"]
        assert (counted.unfinished, counted.hook_errors) == (0, 0)
        job.communicate("", timeout=60)
        assert job.returncode == 0
        node.stop()
        until(lambda: read_log(node.device_log).complete, 60, "the device process ends")
        log = read_log(node.device_log)
        assert Counter(kernel.name for kernel in log.kernels) == {"add_all": figures["kernels"]}
        assert not log.dropped
