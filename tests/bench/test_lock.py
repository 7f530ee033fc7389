"""Turns of two programs, and what is read out of them."""

import pytest

from bench.harness import ROOT
from bench.lock import REST_US, Turn, hand_overs, handed_over, prepared, quantile, uncontended


def turns(*rows: tuple[int, int, int]) -> list[Turn]:
    return [Turn(who=who, begin_ns=begin, end_ns=end) for who, begin, end in rows]


def test_a_hand_over_is_from_one_program_to_another() -> None:
    """In whatever order they are told."""
    told = turns((0, 0, 10), (0, 12, 20), (1, 25, 30), (0, 37, 40))
    assert hand_overs(told) == [5, 7]
    assert hand_overs(reversed(told)) == [5, 7]
    assert hand_overs(told[:2]) == []


def test_turns_that_overlap_are_no_turns() -> None:
    with pytest.raises(ValueError, match="overlap, by 1 ns"):
        hand_overs(turns((0, 0, 10), (1, 9, 20)))
    assert hand_overs(turns((0, 0, 10), (1, 10, 20))) == [0]


def test_quantile() -> None:
    values = list(range(100, 0, -1))
    assert [quantile(values, part) for part in (0.0, 0.5, 0.99, 1.0)] == [1, 51, 100, 100]


@pytest.mark.e2e
def test_two_programs_hand_the_device_over_and_never_both_have_it() -> None:
    """What takes how long depends on the machine; that all turns are had, one at a time, does not."""
    if not (ROOT / "build" / "c-plain").is_dir():
        pytest.skip("the stand-in driver is not built: make native-test")
    with prepared() as (node, binary):
        assert len(uncontended(node, [binary, "loop", 20], managed=True)) == 20
        assert len(uncontended(node, [binary, "bare-loop", 20], managed=False)) == 20
        for managed in (True, False):
            had = handed_over(node, binary, 20, REST_US, managed=managed)
            assert sorted(turn.who for turn in had) == [0] * 20 + [1] * 20
            assert hand_overs(had)
