"""The picture is an SVG document that any viewer takes, and the table says what it must."""

import io
import json
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from gpud.cli.demo.figures import Lane, RunFigures, Sample, possible
from gpud.cli.demo.picture import draw, merge
from gpud.cli.demo.runner import Outcome
from gpud.cli.demo.table import as_json, label_of, show

SVG = "{http://www.w3.org/2000/svg}"


def run(name: str, latency_ms: float, *, requests: int = 50) -> RunFigures:
    return RunFigures(
        name=name,
        samples=tuple(Sample(at_s=i * 0.06, latency_ms=latency_ms + i % 7) for i in range(requests)),
        wall_ms=tuple(latency_ms * 2.5 + i % 7 for i in range(requests)),
        window_s=3.0,
        training_steps_per_s=None if name == "alone" else 250.0,
        training_step_ms=None if name == "alone" else 2.0,
        gpu_busy=0.33,
        overrun=0.001,
        correct=True,
        lanes=(
            Lane(who="serving", pieces=tuple((i * 0.06, i * 0.06 + 0.02) for i in range(50))),
            Lane(who="training", pieces=tuple((i * 0.06 + 0.02, i * 0.06 + 0.06) for i in range(50))),
        ),
    )


def runs() -> dict[str, RunFigures]:
    return {"alone": run("alone", 20), "shared": run("shared", 90), "preempt-mix": run("preempt-mix", 21)}


def outcome(**changes: object) -> Outcome:
    found = runs()
    limits = possible(found["alone"], step_ms=2.0, rate_per_s=16.7, resume_after_ms=1.0, window_ms=2.0, switch_ms=0.76)
    fields: dict[str, object] = {
        "simulated": True, "device": "simulated", "profile": "a100-40gb-demo", "time_scale": 2.5,
        "null": run("null", 20), "limits": limits, "doubts": [],
        "runs": found | {"short-alone": run("short-alone", 1), "short-mix": run("short-mix", 3)},
    }  # fmt: skip
    return Outcome(**(fields | changes))  # type: ignore[arg-type]


def test_the_picture_is_well_formed_and_says_what_it_shows() -> None:
    root = ET.fromstring(draw(runs(), 'simulated, profile <x> & "y", time scale 2.5'))
    assert root.tag == SVG + "svg"
    words = " ".join(text.text or "" for text in root.iter(SVG + "text"))
    for expected in (
        "latency (ms)", "arrival of the request (s)", "time (s)", "serving alone", "without gpud", "preempt-mix",
        "training", 'simulated, profile <x> & "y", time scale 2.5',
    ):  # fmt: skip
        assert expected in words
    assert len(list(root.iter(SVG + "circle"))) == 150 + 3


def test_everything_lies_inside_the_picture() -> None:
    root = ET.fromstring(draw(runs(), "label"))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for element in root:
        x, y = float(element.get("x", element.get("cx", "0"))), float(element.get("y", element.get("cy", "0")))
        assert 0 <= x <= width, element.attrib
        assert 0 <= y <= height, element.attrib
        assert x + float(element.get("width", "0")) <= width + 0.01


@pytest.mark.parametrize("requests", [1, 2])
def test_a_picture_of_almost_nothing(requests: int) -> None:
    few = {name: run(name, 20, requests=requests) for name in ("alone", "shared", "preempt-mix")}
    ET.fromstring(draw(few, "label"))


def test_without_a_device_log_there_are_no_lanes() -> None:
    import attrs

    bare = {name: attrs.evolve(one, lanes=()) for name, one in runs().items()}
    assert "Who held the GPU: the same" not in draw(bare, "label")


def test_pieces_close_together_are_joined() -> None:
    assert merge([(0.0, 0.2), (0.3, 0.4), (0.1, 0.25)], 0.01) == [(0.0, 0.25), (0.3, 0.4)]


def printed(found: Outcome, width: int = 160) -> str:
    out = io.StringIO()
    show(Console(file=out, width=width), found, label_of(found))
    return out.getvalue()


def test_the_table_fits_a_terminal_of_80_columns() -> None:
    text = printed(outcome(), width=80)
    assert "…" not in text
    row = next(line for line in text.splitlines() if line.strip().startswith("both, preempt-mix"))
    assert row.split()[-1] == "yes"
    assert "wall" not in text.splitlines()[2]
    assert "p50/p99 ms" in printed(outcome(), width=120)


def test_the_table_says_that_it_is_simulated_and_what_is_possible() -> None:
    text = printed(outcome())
    assert "simulated, profile a100-40gb-demo, time scale 2.5" in text
    assert "e^(−λ·resume_after)" in text
    assert "1 ms, preempt-mix" in text
    assert "null contender" in text
    assert "not valid" not in text


def test_doubts_are_printed() -> None:
    assert "not valid as a measurement: this machine is too slow [really]" in printed(
        outcome(doubts=["this machine is too slow [really]"])
    )


def test_the_json_line_has_the_keys_that_were_promised() -> None:
    line = as_json(outcome(), "/tmp/x.svg")
    assert "\n" not in line
    told = json.loads(line)
    assert {"device", "profile", "simulated", "valid", "picture", "runs"} <= told.keys()
    assert told["valid"] is True
    assert set(told["runs"]) == {"alone", "shared", "preempt-mix"}
    wanted = {"serving_p50_ms", "serving_p99_ms", "serving_requests", "training_steps_per_s", "gpu_busy", "correct"}
    for one in told["runs"].values():
        assert wanted <= one.keys()
    assert told["runs"]["alone"]["training_steps_per_s"] is None
    assert told["null_contender"] == 1.0
    assert told["training_of_possible"] > 0
    assert set(told["short_requests"]) == {"alone", "preempt-mix"}
    assert json.loads(as_json(outcome(doubts=["x"]), "p"))["valid"] is False
