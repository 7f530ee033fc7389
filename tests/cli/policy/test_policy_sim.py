"""`gpud policy sim`: from a test, a world, single lines, a recording; to the terminal, SVG, JSON."""

import json
import xml.etree.ElementTree
from pathlib import Path

import pytest

from tests.cli.policy.conftest import GOOD, Policy

TRACE = """\
{"gpud_trace": 1}
{"t": 0, "high.active": true, "low.active": true}
{"t": 1, "high.active": false}
{"t": 2, "high.active": true}
"""


@pytest.fixture
def trace(files: Path) -> Path:
    (files / "trace.jsonl").write_text(TRACE)
    text = GOOD + '\ntest "low waits" {\n  policy "good"\n  at 10ms high.active = true\n  at 1s expect low.held\n}\n'
    (files / "good.gpol").write_text(text)
    return files / "trace.jsonl"


GOOD_SIM = ("sim", "good", "--policies", "good.gpol")


def values(printed: str, name: str) -> list[tuple[float, str]]:
    (series,) = [one for one in json.loads(printed)["series"] if one["name"] == name]
    return [(at["t"], at["value"]) for at in series["values"]]


def test_a_test(policy: Policy, trace: Path) -> None:
    done = policy(*GOOD_SIM, "--test", "low")
    assert done.returncode == 0
    assert done.stdout.startswith('policy "good", test "low waits"\n')
    assert values(policy(*GOOD_SIM, "--test", "low waits", "--json").stdout, "low.held")[-1] == (0.01, "true")


def test_a_test_that_fails_is_drawn_all_the_same(policy: Policy, trace: Path, files: Path) -> None:
    (files / "good.gpol").write_text((files / "good.gpol").read_text().replace("expect low", "expect not low"))
    done = policy(*GOOD_SIM, "--test", "low")
    assert done.returncode == 1
    assert "low.held" in done.stdout
    assert "error[GP702]" in done.stderr


def test_a_recording(policy: Policy, trace: Path) -> None:
    done = policy(*GOOD_SIM, "trace.jsonl", "--json")
    assert done.returncode == 0
    assert values(done.stdout, "low.held") == [(0.0, "true"), (1.003, "false"), (2.0, "true")]
    assert policy(*GOOD_SIM, "-", "--json", stdin=TRACE).returncode == 0


def test_a_world_and_lines(policy: Policy) -> None:
    world = "contention(capacity = 3_000/s, high_demand = 1_000/s, low_demand = 10_000/s)"
    step = "at 3s world.high_demand = 500/s"
    done = policy(
        "sim", "aimd", "--world", world, "--step", step, "--for", "6s", "--json", "--only", "high.launch_rate"
    )
    assert done.returncode == 0
    (series,) = json.loads(done.stdout)["series"]
    assert series["name"] == "high.launch_rate"
    assert any(at["t"] > 3 and at["value"] == "500/s" for at in series["values"])
    done = policy("sim", "preempt-mix(quiet = 5ms)", "--step", "at 1s high.active = true", "--for", "2s")
    assert done.returncode == 0


def test_svg(policy: Policy, trace: Path, files: Path) -> None:
    done = policy(*GOOD_SIM, "trace.jsonl", "--svg", "picture.svg")
    assert (done.returncode, done.stdout) == (0, "wrote picture.svg\n")
    root = xml.etree.ElementTree.parse(files / "picture.svg").getroot()
    assert root.tag.endswith("svg")
    done = policy(*GOOD_SIM, "trace.jsonl", "--svg", "nowhere/picture.svg")
    assert done.returncode == 2
    assert "cannot write nowhere/picture.svg" in done.stderr


def test_a_terminal_without_unicode(policy: Policy, trace: Path) -> None:
    done = policy(*GOOD_SIM, "trace.jsonl", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "what is to happen?"),
        (("trace.jsonl", "--test", "low"), 2, "what is to happen?"),
        (("--test", "high"), 2, "no test of 'good' begins with 'high'"),
        (("absent.jsonl",), 2, "cannot read absent.jsonl"),
        (("good.gpol",), 1, "not a recording of gpud"),
        ((".",), 2, "cannot read ."),
        (("--world", "nowhere()"), 1, "there is no world `nowhere`"),
        (("--step", "at 1s high.active = 7"), 1, "error[GP202]"),
        (("--step", "at 1s high.active = true", "--for", "60"), 1, "error[GP"),
        (("--step", '} policy "x" {'), 1, "error[GP"),
    ],
)
def test_wrong(policy: Policy, trace: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = policy(*GOOD_SIM, *arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr


def test_a_broken_recording(policy: Policy, files: Path, trace: Path) -> None:
    for text in ('{"gpud_trace": 1}\n{"t": 1, "high.active": "perhaps"}\n', '{"gpud_trace": 1}\n{"t": \n', "", "\xff"):
        trace.write_text(text, encoding="latin-1")
        done = policy(*GOOD_SIM, "trace.jsonl")
        assert done.returncode == 1, text
        assert "trace.jsonl" in done.stderr


def test_unknown_policy(policy: Policy, trace: Path) -> None:
    assert policy("sim", "god", "--policies", "good.gpol", "trace.jsonl").returncode == 1
    assert policy("sim", "good", "--policies", "absent", "trace.jsonl").returncode == 2
