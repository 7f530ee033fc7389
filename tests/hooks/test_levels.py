"""The steps of the levels in C, on pages in memory: what is divided, how levels rest, and go on over a restart."""

import pytest
from attrs import evolve
from gpud.hooks._pages import ffi, lib
from hypothesis import given
from hypothesis import strategies as st

from gpud.hooks import layout, levels
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.levels import (
    Division,
    Level,
    Motion,
    Pool,
    ShareUnit,
    TotalKind,
)
from gpud.model.units import MILLISECOND, SECOND
from gpud.policies.simulate.gate_words import TURN_ASKS, TURN_HAS
from gpud.testing.divided_device import DividedDevice
from tests.hooks.divided import (
    PERIOD,
    WHOLE,
    capped,
    client,
    level,
    step,
    tenant,
    total,
    two,
)


def test_numbers_that_are_written_down_twice() -> None:
    assert {kind.name: kind.value for kind in TotalKind} == {
        name: getattr(lib, f"GPUD_TOTAL_{name}") for name in ("COMPUTE", "LAUNCHES", "BLOCKS", "COPIES")
    }
    assert len(TotalKind) == lib.GPUD_TOTALS
    assert {motion.name: motion.value for motion in Motion} == {
        name: getattr(lib, f"GPUD_LEVELS_{name}") for name in ("SETTLED", "MOVING", "BUSY")
    }


@given(
    st.integers(0, 10**7),
    st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.integers(0, 10**7)), max_size=12),
)
def test_a_total_is_divided(amount: int, members: list[tuple[int, int]]) -> None:
    idle, content, hungry = 0, 1, 2
    asks = ffi.new("struct gpud_ask[]", max(len(members), 1))
    for ask, (state, demand) in zip(asks, members, strict=False):
        ask.state, ask.demand = state, demand
    lib.gpud_divide(amount, asks, len(members))
    parts = [asks[i].part for i in range(len(members))]
    wanting = [i for i, (state, _) in enumerate(members) if state != idle]
    assert sum(parts[i] for i in wanting) <= amount
    if wanting:
        assert sum(parts[i] for i in wanting) >= amount - len(wanting), "something is left over"
    for i, (state, demand) in enumerate(members):
        if state == idle:
            assert parts[i] == amount // (len(wanting) + 1)
        elif state == content and parts[i] < demand:  # it gets less than it asks for only if nobody gets more
            assert all(parts[k] <= parts[i] + 1 for k in wanting)
        elif state == hungry:
            assert all(parts[k] <= parts[i] or parts[k] <= members[k][1] for k in wanting), "it could have more"
            assert parts[i] >= amount // len(wanting)


def test_a_device_comes_to_rest_and_nothing_is_written_twice() -> None:
    device = DividedDevice(two(totals=(total(TotalKind.COMPUTE, 400_000, 1, 2),)))
    device.presence(1).active = 1
    assert step(device) is Motion.BUSY
    device.presence(1).active = 0
    found = [step(device, 50 * MILLISECOND) for _ in range(8)]
    assert found[0] is Motion.MOVING
    assert found[-1] is Motion.SETTLED


def test_levels_go_on_over_a_restart() -> None:
    """The next daemon knows what was so at some moment; what clients have charged since, their pages say."""
    division = two(totals=(total(TotalKind.COMPUTE, 400_000, 1), total(TotalKind.COMPUTE, 600_000, 2)))
    first, other = DividedDevice(division), DividedDevice(division)
    for device in (first, other):
        for n in (1, 2):
            device.presence(n).active, device.presence(n).turn = 1, TURN_ASKS
        for _ in range(40):
            device.presence(1).spent_ns += MILLISECOND
            device.presence(2).spent_ns += 4 * MILLISECOND
            step(device)
    assert first.divided is not None
    resumed = tuple(first.divided.levels())
    assert [level.tenant for level in resumed] == [1, 2]
    for device in (first, other):  # the daemon is gone for 300 ms
        device.now += 300 * MILLISECOND
        device.presence(1).spent_ns += 100 * MILLISECOND
        device.presence(2).spent_ns += 150 * MILLISECOND
    first.divide(division, resumed, anew=True)
    step(first, 0)
    step(other, 0)
    for n in (1, 2):
        assert first.cap(n) == pytest.approx(other.cap(n), abs=10)
        assert first.words(n).cap_rate_ppm == other.words(n).cap_rate_ppm
    assert first.lag(1) - first.lag(2) == pytest.approx(other.lag(1) - other.lag(2), abs=10)


def test_a_total_goes_on_over_a_restart() -> None:
    """Its members bring what they have saved: to use that overdraws nothing."""
    division = two(totals=(total(TotalKind.COMPUTE, 300_000, 1, 2),))
    device = DividedDevice(division)
    for _ in range(40):
        step(device)
    assert device.divided is not None
    device.divide(division, tuple(device.divided.levels()), anew=True)
    step(device)
    saved = device.cap(1)
    assert saved == 30 * MILLISECOND  # all that the total keeps: the other one wants nothing
    device.presence(1).active = 1
    device.presence(1).spent_ns += saved
    for _ in range(3):
        step(device)
        assert device.words(1).cap_rate_ppm == 300_000


