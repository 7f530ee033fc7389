"""What `gpud ps` and `gpud why` say of a job's device memory."""

import pytest
from attrs import evolve

from gpud.cli.memory import brief, lines
from gpud.model.views import MemoryView
from tests.cli.test_verbs import JOB

MIB = 1 << 20
PLAIN = MemoryView(device=0, used=5 * MIB, reserved=5 * MIB, limit=None, overhead=None)
MOVES = evolve(PLAIN, resident=3 * MIB, host=2 * MIB)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (PLAIN, "5 MiB"),
        (evolve(PLAIN, pinned=5 * MIB), "5 MiB (5 MiB pinned)"),
        (MOVES, "5 MiB (2 MiB in host memory)"),
        (evolve(MOVES, host=0, pinned=4 * MIB), "5 MiB (4 MiB pinned)"),
        (evolve(MOVES, host=0, limit=9 * MIB, over=True, pinned=4 * MIB), "5 MiB of 9 MiB (over, 4 MiB pinned)"),
        (evolve(MOVES, unpinned=2 * MIB), "5 MiB (2 MiB in host memory, slow copies)"),
        (evolve(MOVES, lost=2 * MIB), "5 MiB (2 MiB in host memory, 2 MiB lost)"),
    ],
)
def test_in_a_word(view: MemoryView, text: str) -> None:
    assert brief(evolve(JOB, used_bytes=view.used, memory=(view,))) == text


def test_why_memory_stays_and_what_is_wrong_with_it() -> None:
    assert lines(PLAIN) == ["memory: 5 MiB used"]
    assert lines(evolve(PLAIN, pinned=5 * MIB, pinned_why=("arrays",)))[1].endswith("5 MiB cannot (arrays)")
    said = lines(evolve(MOVES, pinned=4 * MIB, pinned_why=("arrays", "graphs"), unpinned=2 * MIB, lost=6 * MIB))
    assert said[1].endswith("4 MiB cannot (arrays, graphs)")
    assert said[2].startswith("2 MiB of host memory are not page-locked")
    assert said[3].startswith("6 MiB of it have changed in the host's memory and are lost")
    assert len(said) == 4
