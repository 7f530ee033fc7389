"""Lags, turns and what peers carry of them."""

import pytest

from gpud.model.ids import JobId
from gpud.model.levels import (
    Division,
    Pool,
    ShareUnit,
)
from gpud.model.units import MILLISECOND
from gpud.policies.simulate.gate_words import TURN_ASKS, TURN_HAS
from gpud.testing.divided_device import DividedDevice
from tests.hooks.divided import (
    PERIOD,
    WHOLE,
    client,
    step,
    tenant,
    two,
)


def test_lags_of_those_who_ask_add_up_to_nothing() -> None:
    device = DividedDevice(two())
    for n in (1, 2):
        device.presence(n).turn = TURN_ASKS
    for _ in range(10):
        device.presence(1).spent_ns += 4 * MILLISECOND
        device.presence(2).spent_ns += 500_000
        step(device)
    assert device.lag(1) == device.lag(2, 1) < 0 < device.lag(2) == device.lag(1, 2)
    assert abs(device.lag(1) + device.lag(2)) < 10


def test_who_does_not_ask_saves_up_a_period_at_most() -> None:
    device = DividedDevice(two())
    device.presence(1).active, device.presence(1).turn = 1, TURN_HAS
    for _ in range(100):
        device.presence(1).spent_ns += 5 * MILLISECOND
        step(device)
    assert device.lag(1, 2) == PERIOD
    assert abs(device.lag(1)) < 5 * MILLISECOND  # alone, it owes nobody


def test_turns_get_longer_the_more_ask() -> None:
    jobs = range(1, 6)
    device = DividedDevice(
        Division(
            tenants=tuple(tenant(n, client(n)) for n in jobs),
            units=tuple(ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(n),)) for n in jobs),
            pools=(Pool(period_ns=PERIOD, open_ppm=WHOLE),),
        )
    )
    found = []
    for n in jobs:
        device.presence(n).turn = TURN_ASKS
        step(device)
        found.append(device.words(1).share_turn_ns)
    assert found[:4] == [PERIOD // 2, PERIOD // 2, PERIOD - PERIOD // 3, PERIOD - PERIOD // 4]


def test_rates_follow_who_is_active() -> None:
    device = DividedDevice(two())
    device.presence(1).active = 1
    step(device)
    assert [device.words(n).share_rate_ppm for n in (1, 2)] == [WHOLE, WHOLE // 2]
    device.presence(2).active = 1
    step(device)
    assert [device.words(n).share_rate_ppm for n in (1, 2)] == [WHOLE // 2, WHOLE // 2]


@pytest.mark.parametrize("full", [0, 1, 2**63, 2**64 - 1])
def test_only_who_is_full_now_is_hungry(full: int) -> None:
    """In a unit, one that uses little is left little; when it says it was full may be nonsense."""
    units = (ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(1), JobId(2))),)
    device = DividedDevice(two(units=units))
    for _ in range(100):
        for n in (1, 2):
            device.presence(n).active, device.presence(n).turn = 1, TURN_HAS
        device.presence(1).full_ns = full if full != 1 else device.now
        device.presence(1).spent_ns += 250_000
        device.presence(2).waiting = 1
        device.presence(2).spent_ns += 4 * MILLISECOND
        step(device)
    part = device.words(1).share_rate_ppm
    assert part == 500_000 if full == 1 else part < 100_000


def test_a_tenant_that_changes_its_unit_keeps_its_lag() -> None:
    device = DividedDevice(two())
    for n in (1, 2):
        device.presence(n).turn = TURN_ASKS
    device.presence(1).spent_ns = 8 * MILLISECOND
    step(device)
    before = device.lag(1) - device.lag(2)
    heavier = (ShareUnit(pool=0, fixed_ppm=None, weight=9, members=(JobId(1),)), two().units[1])
    device.divide(two(units=heavier))
    step(device, 0)
    assert abs((device.lag(1) - device.lag(2)) - before) <= 20
    assert [device.words(n).share_rate_ppm for n in (1, 2)] == [900_000, 100_000]
    device.divide(two(units=(two().units[1],)))
    assert device.words(1).share_rate_ppm == 0
    assert device.words(2).peers[0].share_rate_ppm == 0


def test_processes_of_one_peer_carry_the_same_level() -> None:
    tenants = (tenant(1, client(1, 2, 3)), tenant(2, client(2, 1, 3), client(3, 1, 2)))
    units = tuple(ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(job),)) for job in (1, 2))
    device = DividedDevice(Division(tenants=tenants, units=units, pools=(Pool(period_ns=PERIOD, open_ppm=WHOLE),)))
    device.presence(2).spent_ns, device.presence(3).spent_ns = MILLISECOND, 2 * MILLISECOND
    step(device)
    assert device.lag(1, 2) == device.lag(1, 3) == device.lag(2) == device.lag(3)
