"""Budgets of host memory."""

import math

from gpud.memory.tiers import LARGEST, HostTier


def test_nobody_is_given_more_than_there_can_be() -> None:
    tier = HostTier(budget=math.inf)
    assert tier.refuses(LARGEST) == ""
    assert "more than any host has" in tier.refuses(LARGEST + 1)
