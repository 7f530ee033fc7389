"""Whoever is beyond a client's table, in three words."""

import pytest

from gpud.model.ids import ClientId, JobId
from gpud.model.levels import (
    DividedClient,
    Division,
    Motion,
    Pool,
    ShareUnit,
)
from gpud.model.units import MILLISECOND
from gpud.policies.simulate.gate_words import TURN_ASKS, TURN_HAS
from gpud.testing.divided_device import DividedDevice
from tests.hooks.divided import (
    NOBODY_LAG,
    PERIOD,
    WHOLE,
    capped,
    client,
    step,
    tenant,
)


def test_whoever_is_beyond_the_table_is_summed_up() -> None:
    tenants = tuple(tenant(n, client(n, *([2] if n == 1 else []))) for n in (1, 2, 3, 4))
    units = tuple(ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(job),)) for job in (1, 2, 3, 4))
    device = DividedDevice(Division(tenants=tenants, units=units, pools=(Pool(period_ns=PERIOD, open_ppm=WHOLE),)))
    words = device.words(1)
    step(device)
    assert (words.others_lag_ns, words.others_edges) == (NOBODY_LAG, 0)
    device.presence(2).active, device.presence(2).turn = 1, TURN_ASKS
    device.presence(1).active, device.presence(1).turn = 1, TURN_HAS
    step(device)
    assert (words.others_lag_ns, words.others_edges) == (NOBODY_LAG, 0)  # it is in the table
    device.presence(3).active, device.presence(3).turn = 1, TURN_HAS
    device.presence(3).spent_ns = MILLISECOND
    step(device)
    assert words.others_lag_ns == pytest.approx(device.lag(3), abs=2)
    assert words.others_edges == 1
    device.presence(4).turn = TURN_ASKS
    step(device)
    assert words.others_lag_ns == pytest.approx(max(device.lag(3), device.lag(4)), abs=2)
    device.presence(3).active = device.presence(3).turn = device.presence(4).turn = 0
    device.presence(3).edges += 2  # it was active in between
    step(device)
    assert (words.others_lag_ns, words.others_edges) == (NOBODY_LAG, 3)
    step(device)
    assert words.others_edges == 3


def test_without_turns_the_others_lag_only_says_that_somebody_is_there() -> None:
    device = capped(tenant(1, client(1), soft=300_000), tenant(2, client(2)), tenant(3, client(3), client(4)))
    step(device)
    assert device.words(1).others_lag_ns == NOBODY_LAG
    device.presence(2).active = 1
    step(device)
    assert device.words(1).others_lag_ns == 0
    assert device.words(2).others_lag_ns == NOBODY_LAG
    # Another process of the own tenant is nobody else.
    device.presence(2).active = 0
    device.presence(4).active = 1
    step(device)
    step(device)
    assert (device.words(3).others_lag_ns, device.words(1).others_lag_ns) == (NOBODY_LAG, 0)


def test_higher_ranks_beyond_the_table_hold_until_they_have_been_idle_long_enough() -> None:
    low = DividedClient(client=ClientId(1), rank=1, looks=True, resume_after_ns=7 * MILLISECOND, peers=(ClientId(2),))
    lower = DividedClient(client=ClientId(4), rank=2)
    highs = [DividedClient(client=ClientId(n), rank=0) for n in (2, 3)]
    device = capped(tenant(1, low), *(tenant(n, high) for n, high in zip((2, 3), highs, strict=True)), tenant(4, lower))
    assert device.words(1).others_active == 0
    device.presence(2).active = device.presence(4).active = 1
    step(device)
    assert device.words(1).others_active == 0  # one is in the table, the other ranks below
    device.presence(2).active = device.presence(4).active = 0
    device.presence(3).active = 1
    assert step(device) is Motion.BUSY
    assert device.words(1).others_active == 1
    device.presence(3).active, device.presence(3).idle_since_ns = 0, device.now
    assert step(device) is Motion.BUSY
    assert device.words(1).others_active == 1
    step(device)
    assert device.words(1).others_active == 0
    for _ in range(30):
        motion = step(device)
    assert motion is Motion.SETTLED
