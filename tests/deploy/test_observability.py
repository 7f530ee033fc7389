"""docs/observability.md has every metric, span, attribute, link, reason and decision that there is, and no other; and
every place that the alerts send people to."""

import re
from collections.abc import Iterator

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy import told
from tests.deploy.prometheus import DEPLOY
from tests.telemetry.test_metrics import busy_node

DOC = (told.ROOT / "docs" / "observability.md").read_text()


def tables(section: str) -> list[list[list[str]]]:
    """Of a `## section`: tables of rows of cells, without their heads."""
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", DOC, re.MULTILINE | re.DOTALL)
    assert found is not None, section
    lines = found[1].splitlines()
    result: list[list[list[str]]] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("|---"):
            result[-1] = []
        elif line.startswith("|"):
            if not before.startswith("|"):
                result.append([])
            result[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return result


def named(rows: list[list[str]]) -> list[str]:
    """What stands in the first column."""
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]


def metrics() -> Iterator[tuple[str, frozenset[str], str]]:
    """(name, labels, type)."""
    for family in text_string_to_metric_families(busy_node().text()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield name, frozenset(family.samples[0].labels) - {"le"}, family.type


def test_every_metric() -> None:
    (rows,) = tables("Metrics")
    said = [(name, row[1]) for row in rows for name in named([row])]
    found = [(*re.fullmatch(r"(\w+)(?:{(.*)})?", name).groups(""), kind) for name, kind in said]  # type: ignore[union-attr]
    assert sorted((name, sorted(labels.split(",")) if labels else [], kind) for name, labels, kind in found) == sorted(
        (name, sorted(labels), kind) for name, labels, kind in metrics()
    )


@pytest.mark.parametrize(
    ("section", "number", "known"),
    [
        ("Spans", 0, told.span_names()),
        ("Spans", 1, told.link_kinds()),
        ("Attributes", 0, told.attributes()),
        ("Why a job waits", 0, told.reason_codes()),
        ("Decisions", 0, told.decision_kinds()),
    ],
    ids=["spans", "links", "attributes", "reasons", "decisions"],
)
def test_every_word(section: str, number: int, known: set[str]) -> None:
    rows = tables(section)[number]
    names = named(rows)
    assert len(names) == len(set(names)), "once each"
    assert set(names) == known
    assert all(cell for row in rows for cell in row)


def test_every_alert_has_its_section() -> None:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    section = DOC[DOC.index("\n## Alerts") :]
    headings = re.findall(r"^### (\w+)$", section, re.MULTILINE)
    assert [rule["alert"] for rule in rules] == headings
    for rule in rules:
        assert rule["annotations"]["runbook"] == f"docs/observability.md#{rule['alert'].lower()}"


def test_the_panels_it_names_are_there() -> None:
    panels = {panel["title"] for panel in yaml.safe_load((DEPLOY / "grafana" / "gpud.json").read_text())["panels"]}
    said = set(re.findall(r"(?<!\*)\*([A-Z][^*\n]+)\*(?!\*)", DOC))
    assert said
    assert said <= panels
