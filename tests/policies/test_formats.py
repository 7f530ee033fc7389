"""Findings for machines."""

import json
from typing import Any

import pytest

from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.formats import as_github, as_json, as_sarif
from gpud.policies.source import Source, Span

SOURCE = Source("site, one/a b.gpol", "gpol 1\npolicy {\n  漢字 wrong\n}\n")
START = SOURCE.text.index("wrong")
FOUND = [
    Diagnostic(
        "GP103",
        "unknown unit `GB`, 100%",
        Label(SOURCE, Span(START, START + 5), "here"),
        (Label(SOURCE, Span(0, 4), "there"),),
        ("write GiB", "or MiB"),
    ),
    Diagnostic("GP905", "never used", Label(SOURCE, Span(7, len(SOURCE.text)))),
]


def test_json() -> None:
    document = json.loads(as_json(FOUND))
    assert (document["errors"], document["warnings"]) == (1, 1)
    first = document["findings"][0]
    assert first == {
        "code": "GP103",
        "severity": "error",
        "message": "unknown unit `GB`, 100%",
        "file": "site, one/a b.gpol",
        "line": 3,
        "column": 6,
        "end_line": 3,
        "end_column": 11,
        "text": "here",
        "labels": [
            {
                "file": "site, one/a b.gpol",
                "line": 1,
                "column": 1,
                "end_line": 1,
                "end_column": 5,
                "text": "there",
            }
        ],
        "helps": ["write GiB", "or MiB"],
    }
    assert json.loads(as_json(FOUND, strict=True))["errors"] == 2
    assert json.loads(as_json([])) == {"errors": 0, "warnings": 0, "findings": []}


def test_github() -> None:
    first, second = as_github(FOUND).splitlines()
    assert first == (
        "::error file=site%2C one/a b.gpol,line=3,endLine=3,col=6,endColumn=11,title=GP103"
        "::unknown unit `GB`, 100%25%0Ahelp: write GiB%0Ahelp: or MiB"
    )
    assert second == "::warning file=site%2C one/a b.gpol,line=2,endLine=5,col=1,title=GP905::never used"


def _required(value: dict[str, Any], *names: str) -> None:
    assert set(names) <= set(value), value


@pytest.mark.parametrize("found", [FOUND, []])
def test_sarif_has_the_structure_of_2_1_0(found: list[Diagnostic]) -> None:
    document = json.loads(as_sarif(found))
    _required(document, "version", "runs")
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    _required(run, "tool", "results", "columnKind")
    driver = run["tool"]["driver"]
    _required(driver, "name", "version", "rules")
    assert len(run["results"]) == len(found)
    for result in run["results"]:
        _required(result, "ruleId", "ruleIndex", "message", "locations")
        assert result["level"] in ("error", "warning", "note", "none")
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        for location in [*result["locations"], *result.get("relatedLocations", [])]:
            physical = location["physicalLocation"]
            assert " " not in physical["artifactLocation"]["uri"], "a URI reference"
            region = physical["region"]
            assert 1 <= region["startLine"] <= region["endLine"]
            assert region["startColumn"] >= 1
            assert region["endColumn"] >= 1
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(rules) == len(set(rules))


def test_sarif_levels_and_places() -> None:
    first, second = json.loads(as_sarif(FOUND))["runs"][0]["results"]
    assert (first["level"], second["level"]) == ("error", "warning")
    assert first["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 3,
        "startColumn": 6,
        "endLine": 3,
        "endColumn": 11,
    }
    assert first["relatedLocations"][0]["message"]["text"] == "there"
    assert json.loads(as_sarif(FOUND, strict=True))["runs"][0]["results"][1]["level"] == "error"
