"""How finely simulated time passes."""

GRAIN_NS = 1_000_000
"""Times in tests, and looks at the gate."""
TICK_NS = 5_000_000
"""Looks at rules, and at worlds that move on their own."""


def ceil_to(time_ns: int, grain_ns: int) -> int:
    """The first multiple of the grain that is not earlier."""
    return -(-time_ns // grain_ns) * grain_ns
