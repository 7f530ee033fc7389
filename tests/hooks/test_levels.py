"""The steps of the levels in C, on pages in memory: what is believed, how levels move, what is published."""

import pytest
from gpud.hooks._pages import ffi, lib
from hypothesis import given
from hypothesis import strategies as st

from gpud.hooks import layout, levels
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.levels import DividedClient, DividedTenant, Division, Level, Motion, Pool, ShareUnit, Total, TotalKind
from gpud.model.units import MILLISECOND, SECOND
from gpud.testing.divided_device import ASKS, HAS, DividedDevice

NOBODY_LAG = -(2**63)
WHOLE = 1_000_000
PERIOD = 20 * MILLISECOND


def client(number: int, *peers: int, **more: int | bool) -> DividedClient:
    return DividedClient(client=ClientId(number), rank=0, peers=tuple(map(ClientId, peers)), **more)  # type: ignore[arg-type]


def tenant(number: int, *clients: DividedClient, hard: int | None = None, soft: int | None = None) -> DividedTenant:
    return DividedTenant(tenant=JobId(number), clients=clients, hard_ppm=hard, soft_ppm=soft)


def total(kind: TotalKind, amount: int, *members: int, window_ns: int = 100 * MILLISECOND) -> Total:
    jobs = tuple(map(JobId, members))
    return Total(key=(kind.name, str(members)), kind=kind, amount=amount, window_ns=window_ns, members=jobs)


def two(**more: object) -> Division:
    """Jobs 1 and 2 with a client each, which see each other and take turns."""
    tenants = (tenant(1, client(1, 2)), tenant(2, client(2, 1)))
    units = tuple(ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(job),)) for job in (1, 2))
    words = {"tenants": tenants, "units": units, "pools": (Pool(period_ns=PERIOD, open_ppm=WHOLE),)}
    return Division(**(words | more))  # type: ignore[arg-type]


def capped(*tenants: DividedTenant, totals: tuple[Total, ...] = ()) -> DividedDevice:
    return DividedDevice(Division(tenants=tenants, totals=totals))


def step(device: DividedDevice, ns: int = 5 * MILLISECOND) -> Motion:
    device.now += ns
    assert device.divided is not None
    return device.divided.step(device.now)


def test_numbers_that_are_written_down_twice() -> None:
    assert {kind.name: kind.value for kind in TotalKind} == {
        name: getattr(lib, f"GPUD_TOTAL_{name}") for name in ("COMPUTE", "LAUNCHES", "BLOCKS", "COPIES")
    }
    assert len(TotalKind) == lib.GPUD_TOTALS
    assert {motion.name: motion.value for motion in Motion} == {
        name: getattr(lib, f"GPUD_LEVELS_{name}") for name in ("SETTLED", "MOVING", "BUSY")
    }


# ---------------------------------------------------------------- division


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


# ---------------------------------------------------------------- what is believed


def spends(device: DividedDevice, *amounts: int) -> list[int]:
    """What a client with a cap of a whole device writes as spent, step by step; → what its level loses by each."""
    lost = []
    for amount in amounts:
        before = level(device)
        device.presence(1).spent_ns = (device.presence(1).spent_ns + amount) % 2**64
        step(device, 0)
        lost.append(before - level(device))
    return lost


def level(device: DividedDevice) -> int:
    assert device.divided is not None
    return device.divided.levels()[0].cap_ns


def one_capped() -> DividedDevice:
    """With a level of nearly a second, and a burst of as much."""
    device = capped(tenant(1, client(1)), totals=(total(TotalKind.COMPUTE, WHOLE, 1, window_ns=SECOND),))
    for _ in range(200):
        step(device)
    assert device.cap(1) == SECOND
    return device


def faults(device: DividedDevice) -> int:
    assert device.divided is not None
    return device.divided.levels()[0].faults


def test_what_is_charged_is_taken_and_what_was_not_used_is_given_back() -> None:
    device = one_capped()
    assert spends(device, 10 * MILLISECOND, -4 * MILLISECOND, 0) == [10 * MILLISECOND, -4 * MILLISECOND, 0]
    assert faults(device) == 0


@pytest.mark.parametrize(
    ("spent", "lost"),
    [
        (-1, 0),  # nothing was charged that could be given back
        (-(2**40), 0),
        (-(2**63), 0),
        (SECOND, SECOND),  # the most that may be on its way at once
        (SECOND + 1, SECOND),
        (2**40, SECOND),
        (2**63 - 1, SECOND),
    ],
)
def test_nonsense_is_cut_off_and_counted(spent: int, lost: int) -> None:
    device = one_capped()
    assert spends(device, spent) == [lost]
    assert faults(device) == (0 if spent == SECOND else 1)
    # What comes after counts from there.
    assert spends(device, 3 * MILLISECOND) == [3 * MILLISECOND]


def test_charges_cannot_be_taken_back_more_than_once() -> None:
    device = one_capped()
    assert spends(device, 5 * MILLISECOND, -5 * MILLISECOND, -5 * MILLISECOND) == [5 * MILLISECOND, -5 * MILLISECOND, 0]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)), max_size=8))
