"""policies/time-share.gpol as it is shipped, with its reserve of 512 MiB: two programs of three quarters of the device
each, told nothing, take turns on it and lose nothing. Also where the driver refuses to page-lock the host memory."""

import subprocess
from pathlib import Path

import pytest

from gpud.native import sim_dir
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

WITHIN = 120
"""Seconds. Nothing here is about time; this is for a machine that does much else."""
MEMORY_MIB = 2560
MIB = MEMORY_MIB * 3 // 4
ROUNDS = 2
PAUSE_US = 700_000
"""Between rounds: longer than the policy's idle_release, so that the other one gets the device."""
SMALL = f"""base = "test-small"
[device]
memory_gib = {MEMORY_MIB / 1024}
[timing]
h2d_gbs = 25
d2h_gbs = 25
"""
UNPINNED = "GPUD_SIM_FAULTS=cuMemHostRegister: fail OUT_OF_MEMORY"


def in_host(node: Node) -> set[int]:
    """Jobs with memory in host memory now."""
    with node.client() as client:
        return {job.id for job in client.ps() if any(memory.host for memory in job.memory)}


@pytest.mark.parametrize("refused", [False, True], ids=["as it is", "no page-locked memory"])
def test_two_programs_of_three_quarters_take_turns_and_lose_nothing(
    tmp_path: Path, large: list[str], refused: bool
) -> None:
    (tmp_path / "test-small.toml").write_text((sim_dir() / "profiles" / "test-small.toml").read_text())
    (tmp_path / "small.toml").write_text(SMALL)
    with Node(profile=str(tmp_path / "small.toml"), policy="time-share(turn = 1s)") as node:
        jobs, errors = [], [tmp_path / "0.err", tmp_path / "1.err"]
        for number, path in enumerate(errors):
            command = ["env", UNPINNED, *large] if refused else large
            with path.open("w") as file:
                jobs.append(
                    node.run(
                        [*command, str(MIB), str(number + 1), str(ROUNDS), str(PAUSE_US)],
                        stdout=subprocess.PIPE,
                        stderr=file,
                    )
                )
        seen: set[int] = set()

        def one_was_out() -> bool:
            seen.update(in_host(node))
            return bool(seen) or all(job.poll() is not None for job in jobs)

        until(one_was_out, WITHIN, "memory of one is out")
        said = [job.communicate(timeout=WITHIN)[0].splitlines() for job in jobs]
        assert [lines[-1:] for lines in said] == [["right"], ["right"]], [path.read_text() for path in errors]
        assert [job.returncode for job in jobs] == [0, 0]
        assert seen, "they do not fit together"
        told = any("page-locks no memory for what leaves the device" in path.read_text() for path in errors)
        assert told == refused, "whose memory has left is told that it goes slowly"
