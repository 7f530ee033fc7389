"""A daemon that is scraped, as a process."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpud.model.units import SECOND
from gpud.native import shipped_policies
from tests.daemon.conftest import Daemon, until
from tests.daemon.test_daemon import _is_quiet
from tests.telemetry.scraper import Scraper, scrape

Make = Callable[..., Daemon]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """`toml`: what its gpud.toml says. Started."""
    made: list[Daemon] = []

    def one(toml: str = "", policies: Path | None = None) -> Daemon:
        config = tmp_path / "config" / "gpud"
        config.mkdir(parents=True)
        (config / "gpud.toml").write_text(toml)
        made.append(Daemon(tmp_path / "run", policies=policies))
        made[0].start()
        return made[0]

    yield one
    for daemon in made:
        daemon.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def values(text: str, family: str) -> dict[tuple[str, ...], float]:
    """Label values, in the order of their names → value."""
    (found,) = [one for one in text_string_to_metric_families(text) if one.name == family]
    return {tuple(value for _, value in sorted(one.labels.items())): one.value for one in found.samples}


def test_a_scrape_of_a_daemon_at_work(make: Make) -> None:
    daemon = make()
    program = daemon.program("online")
    program.attach()
    program.do("set_active", 0, True)
    program.do("set_slot", 0, {"held": 3})
    until(lambda: values(scrape(daemon.config.metrics_socket), "gpud_jobs")["high", "active"] == 1, "it is active")
    text = scrape(daemon.config.metrics_socket)
    assert values(text, "gpud_hook_held_launches")["high", "0"] == 3
    assert values(text, "gpud_job_wait_seconds")["high", "admission"] == 0
    assert values(text, "gpud_gpu_memory_bytes")["0", "total"] == 1 << 30
    program.do("set_slot", 0, {"held": 5, "spent_ns": SECOND // 1000})
    program.kill()

    def gone() -> bool:
        return not sum(values(scrape(daemon.config.metrics_socket), "gpud_jobs").values())

    until(gone, "it has ended")
    text = scrape(daemon.config.metrics_socket)
    assert values(text, "gpud_hook_held_launches")["high", "0"] == 5, "what its page said last counts"


def test_the_socket_is_as_the_others(make: Make) -> None:
    daemon = make()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in daemon.directory.glob("*.sock")}
    assert len(modes) == 1
    assert daemon.config.metrics_socket.exists()
    assert daemon.terminate() == 0
    assert not daemon.config.metrics_socket.exists()


def test_where_only_operators_may_see_anything(make: Make) -> None:
    daemon = make('[control]\nreaders = "operators"\n')
    assert stat.S_IMODE(daemon.config.metrics_socket.stat().st_mode) == 0o600


def test_loopback(make: Make) -> None:
    port = free_port()
    daemon = make(f'[metrics]\nlisten = "127.0.0.1:{port}"\n')
    assert "gpud_jobs" in scrape(("127.0.0.1", port))
    assert "gpud_jobs" in scrape(daemon.config.metrics_socket)


def test_a_port_that_is_taken_costs_the_port(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        daemon = make(f'[metrics]\nlisten = "127.0.0.1:{port}"\n')
    assert f"no metrics at 127.0.0.1:{port}: Address already in use" in daemon.log()
    assert "gpud_jobs" in scrape(daemon.config.metrics_socket)


def test_jobs_for_dcgm_exporter(make: Make, tmp_path: Path) -> None:
    directory = tmp_path / "jobs"
    directory.mkdir()
    daemon = make(f'[metrics]\ndcgm_mapping_dir = "{directory}"\n')
    program = daemon.program("online")
    program.attach()
    until(lambda: (directory / "0").exists() and (directory / "0").read_text() == "1\n", "job 1 is on device 0")
    program.end()
    until(lambda: (directory / "0").read_text() == "", "it is gone")


def test_nobody_wakes_an_idle_daemon(make: Make) -> None:
    """Nor does one that was scraped."""
    daemon = make()
    assert daemon.process
    pid = daemon.process.pid
    assert "gpud_loop_lag_seconds" in scrape(daemon.config.metrics_socket)
    until(lambda: _is_quiet(pid, 2), "there is no timer")


def test_scrapes_in_the_middle_of_reloads(make: Make, tmp_path: Path) -> None:
    """Two scrapers, and a policy that is another one each time, or none at all."""
    policies = tmp_path / "policies"
    policies.mkdir()
    text = (shipped_policies() / "preempt-mix.gpol").read_text()
    (policies / "preempt-mix.gpol").write_text(text)
    daemon = make(policies=policies)
    program = daemon.program("online")
    program.attach()
    over, pages, errors = threading.Event(), [0], list[BaseException]()

    def go_on() -> None:
        try:
            while not over.is_set():
                jobs = values(scrape(daemon.config.metrics_socket), "gpud_jobs")
                assert sum(jobs.values()) == 1, jobs
                pages[0] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=go_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with daemon.client() as client:
            for number in range(6):
                said = text.replace("high", f"top{number}") if number % 2 else text[: len(text) // 2]
                (policies / "preempt-mix.gpol").write_text(said)
                client.reload()
        seen = pages[0]
        until(lambda: pages[0] > seen + 3 or errors, "they still scrape")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert errors == []
    reloads = values(scrape(daemon.config.metrics_socket), "gpud_policy_reloads")
    assert (reloads["applied",] > 0, reloads["rejected",] > 0) == (True, True)
    assert "Traceback" not in daemon.log()


def test_a_scraper_that_does_not_read_does_not_keep_it(make: Make) -> None:
    daemon = make()
    assert daemon.process
    with Scraper(daemon.config.metrics_socket) as deaf:
        for _ in range(3):
            deaf.send()
        assert daemon.answers()
        daemon.process.send_signal(signal.SIGTERM)
        try:
            assert daemon.process.wait(4) == 0
        except subprocess.TimeoutExpired:
            pytest.fail("it waits for somebody who does not read")


def test_scraped_by_somebody_else(make: Make) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    daemon = make()
    code = "import sys, os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
    for parent in [daemon.directory, *daemon.directory.parents]:
        if parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(daemon.config.metrics_socket)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
