"""Two unmodified jobs of 80 % of the device's memory each, by turns."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness import own_policies
from bench.holders import MIB, moved, swapping, whole_log
from gpud.native import sim_dir
from gpud.testing.node import Node

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[2] / "examples" / "large.py"


def test_both_end_and_both_are_right(tmp_path: Path) -> None:
    """That their memory does not fit is told by the first line; that it was away and came back, by the device log."""
    pytest.importorskip("numba_cuda")
    shutil.copy(sim_dir() / "profiles" / "test-small.toml", tmp_path)
    (tmp_path / "small.toml").write_text('base = "test-small"\n[device]\nmemory_gib = 0.25\n')
    variables = {"GPUD_SIM_PYTHON": sys.executable}
    policy = swapping(keep="16MiB", idle_release="50ms", max_hold="2s", grace="20s")
    with (
        own_policies(policy) as policies,
        Node(profile=str(tmp_path / "small.toml"), policy="bench", policies=policies, environment=variables) as node,
    ):
        command = [sys.executable, EXAMPLE, "--percent", "80", "--pause", "0.2"]
        rounds = {"1": "60", "2": "2"}  # the first one goes on after the second one has had the device for itself
        jobs = [
            node.run([*command, "--seed", seed, "--rounds", count], stderr=subprocess.STDOUT)
            for seed, count in rounds.items()
        ]
        said = [job.communicate(timeout=120)[0].splitlines() for job in jobs]
        assert [lines[-1] for lines in said] == ["right", "right"], said
        sizes = [next(line for line in lines if " of " in line).split() for lines in said]
        assert all(int(mib) * 2 > int(total) for mib, _, total, _ in sizes)
        assert [job.returncode for job in jobs] == [0, 0]
        brought_in = moved(copy for copy in whole_log(node).copies if copy.direction == "h2d" and copy.size >= MIB)
    assert brought_in > 0, "they copy nothing to the device themselves"
