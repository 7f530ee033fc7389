"""`[telemetry]` in gpud.toml."""

from pathlib import Path

import pytest

from gpud.config_file import TelemetryConfig
from gpud.model.errors import UsageError
from tests.config_files import configured


def read(etc: Path, text: str, user: str = "") -> TelemetryConfig:
    return configured(etc, text, user).telemetry


def test_without_it_a_variable_decides(etc: Path) -> None:
    assert read(etc, "") == TelemetryConfig(traces=None, sample=10)


@pytest.mark.parametrize("value", ["true", "false", '"http://jaeger:4318"', '"https://c/otlp/v1/traces"'])
def test_where_traces_go(etc: Path, value: str) -> None:
    traces = read(etc, f"[telemetry]\ntraces = {value}").traces
    assert traces == {"true": True, "false": False}.get(value, value.strip('"'))


def test_a_users_key_goes_before_the_systems(etc: Path) -> None:
    found = read(etc, "[telemetry]\ntraces = true\nsample = 3", "[telemetry]\nsample = 7")
    assert found == TelemetryConfig(traces=True, sample=7)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("telemetry = true", ":1: telemetry: True is not a table; write [telemetry]"),
        ("[telemetry]\ntrace = true", ":2: nothing of telemetry is called 'trace'; known are traces, sample"),
        ("[telemetry]\ntraces = 'jaeger:4318'", ":2: telemetry.traces: 'jaeger:4318' is neither true nor false nor"),
        ("[telemetry]\ntraces = 1", ":2: telemetry.traces: 1 is neither"),
        ('[telemetry]\ntraces = "http://a\\nb"', ":2: telemetry.traces: 'http://a\\nb' is neither"),
        ("[telemetry]\nsample = 0", ":2: telemetry.sample: 0 is not a number from 1 to 1,000,000"),
        ("[telemetry]\nsample = true", ":2: telemetry.sample: True is not a number"),
        ("[telemetry]\nsample = 0.5", ":2: telemetry.sample: 0.5 is not a number"),
    ],
)
def test_garbage_names_file_line_and_key(etc: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(etc, text)
    assert str(caught.value).startswith(f"{etc}/gpud.toml{says}")
