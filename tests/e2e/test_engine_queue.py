"""The example plugin with a real daemon: a serving engine's queue pauses a training job, and the plugin's death harms
nobody. (Its dwell times are the example's own: a second up, five down.)"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from gpud.model.views import JobView
from gpud.testing.command import gpud
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/engine_queue"
SIGNAL = "serving.engine_queue.depth"
PATIENCE_S = 60
"""What is waited for comes in seconds, or never."""


class Engine(BaseHTTPRequestHandler):
    """A serving engine's metrics page, with two models."""

    waiting = 0

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        page = f'vllm:num_requests_waiting{{model="a"}} {self.waiting}.0\nvllm:num_requests_waiting{{model="b"}} 1.0\n'
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def engine() -> Iterator[str]:
    Engine.waiting = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


class Site:
    """A node with the example installed as pip would, its policy, and a job that trains."""

    def __init__(self, directory: Path, url: str, counter: list[str]) -> None:
        self.packages = directory / "site-packages"
        info = self.packages / "gpud_engine_queue-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gpud-engine-queue\nVersion: 0.1.0\n")
        (info / "entry_points.txt").write_text("[gpud.signals]\nengine_queue = gpud_engine_queue:plugin\n")
        self.module = self.packages / "gpud_engine_queue.py"
        self.module.write_text((EXAMPLE / "gpud_engine_queue.py").read_text())
        policies = directory / "policies"
        policies.mkdir()
        (policies / "engine-queue.gpol").write_text((EXAMPLE / "engine-queue.gpol").read_text())
        path = os.pathsep.join([str(self.packages), str(ROOT)])
        self.node = Node(profile="a100-40gb", policies=policies, policy=None, environment={"PYTHONPATH": path})
        settings = self.node.directory / "config" / "gpud"
        settings.mkdir(parents=True)
        (settings / "gpud.toml").write_text(
            f'[plugins.engine_queue]\nurl = "{url}"\nmetric = "vllm:num_requests_waiting"\nclass = "serving"\n'
        )
        self._counter = counter
        self.lines = self.node.directory / "training.txt"

    def train(self) -> None:
        with self.lines.open("w") as out:
            self.training = self.node.run([*self._counter, "1", "0"], stdout=out)
        until(lambda: self.rounds > 2, PATIENCE_S, "training runs")

    @property
    def rounds(self) -> int:
        return self.lines.read_text().count("ok\n")

    @property
    def job(self) -> JobView:
        with self.node.client() as client:
            return client.ps()[0]

    def unknown(self) -> set[str]:
        with self.node.client() as client:
            return {name for row in client.status().policies for one in row.policies for name in one.unknown}

    def plugin(self) -> psutil.Process | None:
        """Its process now."""
        assert self.node.daemon is not None
        children = psutil.Process(self.node.daemon.pid).children()
        return next((child for child in children if "gpud.engine.plugin_child" in child.cmdline()), None)

    def holds(self) -> str:
        """Waits until the training is held; the reason."""
        until(lambda: self.job.state == "held", PATIENCE_S, "training is held")
        why = self.job.why
        assert why is not None
        return why.text

    def goes_on(self) -> None:
        rounds = self.rounds
        until(lambda: self.rounds >= rounds + 3, PATIENCE_S, "training goes on")
        assert self.training.poll() is None  # it ends at the first word that is wrong


@pytest.fixture
def site(tmp_path: Path, engine: str, counter: list[str]) -> Iterator[Site]:
    site = Site(tmp_path, engine, counter)
    with site.node:
        site.train()
        until(lambda: not site.unknown(), PATIENCE_S, "the plugin has published")
        yield site


def test_a_queue_pauses_training_and_its_end_lets_it_go_on(site: Site) -> None:
    Engine.waiting = 31
    site.goes_on()
    assert site.job.state != "held"  # 32 with the other model: not above
    Engine.waiting = 40
    assert "it is paused: “requests pile up”" in site.holds()
    why = gpud(site.node.environment, "why", str(site.job.id)).stdout
    assert "training.pause = true" in why
    assert f"{SIGNAL} = 41" in why
    rounds = site.rounds
    Engine.waiting = 2
    site.goes_on()
    assert site.rounds > rounds
    checked = gpud(site.node.environment, "policy", "test", str(EXAMPLE))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_plugin_that_dies_lets_go_after_a_second_and_harms_nobody(site: Site) -> None:
    Engine.waiting = 40
    site.holds()
    dead = site.plugin()
    assert dead is not None
    works = site.module.read_text()
    site.module.write_text("raise SystemExit('broken by an upgrade')\n")  # so that it stays away
    dead.send_signal(signal.SIGKILL)
    held = site.rounds
    until(lambda: site.rounds > held, PATIENCE_S, "training goes on")
    goes_on_s = time.time()
    log = site.node.log.read_text()
    assert goes_on_s - _said_s(log, "is not known any more") >= 0.9, "for one more second it is held"
    assert f"(not known: {SIGNAL})" in gpud(site.node.environment, "status").stdout
    site.goes_on()
    assert f"{SIGNAL}, which the policy engine-queue reads on device 0, is not known any more" in log
    assert "the plugin engine_queue ended" in log
    assert site.node.daemon is not None
    assert site.node.daemon.poll() is None
    site.module.write_text(works)
    until(lambda: not site.unknown(), PATIENCE_S, "the plugin is back")
    site.holds()


def _said_s(log: str, words: str) -> float:
    """When the daemon said so last."""
    line = next(line for line in reversed(log.splitlines()) if words in line)
    return datetime.strptime(line.split(" gpud ")[0], "%Y-%m-%d %H:%M:%S,%f").timestamp()


def test_a_plugin_that_hangs_likewise(site: Site) -> None:
    Engine.waiting = 40
    site.holds()
    process = site.plugin()
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    held = site.rounds
    until(lambda: site.rounds > held, PATIENCE_S, "training goes on")
    assert (
        f"{SIGNAL}, which the policy engine-queue reads on device 0, is not known any more" in site.node.log.read_text()
    )
    with contextlib.suppress(psutil.NoSuchProcess):  # ended for its silence, if this took very long
        process.send_signal(signal.SIGCONT)
    until(lambda: not site.unknown(), PATIENCE_S, "the signal is known again")
    site.holds()
