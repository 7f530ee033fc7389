"""docs/simulator.md says what the shipped profiles and the code say.

The table of published figures is worked out by the document's own formulas from the profile; beside it the limits of
the clock, and what the bench calls fitted.
"""

import math
import re
import tomllib
from pathlib import Path

import pytest

from bench import sim_fidelity

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "simulator.md").read_text()
SIM = ROOT / "hooks-native" / "sim"
A100 = tomllib.loads((SIM / "profiles" / "a100-40gb.toml").read_text())
TIMING, MIG, SMS = A100["timing"], A100["mig"], A100["device"]["sm_count"]


def rows() -> list[list[str]]:
    """The cells of the table under "Against published measurements", without its head."""
    section = TEXT.split("## Against published measurements")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines[2:]]


def numbers(cell: str) -> list[float]:
    return [float(word) for word in re.findall(r"[-+]?\d+(?:\.\d+)?", cell.replace("−", "-"))]


def longest(request_ms: float) -> float:
    """The document's bound for a request on a device that another program fills."""
    slice_ms, switch_ms = TIMING["slice_ms"], TIMING["switch_ms"]
    after = (math.ceil(request_ms / slice_ms) - 1) * (slice_ms + 2 * switch_ms)
    return float(slice_ms + switch_ms + request_ms + after)


def loss(slice_ms: float) -> float:
    return float(TIMING["switch_ms"] / slice_ms * 100)


def test_the_table_is_what_the_formulas_give() -> None:
    model = [numbers(row[1]) for row in rows()]
    whole = loss(TIMING["slice_ms"])
    assert model == [
        [pytest.approx(whole, abs=0.05)],
        [pytest.approx(whole, abs=0.05)],
        [pytest.approx(whole, abs=0.05)],
        [0, 0],
        [pytest.approx((SMS / MIG["sm_7g"] - 1) * 100, abs=0.05)],
        [pytest.approx(MIG["sm_7g"] / MIG[f"sm_{slices}g"], abs=0.005) for slices in (4, 3, 2, 1)],
        [pytest.approx(longest(10) / 10, abs=0.05)],
        [pytest.approx(loss(5), abs=0.05)],
        [2.0],
    ]


def test_the_misses_are_right() -> None:
    for figure, model, published, miss, *_ in rows():
        said, said_miss = numbers(published), numbers(miss)
        if not said or "proportion" in published:
            assert said_miss == [0], figure
            continue
        value = numbers(model)[0]
        low, high = (0.0, said[0]) if published.startswith("<") else (min(said), max(said))
        off = value - high if value > high else min(value - low, 0.0)
        assert said_miss[0] == pytest.approx(off, abs=0.06), figure


def test_one_row_is_fitted_and_the_bench_says_the_same() -> None:
    kinds = [row[4] for row in rows()]
    assert [kind.split(",")[0] for kind in kinds] == ["fitted"] + ["predicted"] * (len(kinds) - 1)
    source = Path(sim_fidelity.__file__).read_text()
    assert source.count("fitted=True") == 1
    assert "fitted=True" in source.split('name="timeslice_2proc_loss_percent"')[1].split("yield")[0]
    assert TEXT.count("**fitted**") == 1
    assert f"`switch_ms = {TIMING['switch_ms']}` of `a100-40gb`" in TEXT
    assert (SIM / "profiles" / "a100-40gb.toml").read_text().count("FITTED") == 1


@pytest.mark.parametrize(
    ("file", "name", "value_ns", "words"),
    [
        ("pace.c", "STAND_NS", 100_000_000, "does neither for 100 ms"),
        ("pace.c", "PATIENCE_NS", 10_000_000_000, "After 10 s it goes on\n  without"),
        ("pace.c", "LAG_NS", 250_000_000, "fallen behind the machine's by 250 ms"),
        ("link_host.c", "FREE_NS", 1_000_000, "**computed** for more than 1 ms"),
        ("link_host.c", "FREE_CALL_NS", 10_000, "(and 10 µs for each command)"),
        ("link_host.c", "REMEMBER_NS", 2_000_000_000, "for 2 s, what it submits first after a synchronisation"),
    ],
)
def test_the_limits_of_the_clock(file: str, name: str, value_ns: int, words: str) -> None:
    """That the code keeps them is held by tests/simcuda/test_pacing.c."""
    assert words in TEXT
    assert re.search(rf"^#define {name} {value_ns}u", (SIM / file).read_text(), re.MULTILINE)


def test_every_profile_is_named() -> None:
    section = TEXT.split("## Profiles")[1].split("\n## ")[0]
    for path in (SIM / "profiles").glob("*.toml"):
        assert f"`{path.stem}`" in section
    h200 = tomllib.loads((SIM / "profiles" / "h200.toml").read_text())
    assert h200["timing"]["switch_ms"] == TIMING["switch_ms"]
