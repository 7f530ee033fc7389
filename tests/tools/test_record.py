"""The JSON file and the Markdown file of a day."""

import json
from pathlib import Path

import pytest
from gpu_day.model import Outcome
from gpu_day.record import NotOurs, Record, passed_before
from gpu_day.table import markdown

HEAD = {"tree": "abc", "simulated": False, "budget_s": 530.0, "took_s": 12.0, "machine": {"driver": "ok"}}
PASSED = Outcome(
    name="bench-a",
    words="a bench",
    state="passed",
    device="one GPU",
    took_s=3.2,
    rows=(
        {"name": "a_ns", "value": 3.5, "unit": "ns", "target": 4, "better": "lower"},
        {"name": "b_percent", "value": 3.5, "unit": "%", "target": 4, "better": "higher"},
        {"name": "c_ns", "value": 12345.678, "unit": "ns"},
    ),
)
FAILED = Outcome(
    name="tests-b",
    words="some | tests",
    state="failed",
    why="1 of 3 tests failed",
    tail="a ``` fence",
    left=("sleep 600",),
    tests={"passed": 1, "failed": {"test_x::test_y": "1 ==\n2"}, "skipped": {"test_x::test_z": "no CuPy"}},
)


def test_written_after_each_step_and_read_again(tmp_path: Path) -> None:
    record = Record(tmp_path / "new" / "on-gpu.json", dict(HEAD))
    record.add(PASSED)
    assert passed_before(record.path, tree="abc", simulated=False) == {"bench-a": PASSED}
    record.add(FAILED)
    assert list(passed_before(record.path, tree="abc", simulated=False)) == ["bench-a"]
    whole = json.loads(record.path.read_text())
    assert (whole["format"], [step["name"] for step in whole["steps"]]) == (1, ["bench-a", "tests-b"])
    assert [path.name for path in record.path.parent.iterdir()] == ["on-gpu.json"]


def test_nothing_to_go_on_with(tmp_path: Path) -> None:
    assert passed_before(tmp_path / "none", tree="abc", simulated=False) == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "tree": "abc", "simulated": false}'])
def test_garbage_is_not_gone_on_with(tmp_path: Path, text: str) -> None:
    path = tmp_path / "on-gpu.json"
    path.write_text(text)
    with pytest.raises(NotOurs, match=r"is no record of on_gpu"):
        passed_before(path, tree="abc", simulated=False)


@pytest.mark.parametrize(("tree", "simulated"), [("abd", False), ("abc", True)])
def test_another_tree_or_device_is_not_gone_on_with(tmp_path: Path, tree: str, simulated: bool) -> None:
    record = Record(tmp_path / "on-gpu.json", dict(HEAD))
    record.add(PASSED)
    with pytest.raises(NotOurs, match="run without --resume"):
        passed_before(record.path, tree=tree, simulated=simulated)


def test_the_table() -> None:
    text = markdown(HEAD, [PASSED, FAILED])
    lines = text.splitlines()
    assert "1 passed, 1 failed; 12 of 530 s." in lines
    assert "- driver: ok" in lines
    assert "| `bench-a` | a bench | 3 |  | passed |" in lines
    assert "| `tests-b` | some ∣ tests | 0 | 1/2, 1 skipped | **failed**: 1 of 3 tests failed |" in lines
    assert "| `a_ns` | 3.5 ns | ≤ 4 | met |" in lines
    assert "| `b_percent` | 3.5 % | ≥ 4 | **missed** |" in lines
    assert "| `c_ns` | 1.235e+04 ns |  |  |" in lines
    assert "A bench. On: one GPU." in lines
    assert "- `test_x::test_y`: 1 == 2" in lines
    assert "- `test_x::test_z` skipped: no CuPy" in lines
    assert "- left running: `sleep 600`" in lines
    assert lines[-3:] == ["~~~~", "a ``` fence", "~~~~"]
    assert "simulated" not in text


def test_a_rehearsal_says_so() -> None:
    assert markdown(HEAD | {"simulated": True}, []).startswith("# A day with a GPU: rehearsal, **simulated**\n")
