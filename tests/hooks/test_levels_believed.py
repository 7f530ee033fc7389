"""Of what a client writes: what is believed, and what is cut off and counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.model.ids import JobId
from gpud.model.levels import (
    Barred,
    ShareUnit,
    Total,
    TotalKind,
)
from gpud.model.units import MILLISECOND, SECOND
from gpud.policies.simulate.gate_words import TURN_ASKS, TURN_HAS
from gpud.testing.divided_device import DividedDevice
from tests.hooks.divided import (
    WHOLE,
    barred,
    faults,
    level,
    one_capped,
    spends,
    step,
    total,
    two,
)


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
    # What comes after counts from there; after a word that makes no sense at all, from the last one that did.
    if spent < 0 or spent > 2**40:
        device.presence(1).spent_ns = 0
    assert spends(device, 3 * MILLISECOND) == [3 * MILLISECOND]
    assert faults(device) == (0 if spent == SECOND else 1)


def test_what_was_drawn_before_anybody_looked_is_given_back_without_gain_or_fault() -> None:
    """An honest job was not believed for ten seconds: it had drawn before its first look, and gave that back after."""
    device = one_capped()
    device.presence(1).spent_ns = 6 * MILLISECOND
    assert device.divided is not None
    device.divide(device.divided.division, anew=True)
    for _ in range(200):
        step(device)
    gives_back = (-2 * MILLISECOND, -2 * MILLISECOND, -MILLISECOND)
    assert spends(device, *gives_back) == [0, 0, 0]
    assert spends(device, 3 * MILLISECOND, -3 * MILLISECOND) == [3 * MILLISECOND, -3 * MILLISECOND]
    assert faults(device) == 0
    assert spends(device, -2 * MILLISECOND) == [0]
    assert faults(device) == 1, "more than it ever drew"


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
            one.presence(2).active, one.presence(2).turn = 1, TURN_HAS
        before = faults(device)
        for one in (device, honest):
            step(one)
        assert device.cap(2) == honest.cap(2)
        assert -SECOND <= level(device) <= 40 * MILLISECOND
        for reader in (1, 2):
            assert 0 < device.words(reader).share_rate_ppm <= WHOLE
        assert device.lag(2) <= 250 * MILLISECOND
        if device.words(2).peers[0].share_rate_ppm:
            ahead = device.lag(2, 1) > 250 * MILLISECOND
            assert not ahead or faults(device) > before, "it would go before all, and never be barred"


def test_who_writes_nonsense_takes_no_part_in_the_turns_of_others() -> None:
    device = DividedDevice(two())
    for n in range(3):
        device.presence(1).turn, device.presence(1).spent_ns = TURN_ASKS, 2**62 + n
        step(device)
    assert device.words(2).peers[0].share_rate_ppm == 0
    assert barred(device) == {JobId(1): Barred.WORDS}
    for _ in range(2001):  # for as long as the nonsense stands
        step(device)
    assert barred(device) == {JobId(1): Barred.WORDS}
    device.presence(1).turn = device.presence(1).spent_ns = 0
    for _ in range(2001):
        step(device)
    assert device.words(2).peers[0].share_rate_ppm > 0  # ten seconds later it is believed again
    assert barred(device) == {}


def test_who_keeps_others_waiting_and_charges_nothing_is_passed_over() -> None:
    device = DividedDevice(two())
    for _ in range(2010):
        device.presence(1).active, device.presence(1).turn = 1, TURN_HAS
        device.presence(2).waiting, device.presence(2).turn = 1, TURN_ASKS
        assert device.words(2).peers[0].share_rate_ppm > 0
        step(device)
        if device.words(2).peers[0].share_rate_ppm == 0:
            break
    assert device.words(2).peers[0].share_rate_ppm == 0
    assert 10 * SECOND <= device.now - 100 * SECOND <= 10 * SECOND + 20 * MILLISECOND
    assert device.words(1).peers[0].share_rate_ppm > 0
    assert barred(device) == {JobId(1): Barred.CLAIMS}
    device.divide(two(units=two().units))
    assert barred(device) == {JobId(1): Barred.CLAIMS}, "another division does not forgive it"


@pytest.mark.parametrize("says", ["active", "waiting", "active and waiting"])
def test_who_uses_nothing_holds_no_share_that_others_ask_for(says: str) -> None:
    """Of a unit: one is active, or waits for something else than its turn; the other takes all it can get."""
    device = DividedDevice(two(units=(ShareUnit(pool=0, fixed_ppm=None, weight=1, members=(JobId(1), JobId(2))),)))
    for _ in range(100):
        device.presence(1).active, device.presence(1).waiting = int("active" in says), int("waiting" in says)
        device.presence(2).active, device.presence(2).turn, device.presence(2).full_ns = 1, TURN_HAS, device.now
        device.presence(2).spent_ns += 5 * MILLISECOND
        step(device)
    assert device.words(1).share_rate_ppm < WHOLE // 50
    assert device.words(2).share_rate_ppm > WHOLE - WHOLE // 50


def test_who_uses_nothing_holds_no_part_of_a_total_that_others_ask_for() -> None:
    totals = (
        Total(
            key=("t",),
            kind=TotalKind.COMPUTE,
            amount=500_000,
            window_ns=100 * MILLISECOND,
            members=(JobId(1), JobId(2)),
        ),
    )
    device = DividedDevice(two(totals=totals))
    for _ in range(100):
        for n in (1, 2):
            device.presence(n).active, device.presence(n).waiting = 1, 1
        device.presence(2).spent_ns += 2_500_000
        step(device)
    assert device.words(2).cap_rate_ppm > 480_000