def test_levels_stand_still_until_all_clients_of_a_tenant_are_back() -> None:
    def division(*awaited: int) -> Division:
        clients = [client(n, *(k for k in (1, 2) if k != n), awaited=n in awaited) for n in (1, 2)]
        share = ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(1),))
        pools = (Pool(period_ns=PERIOD, open_ppm=WHOLE),)
        both = total(TotalKind.COMPUTE, 800_000, 1)
        return Division(tenants=(tenant(1, *clients, hard=500_000),), units=(share,), pools=pools, totals=(both,))

    device = DividedDevice(division())
    for _ in range(40):
        for n in (1, 2):
            device.presence(n).spent_ns += MILLISECOND
        step(device)
    assert device.divided is not None
    resumed = tuple(device.divided.levels())
    base, lag = device.cap(1), device.lag(1)
    device.hidden = {ClientId(2)}
    for n in (1, 2):  # meanwhile they use exactly what they may
        device.presence(n).spent_ns += 250 * MILLISECOND
    device.now += SECOND
    assert device.cap(1) == pytest.approx(base, abs=10)
    device.divide(division(2), resumed, anew=True)
    for _ in range(20):
        for n in (1, 2):
            device.presence(n).spent_ns += 1_250_000
        step(device)
        assert device.cap(1) == pytest.approx(base, abs=10)
        # It has used half of the time, and its share is all of it.
        assert device.lag(1) == pytest.approx(lag + (device.now - resumed[0].at_ns) // 2, abs=20)
    # Saved again before all are back: the same levels.
    again = tuple(device.divided.levels())
    device.divide(division(2), again, anew=True)
    assert device.cap(1) == pytest.approx(base, abs=10)
    device.hidden = set()
    device.divide(division())
    step(device, 0)
    assert device.cap(1) == pytest.approx(base, abs=10)
    assert device.cap(2) == pytest.approx(base, abs=10)
    assert device.words(1).cap_rate_ppm == 500_000  # and the total of its unit owes nothing


def test_a_new_client_of_a_running_tenant_and_one_that_leaves() -> None:
    device = capped(tenant(1, client(1), hard=500_000))
    for _ in range(10):
        step(device)
    level = device.cap(1)
    device.divide(Division(tenants=(tenant(1, client(1, 2), client(2, 1), hard=500_000),)))
    assert device.cap(1) == device.cap(2) == level
    device.presence(2).spent_ns = 7 * MILLISECOND
    step(device, 0)
    device.divide(Division(tenants=(tenant(1, client(1), hard=500_000),)))
    assert device.cap(1) == level - 7 * MILLISECOND


def test_pages_that_are_gone_are_not_touched() -> None:
    division = two()
    device = DividedDevice(division)
    step(device)
    assert device.divided is not None
    device.divided.forget(ClientId(2))
    before = bytes(ffi.buffer(device.processes[ClientId(2)].control))
    device.presence(2).active = 1
    step(device)
    assert bytes(ffi.buffer(device.processes[ClientId(2)].control)) == before
    assert device.words(1).peers[0].share_rate_ppm > 0


def test_a_reader_sees_the_words_of_a_level_as_a_whole() -> None:
    """The counter is even, and has moved on by two."""
    device = DividedDevice(two())
    before = device.words(1).level_seq, device.words(1).peers[0].share_seq
    step(device)
    after = device.words(1).level_seq, device.words(1).peers[0].share_seq
    assert [b - a for a, b in zip(before, after, strict=True)] == [2, 2]
    assert not any(word % 2 for word in after)


@pytest.mark.parametrize(
    ("spec", "draw"),
    [
        ({}, MILLISECOND),
        ({"hard": 1_000}, 100_000),
        ({"hard": 160_000}, MILLISECOND),
        ({"hard": WHOLE}, 2 * MILLISECOND),
    ],
)
def test_draws(spec: dict[str, int], draw: int) -> None:
    """A sixteenth of what is saved up at most; not so little that each launch asks, not so much that turns last."""
    assert capped(tenant(1, client(1), **spec)).words(1).draw_ns == draw


def test_draws_of_a_share() -> None:
    assert DividedDevice(two()).words(1).draw_ns == PERIOD // 16  # alone, all of the device is its share
    assert levels.NONE == 2**32 - 1
    assert layout.MAX_PEERS == lib.GPUD_MAX_PEERS


def test_what_is_on_file_can_be_anything() -> None:
    found = Level(
        tenant=JobId(1),
        slot=Slot(0),
        cap_ns=-(10**15),
        cap_ppm=WHOLE,
        lag_ns=10**15,
        share_ppm=WHOLE,
        at_ns=2**62 - 1,
        spent=((ClientId(1), 2**63 - 1), (ClientId(9), 1)),
    )
    device = DividedDevice(two(totals=(total(TotalKind.COMPUTE, 400_000, 1),)), (found,))
    for _ in range(3):
        step(device)
    assert -SECOND <= level(device) <= 40 * MILLISECOND
    assert device.lag(1) <= SECOND


def test_another_amount_leaves_everything_else_as_it_is() -> None:
    """No array is made anew for it: a controller moves a rate ten times a second."""
    device = DividedDevice(two(totals=(total(TotalKind.COMPUTE, 400_000, 1, 2),)))
    divided = device.divided
    assert divided is not None
    for _ in range(10):
        device.presence(1).active, device.presence(1).turn = 1, TURN_HAS
        device.presence(1).spent_ns += 2 * MILLISECOND
        step(device)
    before, at = divided.levels(), divided._tenants
    assert device.words(1).cap_rate_ppm == 400_000
    assert divided.amend(evolve(divided.division, totals=(total(TotalKind.COMPUTE, 200_000, 1, 2),)))
    assert divided.levels() == before
    assert divided._tenants is at
    step(device)
    assert device.words(1).cap_rate_ppm == 200_000
    whole = divided.division
    for other in (
        evolve(whole, totals=()),
        evolve(whole, totals=(total(TotalKind.COMPUTE, 1, 1),)),
        evolve(whole, totals=(total(TotalKind.LAUNCHES, 1, 1, 2),)),
        evolve(whole, units=whole.units[:1]),
        two(totals=whole.totals),  # of clients whose pages may be others by now
    ):
        assert not divided.amend(other)
        assert divided.division is whole
