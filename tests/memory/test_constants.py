"""Words that Python and C share."""

from gpud.hooks._pages import lib

from gpud.engine import memory_line
from gpud.model import knobs


def test_they_are_those_of_the_headers() -> None:
    for name in ("LIMIT", "DEVICE", "TIME", "HOST"):
        assert getattr(memory_line, f"NO_{name}") == getattr(lib, f"GPUD_MEMORY_NO_{name}")
    assert memory_line.YES == 0
    assert (knobs.MEMORY_SWAP, knobs.MEMORY_WAIT) == (lib.GPUD_MEMORY_SWAP, lib.GPUD_MEMORY_WAIT)
