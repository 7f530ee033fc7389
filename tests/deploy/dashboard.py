"""The shipped dashboard, read."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.deploy.prometheus import DEPLOY

_EVERY = {"$instance": ".*", "$gpu": ".*", "$class": ".*", "$__rate_interval": "5m", "$__range": "1h"}
"""Variables, as when all is chosen."""


class Target(NamedTuple):
    """One expression of a panel."""

    panel: str
    expression: str
    legend: str
    exemplar: bool


def read() -> dict[str, Any]:
    return dict(json.loads((DEPLOY / "grafana" / "gpud.json").read_text()))


def filled(expression: str) -> str:
    """With values for variables. Raises AssertionError for one that is not known."""
    for name, value in _EVERY.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def targets() -> Iterator[Target]:
    """Those of all panels, and of annotations."""
    dashboard = read()
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            expression = filled(target["expr"])
            yield Target(panel["title"], expression, target["legendFormat"], target.get("exemplar", False))
    for one in dashboard["annotations"]["list"]:
        yield Target(one["name"], filled(one["expr"]), one["titleFormat"] + one["textFormat"], False)


def variables() -> Iterator[tuple[str, str, str]]:
    """(name, selector, label)."""
    for one in read()["templating"]["list"]:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"])
        assert found is not None, one
        yield one["name"], filled(found[1]), found[2]


def legend_labels(legend: str) -> set[str]:
    return set(re.findall(r"{{(\w+)}}", legend))
