"""Rates of launches, blocks and copies among those who want them."""

from gpud.model.ids import ClientId
from gpud.model.levels import (
    TotalKind,
)
from gpud.model.units import MILLISECOND, SECOND
from tests.hooks.divided import capped, client, counts, rates, step, tenant, total


def test_rates_are_divided_among_clients_of_active_tenants() -> None:
    groups = (
        total(TotalKind.LAUNCHES, 1_000_000, 1, 2, window_ns=10 * MILLISECOND),
        total(TotalKind.BLOCKS, 8_000_000, 1, window_ns=10 * MILLISECOND),
        total(TotalKind.COPIES, 2**30, 2, window_ns=10 * MILLISECOND),
    )
    tenants = (
        tenant(1, client(1, counted=True), client(2, counted=True)),
        tenant(2, client(3, counted=True)),
        tenant(3, client(4)),
    )
    device = capped(*tenants, totals=groups)
    unlimited = 2**64 - 1
    for _ in range(40):
        for n in (1, 2, 3, 4):
            device.presence(n).active = 1
            counts(device, n, 100, 1000, 2**24)  # 20,000 a second: all ask for more than there is
        step(device)
    assert rates(device, 1) == rates(device, 2) == (250_000, 4_000_000, unlimited)
    assert rates(device, 3) == (500_000, unlimited, 2**30)
    assert rates(device, 4) == (unlimited,) * 3
    before = device.words(1).generation
    step(device)
    assert device.words(1).generation == before  # the same division is not written again
    for _ in range(120):  # client 2 does nothing any more, tenant 2 only a little
        device.presence(2).active = 0
        counts(device, 1, 100, 1000)
        counts(device, 3, 1)  # 200 a second
        step(device)
    assert 690_000 <= rates(device, 1)[0] <= 760_000
    assert rates(device, 1)[0] + rates(device, 3)[0] == 1_000_000
    assert rates(device, 1)[1] == 8_000_000
    assert device.words(1).generation > before


def test_who_uses_all_that_it_has_gets_more_at_once() -> None:
    """Not step by step, by what it used before."""
    device = capped(
        *(tenant(n, client(n, counted=True)) for n in (1, 2)),
        totals=(total(TotalKind.LAUNCHES, 100_000_000, 1, 2),),
    )
    for greedy in (False, True):
        for _ in range(80):
            for n in (1, 2):
                device.presence(n).active = 1
            counts(device, 1, 5000)
            counts(device, 2, min(rates(device, 2)[0] * 5 // 1_000_000, 5000) if greedy else 1)  # as it may
            step(device)
            if greedy and rates(device, 2)[0] == 50_000_000:
                break
        assert rates(device, 2)[0] == 50_000_000 or not greedy
        assert rates(device, 2)[0] < 30_000_000 or greedy
    assert device.now - 100 * SECOND <= 80 * 5 * MILLISECOND + 250 * MILLISECOND


def test_counts_that_go_back_or_are_huge_say_nothing() -> None:
    device = capped(
        tenant(1, client(1, counted=True)),
        tenant(2, client(2, counted=True)),
        totals=(total(TotalKind.LAUNCHES, 1_000_000, 1, 2),),
    )
    for n in (1, 2):
        device.presence(n).active = 1
    for word in (2**64 - 1, 5, 2**63, 0, 77):
        device.processes[ClientId(1)].activity.device[0].slots[0].entered = word
        counts(device, 2, 100)
        step(device)
        assert rates(device, 1)[0] + rates(device, 2)[0] <= 1_000_000
        assert rates(device, 2)[0] >= 333_333
