"""policies/time-share.gpol as it is shipped, with its reserve of 512 MiB: two programs of two thirds of the device
each, which know nothing of gpud, take turns on it and lose nothing. Also where the driver refuses to page-lock the host
memory."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from gpud.native import sim_dir
from gpud.testing.node import Node, until
from tests.e2e.test_swap import Large

pytestmark = pytest.mark.e2e

WITHIN = 600
"""Seconds."""
MEMORY_MIB = 2048
MIB = MEMORY_MIB * 2 // 3
SMALL = f"""base = "test-small"
[device]
memory_gib = {MEMORY_MIB / 1024}
[timing]
h2d_gbs = 25
d2h_gbs = 25
"""
UNPINNED = "GPUD_SIM_FAULTS=cuMemHostRegister: fail OUT_OF_MEMORY"
_T = TypeVar("_T")


def out(node: Node) -> set[str]:
    """Jobs with memory in host memory now."""
    with node.client() as client:
        return {job.labels["c"] for job in client.ps() if any(memory.host for memory in job.memory)}


class Patient(Large):
    """Who has come in may stay for five times as long as that took, and this machine does much else."""

    within = WITHIN

    def wait(self, condition: Callable[[], _T], what: str) -> _T:
        def found() -> _T | bool:
            return condition() or self.process.poll() is not None

        until(found, WITHIN, f"{self.name} {what}")
        answer = condition()
        assert answer, f"{self.name} ended: {self.errors.read_text()}"
        return answer

    def ends(self) -> None:
        """Once it has found every byte as it should be."""
        self.do("c")
        super().ends()


@pytest.mark.parametrize("refused", [False, True], ids=["as it is", "no page-locked memory"])
def test_two_programs_of_two_thirds_take_turns_and_lose_nothing(
    tmp_path: Path, large: list[str], refused: bool
) -> None:
    (tmp_path / "test-small.toml").write_text((sim_dir() / "profiles" / "test-small.toml").read_text())
    (tmp_path / "small.toml").write_text(SMALL)
    command = ["env", UNPINNED, *large] if refused else large
    with Node(profile=str(tmp_path / "small.toml"), policy="time-share(turn = 1s)") as node:
        one = Patient(node, command, "one", MIB)
        one.filled()
        assert out(node) == set()
        two = Patient(node, command, "two", MIB)
        two.filled()
        assert out(node) == {"one"}, "they do not fit together, and who is there is there as a whole"
        one.do("r")
        assert out(node) == {"two"}
        for job in (one, two):
            job.ends()
        told = ["page-locks no memory for what leaves the device" in job.errors.read_text() for job in (one, two)]
        assert told == [refused, refused], "whose memory has left is told that it goes slowly"
