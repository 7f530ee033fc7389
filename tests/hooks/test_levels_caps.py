"""Caps: how a level of GPU time moves, of one tenant and of totals."""

from gpud.hooks._pages import lib

from gpud.model.levels import (
    Division,
    TotalKind,
)
from gpud.model.units import MILLISECOND, SECOND
from tests.hooks.divided import WHOLE, capped, client, faults, step, tenant, total


def test_a_cap_begins_with_nothing_saved_and_keeps_a_tenth_of_a_second() -> None:
    device = capped(tenant(1, client(1), hard=400_000))
    assert device.cap(1) == 0
    step(device)
    assert device.cap(1) == 2 * MILLISECOND
    for _ in range(100):
        step(device)
    assert device.cap(1) == 40 * MILLISECOND
    device.now += SECOND  # nobody steps: the reader cuts off
    assert device.cap(1) == 40 * MILLISECOND


def test_one_big_kernel_makes_a_debt_that_is_paid_back_and_capped() -> None:
    device = capped(tenant(1, client(1), hard=500_000))
    device.presence(1).spent_ns = 200 * MILLISECOND
    step(device)
    assert device.cap(1) == -197_500_000
    for _ in range(79):
        step(device)
    assert device.cap(1) == 0
    device.presence(1).spent_ns += 3 * SECOND
    step(device)
    assert device.cap(1) == -SECOND
    assert faults(device) == 1  # nothing can charge three seconds at once


def test_a_tenant_of_several_processes_has_one_level() -> None:
    """Whoever of them reads it, and however many of them find no room in the table."""
    clients = [client(n, *(k for k in range(1, 4) if k != n)) for n in (1, 2, 3)] + [client(4, 1, 2, 3), client(5)]
    device = capped(tenant(1, *clients, hard=WHOLE))
    for _ in range(20):
        step(device)
    for number in range(1, 6):
        device.presence(number).spent_ns = number * MILLISECOND
    step(device, 0)
    levels_seen = {device.cap(number) for number in range(1, 6)}
    assert levels_seen == {100 * MILLISECOND - 15 * MILLISECOND}
    # Between two steps each sees what those in its table charge.
    device.presence(1).spent_ns += 2 * MILLISECOND
    assert [device.cap(number) for number in (1, 2, 3, 4)] == 4 * [83 * MILLISECOND]
    assert device.cap(5) == 85 * MILLISECOND


def test_a_total_is_divided_among_those_who_want_it() -> None:
    device = capped(*(tenant(n, client(n)) for n in (1, 2)), totals=(total(TotalKind.COMPUTE, 400_000, 1, 2),))
    rates = lambda: [device.words(n).cap_rate_ppm for n in (1, 2)]  # noqa: E731
    assert rates() == [400_000, 400_000]  # nobody is there: whoever comes first
    device.presence(1).active = 1
    step(device)
    assert rates() == [400_000, 200_000]
    device.presence(2).active = 1
    step(device)
    assert rates() == [200_000, 200_000]
    device.presence(2).active = 0
    for _ in range(30):
        step(device)
    assert rates() == [400_000, 200_000]


def test_what_one_does_not_use_goes_to_those_who_ask() -> None:
    device = capped(*(tenant(n, client(n)) for n in (1, 2)), totals=(total(TotalKind.COMPUTE, 400_000, 1, 2),))
    for _ in range(100):
        for n in (1, 2):
            device.presence(n).active = 1
        device.presence(1).spent_ns += 250_000  # 5 % of the device
        device.presence(2).spent_ns += 2 * MILLISECOND
        step(device)
    light, heavy = (device.words(n).cap_rate_ppm for n in (1, 2))
    assert light + heavy == 400_000
    assert 50_000 < light < 80_000
    # It asks for more, and has its half again within some steps.
    for _ in range(40):
        device.presence(1).spent_ns += 2 * MILLISECOND
        device.presence(2).spent_ns += 2 * MILLISECOND
        step(device)
    assert abs(device.words(1).cap_rate_ppm - 200_000) < 20_000


def test_two_that_wake_at_once_have_no_more_than_the_total_in_the_long_run() -> None:
    """Each had all of it to begin with; that is paid back."""
    device = capped(*(tenant(n, client(n)) for n in (1, 2)), totals=(total(TotalKind.COMPUTE, 400_000, 1, 2),))
    for _ in range(100):
        step(device)
    assert device.cap(1) + device.cap(2) == 80 * MILLISECOND
    used = [0, 0]
    for _ in range(400):
        for n in (1, 2):
            own = device.presence(n)
            own.active = 1
            now = min(max(round(device.cap(n)), 0), 5 * MILLISECOND)
            own.spent_ns += now
            used[n - 1] += now
        step(device)
    assert sum(used) <= 2 * SECOND * 0.4 + 41 * MILLISECOND
    assert sum(used) >= 2 * SECOND * 0.4 - 45 * MILLISECOND
    assert abs(used[0] - used[1]) <= 10 * MILLISECOND


def test_soft_limits_hold_while_somebody_else_wants_the_device() -> None:
    device = capped(tenant(1, client(1, 2), soft=300_000), tenant(2, client(2, 1)))
    for _ in range(100):
        device.presence(1).active = 1
        device.presence(1).spent_ns += 5 * MILLISECOND
        step(device)
    assert device.words(1).cap_flags == lib.GPUD_CAP_SOFT
    assert -5 * MILLISECOND <= device.cap(1) <= 0  # what nobody else wanted is not owed
    device.presence(2).active = 1
    for _ in range(100):
        device.presence(1).spent_ns += 5 * MILLISECOND
        step(device)
    assert device.cap(1) < -300 * MILLISECOND


def test_a_soft_limit_below_a_hard_one() -> None:
    """One cap cannot be both: the daemon goes by who wants the device."""
    device = capped(tenant(1, client(1, 2), soft=300_000, hard=500_000), tenant(2, client(2, 1)))
    step(device)
    assert (device.words(1).cap_rate_ppm, device.words(1).cap_flags) == (500_000, 0)
    device.presence(2).active = 1
    step(device)
    assert (device.words(1).cap_rate_ppm, device.words(1).cap_flags) == (300_000, 0)


def test_what_a_unit_has_overdrawn_is_not_forgotten_when_its_members_change() -> None:
    both = total(TotalKind.COMPUTE, 400_000, 1, 2)

    def rate_after(divisions: int) -> int:
        device = capped(*(tenant(n, client(n)) for n in (1, 2)), totals=(both,))
        for _ in range(100):
            step(device)
        for n in (1, 2):
            device.presence(n).active = 1
            device.presence(n).spent_ns += 40 * MILLISECOND  # each had all of it
        step(device)
        for _ in range(divisions):
            device.divide(Division(tenants=tuple(tenant(n, client(n)) for n in (1, 2)), totals=(both,)))
        return int(device.words(1).cap_rate_ppm)

    assert rate_after(0) == rate_after(1) < 50_000


def test_a_cap_that_is_lifted_and_comes_back_begins_anew() -> None:
    device = capped(tenant(1, client(1), hard=500_000))
    for _ in range(100):
        step(device)
    device.divide(Division(tenants=(tenant(1, client(1)),)))
    assert device.cap(1) > 1000 * SECOND
    device.divide(Division(tenants=(tenant(1, client(1), hard=500_000),)))
    assert device.cap(1) == 0
