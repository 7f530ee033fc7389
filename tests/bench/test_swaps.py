"""What must leave the device for the next one is what it lacks, no more; no word is lost. As the benches find it."""

import pytest

from bench import soak, swap, switch
from bench.holders import MIB

pytestmark = pytest.mark.e2e


def test_only_the_deficit_moves_in_several_pieces_at_once() -> None:
    found = swap.measure(4)
    deficit = (2 * swap.SIZE_MIB - swap.CAPACITY_MIB) * MIB
    for moved in (found.out, found.into):
        assert moved == [deficit] * 4
    assert min(found.flight.values()) >= 2
    assert found.wrong == 0
    assert found.plain_s_per_gib > 0


def test_where_both_fit_nothing_moves() -> None:
    found = switch.measure(switch.FITS_MIB, 4)
    assert (found.out, found.into, found.wrong) == ([0] * 4, [0] * 4, 0)


def test_of_a_tenth_that_is_lacking_a_tenth_moves() -> None:
    found = switch.measure(switch.LACKS_MIB, 4)
    deficit = (sum(switch.LACKS_MIB) - switch.CAPACITY_MIB) * MIB
    assert (found.out, found.into, found.wrong) == ([deficit] * 4, [deficit] * 4, 0)


def test_turns_and_kills_leave_nothing_behind_and_lose_nothing() -> None:
    rows = {row.name: row for row in soak.measure(60)}
    assert {name: row.value for name, row in rows.items() if row.met is False} == {}
    assert rows["soak_kills"].value > 0
    assert rows["soak_moved_gib"].value > 0
