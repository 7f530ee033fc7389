import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.testing.scripted_feed import Script
from gpud.tui.columns import BY_KEY, COLUMNS, GAP, choose, slots
from gpud.tui.model import NodeModel
from gpud.tui.sort import Sort
from tests.tui.rig import full, job


def played() -> NodeModel:
    model = NodeModel()
    for feed in Script(24, 2).steps(10):
        model.apply(feed)
    return model


@given(st.integers(38, 400))
def test_columns_fit_and_those_that_matter_are_there(width: int) -> None:
    chosen = choose(width)
    assert sum(cells + GAP for _, cells in chosen) <= max(width, 41)
    assert {"id", "name", "why"} <= {column.key for column, _ in chosen}
    assert all(cells >= column.width for column, cells in chosen)


def test_on_80_columns_stands_what_one_looks_for() -> None:
    assert [column.key for column, _ in choose(78)] == ["id", "name", "user", "class", "state", "gpu%", "mem", "why"]


def test_on_a_wide_screen_stands_all() -> None:
    assert [column.key for column, _ in choose(300)] == [column.key for column in COLUMNS]


@pytest.mark.parametrize("key", [column.key for column in COLUMNS])
def test_every_column_sorts_both_ways_and_keeps_every_job(key: str) -> None:
    model = played()
    up = [row.id for row in Sort(key).order(model.jobs.values(), model)]
    down = [row.id for row in Sort(key, down=True).order(model.jobs.values(), model)]
    assert sorted(up) == sorted(down) == list(range(1, 25))
    of = BY_KEY[key].order
    values = [of(model.jobs[number], model) for number in up]
    known = [value for value in values if value is not None]
    assert known == sorted(known)
    assert values == [*known, *[None] * (len(values) - len(known))]


def test_what_has_no_value_comes_last_either_way() -> None:
    model = NodeModel()
    rows = [job(1, limit=None), job(2, limit=0.2), job(3, limit=0.7)]
    model.apply(full(*rows))
    assert [row.id for row in Sort("max").order(rows, model)] == [2, 3, 1]
    assert [row.id for row in Sort("max", down=True).order(rows, model)] == [3, 2, 1]


def test_equal_ones_stand_by_their_number_either_way() -> None:
    model = NodeModel()
    rows = [job(3, user="x"), job(1, user="x"), job(2, user="x")]
    model.apply(full(*rows))
    for down in (False, True):
        assert [row.id for row in Sort("user", down).order(rows, model)] == [1, 2, 3]


def test_a_column_that_is_chosen_again_turns_round() -> None:
    sort = Sort("id")
    assert sort.by("mem") == Sort("mem", down=True)
    assert sort.by("mem").by("mem") == Sort("mem", down=False)
    shown = [BY_KEY[key] for key in ("id", "name", "mem")]
    assert sort.beside(shown, 1).key == "name"
    assert sort.beside(shown, -1).key == "mem"
    assert Sort("age").beside(shown, 1).key == "id"


def test_slots_in_short() -> None:
    assert [slots(one) for one in ((), (3,), (0, 1), (0, 3), (0, 1, 2, 3), (0, 1, 2, 5, 7, 6))] == [
        "–", "3", "0,1", "0,3", "0-3", "0-2,5-7"
    ]  # fmt: skip
