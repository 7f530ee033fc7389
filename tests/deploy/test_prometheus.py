"""A real Prometheus scrapes two daemons at work, and has an answer to all that dashboard and alert rules ask."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from attrs import frozen

from gpud.model.units import MILLISECOND, SECOND
from gpud.testing.node import Node, until
from tests.deploy import dashboard
from tests.deploy.dashboard import Target
from tests.deploy.prometheus import DEPLOY, MISSING, WITHIN, Prometheus, free_port, promtool
from tests.e2e.test_swap import Large, Turns
from tests.e2e.test_traces import traced
from tests.telemetry.receiver import Receiver, Span, receiving
from tests.telemetry.scraper import scrape

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(bool(MISSING), reason=MISSING or "it is there")]


@frozen(kw_only=True)
class World:
    """What has happened: on one node jobs that do not fit together took turns, on the other one they share; somebody
    has saved a policy with an error."""

    prometheus: Prometheus
    receiver: Receiver
    ports: tuple[int, int]
    rejected: str
    """Instance."""


def of_trace(world: World, trace_id: str) -> list[Span]:
    return [span for span in list(world.receiver.spans) if span.trace_id == trace_id]


def scraped(node: Node) -> int:
    """Before it starts: the port of its metrics."""
    port, directory = free_port(), node.directory / "config" / "gpud"
    directory.mkdir(parents=True)
    (directory / "gpud.toml").write_text(f'[metrics]\nlisten = "127.0.0.1:{port}"\n')
    return port


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, large: list[str], counter: list[str]) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving())
        turns, shares = Turns(directory), Node(profile="test-small", policy="share-mix")
        ports = scraped(turns), scraped(shares)
        for node in (turns, shares):
            traced(node, receiver.url)
            stack.enter_context(node)
        instances = [f"127.0.0.1:{port}" for port in ports]
        prometheus = stack.enter_context(Prometheus(directory, instances))
        until(lambda: len(prometheus.query('up{job="gpud"} == 1')) == 2, WITHIN, "both are scraped")

        for number in range(2):
            shares.run([*counter, "1", "1000000000"], labels={"team": "ab"[number]})
        programs = [Large(turns, large, name, 190, "4", "1000") for name in ("one", "two")]
        (turns.policies / "broken.gpol").write_text('gpol 1\npolicy "broken" {')
        with turns.client() as client:
            assert client.reload().result == "rejected"
        for program in programs:
            program.right()
        with turns.client() as client:
            until(lambda: not client.ps(), WITHIN, "both jobs have ended")
        yield World(prometheus=prometheus, receiver=receiver, ports=ports, rejected=instances[0])


@pytest.mark.parametrize("target", list(dashboard.targets()), ids=lambda one: f"{one.panel}: {one.legend}")
def test_every_expression_of_the_dashboard_has_something(world: World, target: Target) -> None:
    found = until(lambda: world.prometheus.query(target.expression), WITHIN, target.expression)
    for labels, _ in found:
        assert dashboard.legend_labels(target.legend) <= labels.keys(), "what the legend names is there"


@pytest.mark.parametrize(("name", "selector", "label"), list(dashboard.variables()))
def test_every_variable_has_values(world: World, name: str, selector: str, label: str) -> None:
    assert until(lambda: world.prometheus.values(label, selector), WITHIN, name)


def test_what_the_dashboard_says_is_what_was(world: World) -> None:
    """The figures themselves, of what is known from elsewhere."""
    first, second = (f'instance="127.0.0.1:{port}"' for port in world.ports)
    ask = world.prometheus.query

    def moved() -> bool:
        bytes_of = {
            direction: sum(
                span.attributes["gpud.swap.bytes"]
                for span in world.receiver.named(f"swap_{direction}")
                if span.attributes["gpud.swap.bytes"]
            )
            for direction in ("in", "out")
        }
        found = {labels["direction"]: value for labels, value in ask(f"gpud_swap_bytes_total{{{first}}}")}
        return found == bytes_of and min(bytes_of.values()) > 0

    until(moved, WITHIN, "bytes that were swapped are those of the spans")
    targets = {
        labels["class"]: value for labels, value in ask(f'gpud_class_share_ratio{{{second}, kind="target"}}') if value
    }
    assert set(targets) >= {"team_a", "team_b"}
    assert targets["team_a"] == pytest.approx(2 * targets["team_b"], rel=0.01), "two to one, as share-mix says"
    until(lambda: ask(f"sum(gpud_jobs{{{first}}})") == [({}, 0.0)], WITHIN, "those that took turns have ended")
    assert ask(f"sum(gpud_jobs{{{second}}})") == [({}, 2.0)]


def test_an_exemplar_is_the_trace_of_what_took_so_long(world: World) -> None:
    """For every panel with dots."""
    asked = [target for target in dashboard.targets() if target.exemplar]
    assert asked
    for target in asked:
        found = until(partial(world.prometheus.exemplars, target.expression), WITHIN, target.expression)
        for one in found:
            assert of_trace(world, one["labels"]["trace_id"]), "it was sent"
    for metric, name in (
        ('gpud_job_wait_seconds_bucket{kind="turn"}', "wait"),
        ("gpud_turn_hold_seconds_bucket", "hold"),
    ):
        found = world.prometheus.exemplars(metric)
        long = [one for one in found if float(one["value"]) * SECOND > MILLISECOND]
        assert long, "somebody has waited, and somebody has had the device"
        for one in long:
            spans = [span for span in of_trace(world, one["labels"]["trace_id"]) if span.name == name]
            nearest = min(abs(span.took_ns - float(one["value"]) * SECOND) for span in spans)
            assert nearest <= MILLISECOND, "one of its spans has taken as long"


def test_every_alert_can_be_judged_and_asks_for_what_there_is(world: World) -> None:
    def judged() -> list[dict[str, str]]:
        rules = [rule for group in world.prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = until(judged, WITHIN, "all are judged")
    assert len(rules) == (DEPLOY / "prometheus" / "rules.yml").read_text().count("- alert:")
    for rule in rules:
        assert (rule["health"], rule.get("lastError", "")) == ("ok", ""), rule
        world.prometheus.query(rule["query"])
        selectors = re.findall(r"\b(?:gpud_\w+|up)(?:{[^}]*})?", rule["query"])
        assert selectors
        for selector in selectors:
            assert world.prometheus.series(selector), f"{rule['name']}: nothing is called {selector}"


def test_an_alert_fires(world: World) -> None:
    def fires() -> list[str]:
        alerts = world.prometheus.ask("alerts")["alerts"]
        return [
            one["labels"]["instance"]
            for one in alerts
            if (one["labels"]["alertname"], one["state"]) == ("GpudPolicyRejected", "firing")
        ]

    assert until(fires, WITHIN, "GpudPolicyRejected fires") == [world.rejected]


def test_promtool_finds_nothing_in_a_scrape(world: World) -> None:
    for port in world.ports:
        assert promtool("check", "metrics", text=scrape(("127.0.0.1", port))) == ""


def test_promtool_finds_nothing_in_what_is_shipped(tmp_path: Path) -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "rules.yml")
    promtool("test", "rules", "rules_test.yml")
