"""Hot reload with the daemon as a process, as an operator sees it: files, signals, the command line, a hook's page."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpud.model.units import MILLISECOND
from gpud.native import shipped_policies
from gpud.testing.command import gpud
from tests.daemon.conftest import Daemon, until
from tests.engine.test_watch import vim

RESUME_AFTER = 8
"""In what `Program.gate` returns."""
GATE_CHARGE = 64


def policy(quiet: str) -> str:
    """The shipped one with another default."""
    text = (shipped_policies() / "preempt-mix.gpol").read_text()
    assert "quiet    = 3ms" in text
    return text.replace("quiet    = 3ms", f"quiet    = {quiet}")


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """The shipped policies without their tests, which expect 3 ms."""
    directory = tmp_path / "policies"
    shutil.copytree(shipped_policies(), directory, ignore=shutil.ignore_patterns("tests"))
    return directory


@pytest.fixture
def daemon(tmp_path: Path, policies: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "run", policy=None, policies=policies)
    made.start()
    yield made
    made.close()


class Watched:
    """A job of `low`, in whose page the running policy shows."""

    def __init__(self, daemon: Daemon) -> None:
        self.program = daemon.program("batch")
        self.program.attach()

    def until(self, quiet_ms: int) -> None:
        until(lambda: self.quiet_ns() == quiet_ms * MILLISECOND, f"the page says {quiet_ms} ms")

    def quiet_ns(self) -> int:
        return self.program.gate()[RESUME_AFTER]


def asked(daemon: Daemon, *words: str, code: int = 0) -> str:
    """What the command says."""
    result = gpud(daemon.environment, *words)
    assert result.returncode == code, (result.stdout, result.stderr)
    return result.stdout + result.stderr


def asked_json(daemon: Daemon, *words: str, code: int = 0) -> Any:
    return json.loads(asked(daemon, *words, "--json", code=code))


def test_a_save_reaches_the_page(daemon: Daemon, policies: Path) -> None:
    low = Watched(daemon)
    low.until(3)
    vim(policies / "preempt-mix.gpol", policy("5ms"))
    low.until(5)
    fresh = policies / "new.tmp"
    fresh.write_text(policy("6ms"))
    os.rename(fresh, policies / "preempt-mix.gpol")
    low.until(6)


def test_hangup_reloads_and_ends_nothing(daemon: Daemon, policies: Path) -> None:
    low = Watched(daemon)
    assert daemon.process
    for quiet in (5, 6):
        (policies / "preempt-mix.gpol").write_text(policy(f"{quiet}ms"))
        daemon.process.send_signal(signal.SIGHUP)
        low.until(quiet)
    for _ in range(20):
        daemon.process.send_signal(signal.SIGHUP)
    assert daemon.answers()


def test_a_kubernetes_volume(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    for version, quiet in (("..1", "3ms"), ("..2", "7ms")):
        (volume / version).mkdir(parents=True)
        (volume / version / "preempt-mix.gpol").write_text(policy(quiet))
    (volume / "..data").symlink_to("..1")
    (volume / "preempt-mix.gpol").symlink_to("..data/preempt-mix.gpol")
    daemon = Daemon(tmp_path / "run", policy=None, policies=volume)
    try:
        daemon.start()
        low = Watched(daemon)
        low.until(3)
        (volume / "..data_tmp").symlink_to("..2")
        os.rename(volume / "..data_tmp", volume / "..data")
        low.until(7)
        shutil.rmtree(volume / "..1")
        assert asked_json(daemon, "policy", "reload")["result"] == "unchanged"
    finally:
        daemon.close()


def test_a_directory_that_goes_and_comes_back(daemon: Daemon, policies: Path) -> None:
    low = Watched(daemon)
    shutil.rmtree(policies)
    until(lambda: "1 rejected" in asked(daemon, "status"), "the daemon has seen it")
    low.until(3)
    policies.mkdir()
    (policies / "preempt-mix.gpol").write_text(policy("8ms"))
    low.until(8)
    assert "rejected" not in asked(daemon, "status")


def test_what_the_operator_sees_of_a_bad_set(daemon: Daemon, policies: Path) -> None:
    low = Watched(daemon)
    good = asked_json(daemon, "status")["policy_set"]["digest"]
    (policies / "preempt-mix.gpol").write_text(policy("5"))
    until(lambda: "1 rejected" in asked(daemon, "status"), "the daemon has seen it")
    said = asked(daemon, "status")
    assert f"set {good[:4]} (last good)" in said
    assert "1 error in 1 file" in said
    said = asked(daemon, "policy", "reload", code=1)
    assert "error[GP" in said
    assert f"{policies}/preempt-mix.gpol:" in said
    assert f"rejected; set {good[:4]} goes on" in said
    view = asked_json(daemon, "policy", "reload", code=1)
    assert view["rejected"]["findings"][0]["line"] > 0
    assert "error[GP" in asked(daemon, "policy", "diff", code=1)
    assert "error[GP" in asked(daemon, "policy", "show")
    low.until(3)
    (policies / "preempt-mix.gpol").write_text(policy("5ms"))
    low.until(5)
    assert "last good" not in asked(daemon, "status")


def test_diff_reload_history_rollback_show(daemon: Daemon, policies: Path) -> None:
    low = Watched(daemon)
    assert asked(daemon, "policy", "diff") == ""
    assert "nothing has changed" in asked(daemon, "policy", "reload")
    text = policy("5ms").replace("max_pause         = patience", "max_pause         = 4s")
    (policies / "preempt-mix.gpol").write_text(text)
    low.until(5)
    until(lambda: len(asked_json(daemon, "policy", "history")) == 2, "it is in the history")
    rows = asked_json(daemon, "policy", "history")
    assert [(row["number"], row["running"], row["how"]) for row in rows] == [(2, True, "files"), (1, False, "start")]
    assert "files" in asked(daemon, "policy", "history")
    shown = asked(daemon, "policy", "show")
    assert "preempt-mix(quiet = 5ms, work = 2ms, window = 16, patience = 2s)" in shown
    assert asked(daemon, "policy", "show", "preempt-mix.gpol") == text
    assert "no file of the running set is called 'x.gpol'" in asked(daemon, "policy", "show", "x.gpol", code=2)
    assert "runs now" in asked(daemon, "policy", "rollback")
    low.until(3)
    assert "was rolled back" in asked(daemon, "status")
    said = asked(daemon, "policy", "diff", code=1)  # the directory still has the other one
    assert "gpu 0 and every other: preempt-mix" in said
    assert "quiet = 3ms → 5ms" in said
    assert "arbitrate max_pause = patience → 4s" in said
    assert "there is no set number 9" in asked(daemon, "policy", "rollback", "9", code=2)
    assert "runs now" in asked(daemon, "policy", "rollback", "2")
    low.until(5)


def test_history_and_the_last_good_set_survive_a_restart(daemon: Daemon, policies: Path) -> None:
    low = Watched(daemon)
    vim(policies / "preempt-mix.gpol", policy("5ms"))
    low.until(5)
    until(lambda: len(asked_json(daemon, "policy", "history")) == 2, "it is in the history")
    daemon.kill()
    (policies / "preempt-mix.gpol").write_text("gpol 1\npolicy {")
    daemon.start()
    assert "the last good set" in daemon.log()
    assert "error[GP1" in daemon.log()
    assert "(last good)" in asked(daemon, "status")
    low.program.do("disconnect")
    low.program.do("attach", True)
    low.until(5)
    assert [row["number"] for row in asked_json(daemon, "policy", "history")] == [2, 1]


def test_a_bad_set_and_no_good_one_refuses_to_start(tmp_path: Path, policies: Path) -> None:
    (policies / "preempt-mix.gpol").write_text(policy("5"))
    (policies / "quotas.gpol").write_text("gpol 1\npolicy {")
    daemon = Daemon(tmp_path / "run", policy=None, policies=policies)
    process = daemon.spawn()
    assert process.wait(60) == 125
    said = daemon.log()
    assert f"{policies}/preempt-mix.gpol:" in said
    assert f"{policies}/quotas.gpol:2:" in said
    assert "Traceback" not in said


def test_reloads_from_many_sides_at_once(daemon: Daemon, policies: Path) -> None:
    """Saves, signals and commands: whatever is last on disk runs in the end, and nothing is between two sets."""
    low = Watched(daemon)
    assert daemon.process
    answers: list[str] = []

    def ask() -> None:
        for _ in range(5):
            answers.append(asked_json(daemon, "policy", "reload")["result"])

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    for quiet in range(10, 40):
        fresh = policies / "new.tmp"
        fresh.write_text(policy(f"{quiet}ms"))
        os.rename(fresh, policies / "preempt-mix.gpol")
        daemon.process.send_signal(signal.SIGHUP)
        assert low.quiet_ns() in {3 * MILLISECOND, *(q * MILLISECOND for q in range(10, quiet + 1))}
    for asker in askers:
        asker.join()
    assert set(answers) <= {"loaded", "unchanged"}
    low.until(39)


def test_why_and_set(daemon: Daemon) -> None:
    low = Watched(daemon)
    job = next(row["id"] for row in asked_json(daemon, "ps"))
    said = asked(daemon, "why", str(job))
    assert "low, by its match" in said
    assert "max_inflight = 1" in said
    assert "preempt-mix.gpol:" in said
    assert "is high, pinned" in asked(daemon, "set", str(job), "class=high")
    until(lambda: low.program.gate()[0] == GATE_CHARGE, "high is held by nothing")
    assert asked_json(daemon, "why", str(job))["job"]["pinned"]
    assert "is low, by its labels" in asked(daemon, "set", str(job), "class=auto")
    assert "preempt-mix" in asked(daemon, "set", str(job), "class=middle", code=77)
    assert "there is no job 99" in asked(daemon, "set", "99", "class=low", code=2)
    assert "there is no job 99" in asked(daemon, "why", "99", code=2)
    assert "write: gpud set JOB class=NAME" in asked(daemon, "set", str(job), "high", code=2)
    assert "write: gpud set JOB class=NAME" in asked(daemon, "set", str(job), "colour=red", code=2)
