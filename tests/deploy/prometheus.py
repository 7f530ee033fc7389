"""Debian's Prometheus on loopback, as deploy/ starts it: its configuration, rules and flags, with other ports and at a
faster pace."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from gpud.testing.node import until

DEPLOY = Path(__file__).parents[2] / "deploy"
WITHIN = 120
"""Seconds. Nothing here is about time; this is for a machine that does much else."""
MISSING = (
    "" if shutil.which("prometheus") and shutil.which("promtool") else "no Prometheus (Debian's package prometheus)"
)
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def promtool(*words: str, text: str = "", cwd: Path = DEPLOY / "prometheus") -> str:
    """What it says to its standard output. Raises AssertionError when it finds something."""
    done = subprocess.run(["promtool", *words], input=text, text=True, capture_output=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """Scrapes these targets ten times in three seconds, and judges its rules as often."""

    def __init__(self, directory: Path, targets: Sequence[str]) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self.log = directory / "prometheus.log"
        self._url = ""
        text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        for old, new in (
            ('"127.0.0.1:9400"', ", ".join(f'"{one}"' for one in targets)),
            ("scrape_interval: 15s", "scrape_interval: 300ms"),
            ("evaluation_interval: 15s", "evaluation_interval: 300ms"),
        ):
            assert old in text, f"prometheus.yml says {old}"
            text = text.replace(old, new)
        (directory / "prometheus.yml").write_text(text)
        shutil.copy(DEPLOY / "prometheus" / "rules.yml", directory)

    def __enter__(self) -> Self:
        for _ in range(5):  # somebody else may take the port meanwhile
            if self._started(free_port()):
                return self
        raise AssertionError(self.log.read_text())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _started(self, port: int) -> bool:
        flags = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["prometheus"]["command"]
        changed = [
            flag.replace("/etc/prometheus", str(self.directory))
            .replace("=/prometheus", f"={self.directory / 'data'}")
            .replace("127.0.0.1:9090", f"127.0.0.1:{port}")
            for flag in flags
        ]
        assert sum(one != other for one, other in zip(flags, changed, strict=True)) == 3
        with self.log.open("wb") as log:
            process = self.process = subprocess.Popen(["prometheus", *changed], stdout=log, stderr=log)
        self._url = f"http://127.0.0.1:{port}"
        until(lambda: process.poll() is not None or self._is_ready(), WITHIN, "Prometheus is ready, or has ended")
        return process.poll() is None

    def _is_ready(self) -> bool:
        try:
            with _OPENER.open(f"{self._url}/-/ready", timeout=WITHIN) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, what: str, **arguments: str) -> Any:
        """The `data` of an answer of its API. Raises AssertionError with what it says."""
        query = urllib.parse.urlencode({name.replace("match", "match[]"): value for name, value in arguments.items()})
        try:
            with _OPENER.open(f"{self._url}/api/v1/{what}?{query}", timeout=WITHIN) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of all series, now. NaN is none."""
        data = self.ask("query", query=expression)
        assert data["resultType"] == "vector", expression
        rows = [(row["metric"], float(row["value"][1])) for row in data["result"]]
        return [(labels, value) for labels, value in rows if value == value]

    def series(self, selector: str) -> list[dict[str, str]]:
        """All that there ever were."""
        return list(self.ask("series", match=selector, **_ever()))

    def values(self, label: str, selector: str) -> list[str]:
        return list(self.ask(f"label/{label}/values", match=selector, **_ever()))

    def exemplars(self, expression: str) -> list[dict[str, Any]]:
        found = self.ask("query_exemplars", query=expression, **_ever())
        return [one | {"series": row["seriesLabels"]} for row in found for one in row["exemplars"]]


def _ever() -> dict[str, str]:
    now = time.time()
    return {"start": str(now - 3600), "end": str(now + 60)}
