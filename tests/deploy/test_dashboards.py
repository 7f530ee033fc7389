"""Compose file, provisioning and dashboard fit together, and nothing of them is reached from another machine."""

import re
import tomllib
from itertools import combinations
from typing import Any

import pytest
import yaml

from gpud.telemetry.metric_values import Histograms
from tests.deploy import dashboard
from tests.deploy.prometheus import DEPLOY

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROVISIONING = DEPLOY / "grafana" / "provisioning"
SOURCES = {
    one["uid"]: one for one in yaml.safe_load((PROVISIONING / "datasources" / "gpud.yaml").read_text())["datasources"]
}
LOOPBACK = "127.0.0.1"


def prometheus_flag(name: str) -> str:
    (value,) = [flag.partition("=")[2] for flag in SERVICES["prometheus"]["command"] if flag.startswith(f"--{name}=")]
    return str(value)


def published() -> dict[str, str]:
    """Container's port → address, of Jaeger."""
    return {port.rpartition(":")[2]: port.rpartition(":")[0] for port in SERVICES["jaeger"]["ports"]}


@pytest.mark.parametrize("name", SERVICES)
def test_all_listen_on_loopback_only(name: str) -> None:
    service = SERVICES[name]
    if service.get("network_mode") != "host":
        assert service["ports"]
        assert all(port.startswith(f"{LOOPBACK}:") for port in service["ports"])
        return
    address = {
        "prometheus": prometheus_flag("web.listen-address").partition(":")[0],
        "grafana": SERVICES["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"],
    }[name]
    assert address == LOOPBACK


def test_what_is_mounted_is_there_and_versions_are_said() -> None:
    for service in SERVICES.values():
        assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", service["image"])
        for mount in service.get("volumes", ()):
            source, _, rest = mount.partition(":")
            assert (DEPLOY / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]
            assert rest.endswith(":ro") == source.startswith("./"), "nothing of the checkout is written"


def test_nobody_can_change_anything_in_grafana() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert environment["GF_AUTH_BASIC_ENABLED"] == "false"


def test_each_finds_the_next_one() -> None:
    """gpud → Prometheus → Grafana → Jaeger ← gpud."""
    listen = re.search(r'^#listen = (".*")$', (DEPLOY / "gpud.toml").read_text(), re.MULTILINE)
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (scraped,) = config["scrape_configs"]
    assert listen is not None
    assert scraped["static_configs"] == [{"targets": [tomllib.loads(f"a = {listen[1]}")["a"]]}]
    source = SOURCES["gpud-prometheus"]
    assert source["url"] == f"http://{prometheus_flag('web.listen-address')}"
    assert source["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]
    (exemplar,) = source["jsonData"]["exemplarTraceIdDestinations"]
    pages = f"http://{published()['16686']}"
    assert exemplar["url"] == f"{pages}/trace/$${{__value.raw}}", "Grafana takes $$ for $"
    assert [link["url"] for link in dashboard.read()["links"]] == [pages]
    assert published().items() >= {"4317": f"{LOOPBACK}:4317", "4318": f"{LOOPBACK}:4318"}.items()
    histograms = Histograms((1.0,))
    histograms.add((), 1, "a" * 32)
    ((_, ((_, _, written), *_), _),) = histograms.rows()  # type: ignore[misc]
    assert list(written.labels) == [exemplar["name"]]


def test_grafana_finds_the_dashboard() -> None:
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "gpud.yaml").read_text())["providers"]
    (mounted,) = [one.split(":")[1] for one in SERVICES["grafana"]["volumes"] if "gpud.json" in one]
    assert mounted == f"{provider['options']['path']}/gpud.json"
    assert mounted == SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]


def test_the_dashboard_is_whole() -> None:
    panels = dashboard.read()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y, (one, other)
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        if panel["type"] == "row":
            continue
        assert panel["targets"], panel["title"]
        assert panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for part in (panel, *panel["targets"]):
            assert SOURCES[part["datasource"]["uid"]]["type"] == part["datasource"]["type"]
    variables = dashboard.read()["templating"]["list"]
    assert all(SOURCES[one["datasource"]["uid"]] for one in variables)
