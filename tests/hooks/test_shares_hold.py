"""Shares hold: the steps of the levels (C) against a device and hooks that obey what is published, all modelled on one
clock. The figures are of this model."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.engine.shares import most_of, parts
from gpud.model.ids import ClientId, JobId
from gpud.model.levels import DividedClient, DividedTenant, Division, Pool, ShareUnit, Total, TotalKind
from gpud.model.units import MICROSECOND, MILLISECOND, SECOND
from gpud.policies.values import EQUAL, Share
from gpud.testing.divided_device import DividedDevice, Load

PERIOD = 20 * MILLISECOND
GOLD, A, B, SCRATCH = (
    Share("fixed", percent=30),
    Share("weight", weight=2),
    Share("weight", weight=1),
    Share("burst", weight=1, max_percent=50),
)


def division(shares: Sequence[Share], members: Sequence[int] | None = None, most_peers: int = 16) -> Division:
    """A unit for each share, with so many tenants of one process each (one, if nothing is said)."""
    members = members or [1] * len(shares)
    jobs = [JobId(n + 1) for n in range(sum(members))]
    of_unit = [tuple(jobs[sum(members[:i]) : sum(members[: i + 1])]) for i in range(len(shares))]
    found = parts(shares)
    caps = [
        Total(key=(str(i),), kind=TotalKind.COMPUTE, amount=most, window_ns=PERIOD, members=of_unit[i])
        for i, (share, fixed) in enumerate(zip(shares, found.fixed, strict=True))
        if (most := most_of(share, fixed)) is not None
    ]
    return Division(
        tenants=tuple(
            DividedTenant(
                tenant=job,
                clients=(
                    DividedClient(
                        client=ClientId(job), rank=0, peers=tuple(ClientId(o) for o in jobs if o != job)[:most_peers]
                    ),
                ),
            )
            for job in jobs
        ),
        totals=tuple(caps),
        units=tuple(
            ShareUnit(pool=0, fixed_ppm=fixed, weight=weight, members=of_unit[i])
            for i, (fixed, weight) in enumerate(zip(found.fixed, found.weights, strict=True))
        ),
        pools=(Pool(period_ns=PERIOD, open_ppm=found.open),),
    )


def loaded(device: DividedDevice, kernels_us: Sequence[int | None]) -> DividedDevice:
    """Tenants with so long kernels and never enough; None: one that does nothing."""
    for number, kernel in enumerate(kernels_us):
        if kernel is not None:
            device.loads[JobId(number + 1)] = Load(kernel_ns=kernel * MICROSECOND)
    device.run(200 * MILLISECOND)
    return device


def points(shares: dict[JobId, float]) -> list[float]:
    return [round(100 * share, 2) for share in shares.values()]


def error(found: Sequence[float], target: Sequence[float]) -> float:
    """Mean, in points."""
    return sum(abs(a - b) for a, b in zip(found, target, strict=True)) / len(target)


CASES = {
    "equal, 2": ([EQUAL] * 2, [1000, 200], [50, 50]),
    "equal, 3, one idle": ([EQUAL] * 3, [1000, 200, None], [50, 50, 0]),
    "equal, 5": ([EQUAL] * 5, [200, 500, 1000, 2000, 300], [20] * 5),
    "equal, 8": ([EQUAL] * 8, [100, 200, 500, 1000, 2000, 2000, 300, 700], [12.5] * 8),
    "burst, 3 to 1": ([Share("burst", weight=3), Share("burst", weight=1)], [500, 2000], [75, 25]),
    "burst, 9 to 1, long kernels": ([Share("burst", weight=9), Share("burst", weight=1)], [500, 15_000], [90, 10]),
    "burst, capped": ([SCRATCH, Share("burst", weight=3)], [500, 2000], [25, 75]),
    "burst, capped and alone": ([SCRATCH, Share("burst", weight=3)], [500, None], [50, 0]),
    "weight, 2 to 1": ([A, B], [500, 1000], [66.7, 33.3]),
    "weight does not borrow": ([A, B], [500, None], [66.7, 0]),
    "fixed does not borrow": ([GOLD, Share("fixed", percent=20)], [500, 2000], [30, 20]),
    "all four": ([GOLD, A, B, SCRATCH, EQUAL], [500, 1000, 200, 1000, 400], [30, 28, 14, 14, 14]),
    "burst takes what is left": ([GOLD, A, B, SCRATCH], [500, 1000, None, 1000], [30, 35, 0, 35]),
}


@pytest.mark.parametrize("name", CASES)
def test_shares_over_a_second(name: str) -> None:
    shares, kernels, target = CASES[name]
    device = loaded(DividedDevice(division(shares)), kernels)
    found = points(device.run(SECOND))
    assert error(found, target) <= 1, found
    if sum(target) == pytest.approx(100, abs=0.5):
        assert sum(found) >= 97, "the device is not used up"


KINDS = st.one_of(
    st.just(EQUAL),
    st.builds(Share, st.just("fixed"), percent=st.integers(5, 20)),
    st.builds(Share, st.just("weight"), weight=st.integers(1, 4)),
    st.builds(Share, st.just("burst"), weight=st.integers(1, 4)),
)


@settings(max_examples=3)
@given(st.lists(st.tuples(KINDS, st.sampled_from([100, 400, 1000, 2000, 5000])), min_size=2, max_size=5))
def test_any_shares(units: list[tuple[Share, int]]) -> None:
    """Whoever may not borrow has its part to the point; the others divide the rest by weight."""
    shares = [share for share, _ in units]
    found_parts = parts(shares)
    open_ones = sum(w for w, fixed in zip(found_parts.weights, found_parts.fixed, strict=True) if fixed is None)
    kept = sum(fixed or 0 for fixed in found_parts.fixed)
    target = [
        fixed / 10_000 if fixed is not None else (1_000_000 - kept) / 10_000 * weight / open_ones
        for fixed, weight in zip(found_parts.fixed, found_parts.weights, strict=True)
    ]
    device = loaded(DividedDevice(division(shares)), [kernel for _, kernel in units])
    found = points(device.run(SECOND))
    assert error(found, target) <= 1, (found, target)


@pytest.mark.parametrize("kernels", [(200, 500), (2000, 2000), (100, 1000)])
def test_shares_over_a_tenth_of_a_second(kernels: tuple[int, int]) -> None:
    device = loaded(DividedDevice(division([Share("burst", weight=2), Share("burst", weight=1)])), kernels)
    errors = [error(points(device.run(100 * MILLISECOND)), [66.7, 33.3]) for _ in range(10)]
    assert sum(errors) / len(errors) <= 3, errors


def test_lent_time_comes_back_within_the_window_of_who_borrowed_it() -> None:
    device = loaded(DividedDevice(division([Share("burst", weight=4), Share("burst", weight=1)])), [None, 1000])
    assert points(device.run(200 * MILLISECOND))[1] >= 99
    waits = []
    for _ in range(5):
        device.run(37 * MILLISECOND)
        device.loads[JobId(1)] = Load(kernel_ns=500 * MICROSECOND)
        asked = device.now
        while not device.presence(1).spent_ns - device.used(1):
            device.run(50 * MICROSECOND)
        waits.append(device.now - asked)
        device.run(20 * MILLISECOND)
        del device.loads[JobId(1)]
    assert max(waits) <= 3 * MILLISECOND, waits


def test_tenants_of_one_unit_divide_it_equally() -> None:
    shares, members = [EQUAL, EQUAL], [3, 1]
    device = loaded(DividedDevice(division(shares, members)), [200, 1000, 500, 700])
    assert error(points(device.run(SECOND)), [16.7, 16.7, 16.7, 50]) <= 1


def test_what_a_tenant_does_not_use_goes_to_its_unit() -> None:
    device = DividedDevice(division([EQUAL, EQUAL], [2, 1]))
    device.loads[JobId(1)] = Load(kernel_ns=500 * MICROSECOND, work_ns=2 * MILLISECOND, each_ns=20 * MILLISECOND)
    loaded(device, [None, 1000, 1000])
    light, heavy, other = points(device.run(SECOND))
    assert 8 <= light <= 12
    used = light + heavy + other
    assert used >= 95
    assert abs(light + heavy - used / 2) <= 2.5
    assert abs(other - 50) <= 2.5


def test_two_that_use_half_of_the_device_each_do_not_keep_each_other_off_it() -> None:
    """Whoever has the turn and is not full lets others fill in."""
    device = DividedDevice(division([EQUAL, EQUAL]))
    for job in (1, 2):
        device.loads[JobId(job)] = Load(kernel_ns=400 * MICROSECOND, gap_ns=400 * MICROSECOND)
    device.run(200 * MILLISECOND)
    assert sum(points(device.run(SECOND))) >= 90


def test_a_kernel_longer_than_the_period_is_paid_back() -> None:
    device = loaded(DividedDevice(division([Share("burst", weight=4), EQUAL])), [500, 50_000])
    assert error(points(device.run(3 * SECOND)), [80, 20]) <= 2


def test_turns_go_on_without_the_daemon() -> None:
    device = loaded(DividedDevice(division([Share("burst", weight=3), EQUAL])), [500, 1000])
    device.stepping = False
    assert error(points(device.run(SECOND)), [75, 25]) <= 1


def test_a_restart_costs_nobody_its_share() -> None:
    shares = [Share("burst", weight=3), Share("burst", weight=1, max_percent=20)]
    device = loaded(DividedDevice(division(shares)), [500, 1000])
    before = {job: device.used(job) for job in (1, 2)}
    for _ in range(5):
        assert device.divided is not None
        resumed = tuple(device.divided.levels())
        device.stepping = False
        device.run(150 * MILLISECOND)
        device.divide(division(shares), resumed, anew=True)
        device.stepping = True
        device.run(50 * MILLISECOND)
    found = [(device.used(job) - before[job]) / SECOND * 100 for job in (1, 2)]
    assert error(found, [80, 20]) <= 1, found


def test_more_tenants_than_the_table_has_room_for() -> None:
    device = DividedDevice(division([EQUAL] * 6, most_peers=3))
    loaded(device, [500] * 6)
    found = points(device.run(SECOND))
    assert error(found, [16.7] * 6) <= 3, found
    assert sum(found) >= 97