def test_whatever_a_client_writes_the_other_is_not_charged(writes: list[tuple[int, int, int]]) -> None:
    """Scribbling over its whole presence page moves its own level, within its bounds, and no other one's cap."""
    groups = (total(TotalKind.COMPUTE, 400_000, 1), total(TotalKind.COMPUTE, 400_000, 2))
    device = DividedDevice(two(totals=groups))
    honest = DividedDevice(two(totals=groups))
    for spent, word, full in writes:
        its = device.presence(1)
        its.spent_ns, its.full_ns, its.idle_since_ns = spent, full, full
        its.active = its.waiting = its.turn = its.edges = word
        for one in (device, honest):
            one.presence(2).spent_ns += MILLISECOND
            one.presence(2).active, one.presence(2).turn = 1, HAS
            step(one)
        assert device.cap(2) == honest.cap(2)
        assert -SECOND <= level(device) <= 40 * MILLISECOND
        for reader in (1, 2):
            assert 0 < device.words(reader).share_rate_ppm <= WHOLE
        assert device.lag(2) <= 250 * MILLISECOND
        if device.words(2).peers[0].share_rate_ppm:
            assert device.lag(2, 1) <= 250 * MILLISECOND, "it would go before everybody for long"


def test_who_writes_nonsense_takes_no_part_in_the_turns_of_others() -> None:
    device = DividedDevice(two())
    for _ in range(3):
        device.presence(1).turn, device.presence(1).spent_ns = ASKS, device.presence(1).spent_ns ^ 2**62
        step(device)
    assert device.words(2).peers[0].share_rate_ppm == 0
    device.presence(1).turn = 0
    for _ in range(2001):
        step(device)
    assert device.words(2).peers[0].share_rate_ppm > 0  # ten seconds later it is believed again


def test_who_keeps_others_waiting_and_charges_nothing_is_passed_over() -> None:
    device = DividedDevice(two())
    for _ in range(2010):
        device.presence(1).active, device.presence(1).turn = 1, HAS
        device.presence(2).waiting, device.presence(2).turn = 1, ASKS
        assert device.words(2).peers[0].share_rate_ppm > 0
        step(device)
        if device.words(2).peers[0].share_rate_ppm == 0:
            break
    assert device.words(2).peers[0].share_rate_ppm == 0
    assert 10 * SECOND <= device.now - 100 * SECOND <= 10 * SECOND + 20 * MILLISECOND
    assert device.words(1).peers[0].share_rate_ppm > 0


# ---------------------------------------------------------------- caps


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


# ---------------------------------------------------------------- rates


def counts(device: DividedDevice, number: int, launches: int, blocks: int = 0, copied: int = 0) -> None:
    activity = device.processes[ClientId(number)].activity.device[0]
    activity.slots[number].entered += launches
    activity.slots[63 - number].blocks += blocks
    activity.copy_bytes += copied


def rates(device: DividedDevice, number: int) -> tuple[int, int, int]:
    words = device.words(number)
    return words.launch_rate, words.block_rate, words.copy_rate


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


# ---------------------------------------------------------------- shares


def test_lags_of_those_who_ask_add_up_to_nothing() -> None:
    device = DividedDevice(two())
    for n in (1, 2):
        device.presence(n).turn = ASKS
    for _ in range(10):
        device.presence(1).spent_ns += 4 * MILLISECOND
        device.presence(2).spent_ns += 500_000
        step(device)
    assert device.lag(1) == device.lag(2, 1) < 0 < device.lag(2) == device.lag(1, 2)
    assert abs(device.lag(1) + device.lag(2)) < 10


def test_who_does_not_ask_saves_up_a_period_at_most() -> None:
    device = DividedDevice(two())
    device.presence(1).active, device.presence(1).turn = 1, HAS
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
        device.presence(n).turn = ASKS
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
            device.presence(n).active, device.presence(n).turn = 1, HAS
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
        device.presence(n).turn = ASKS
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


# ---------------------------------------------------------------- beyond the table


def test_whoever_is_beyond_the_table_is_summed_up() -> None:
    tenants = tuple(tenant(n, client(n, *([2] if n == 1 else []))) for n in (1, 2, 3, 4))
    units = tuple(ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(job),)) for job in (1, 2, 3, 4))
    device = DividedDevice(Division(tenants=tenants, units=units, pools=(Pool(period_ns=PERIOD, open_ppm=WHOLE),)))
    words = device.words(1)
    step(device)
    assert (words.others_lag_ns, words.others_edges) == (NOBODY_LAG, 0)
    device.presence(2).active, device.presence(2).turn = 1, ASKS
    device.presence(1).active, device.presence(1).turn = 1, HAS
    step(device)
    assert (words.others_lag_ns, words.others_edges) == (NOBODY_LAG, 0)  # it is in the table
    device.presence(3).active, device.presence(3).turn = 1, HAS
    device.presence(3).spent_ns = MILLISECOND
    step(device)
    assert words.others_lag_ns == pytest.approx(device.lag(3), abs=2)
    assert words.others_edges == 1
    device.presence(4).turn = ASKS
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


# ---------------------------------------------------------------- rest, and restarts


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
            device.presence(n).active, device.presence(n).turn = 1, ASKS
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
