"""What is shipped for a machine's administrator: units of systemd, and the configuration with its comments."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path

import pytest

from gpud import config_file
from gpud.config import Config, load_config
from gpud.config_file import ControlConfig, FileConfig, read_config_files
from gpud.control.client import Client
from gpud.testing.node import until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NOBODY = 65534
AS_NOBODY = f"""
import os, sys
from gpud.cli.run import run
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
sys.exit(run(["--name", "theirs", "sleep", "600"]))
"""
"""Started as root: this Python may lie where nobody else can read."""
SCOPES = {"system": DEPLOY, "user": DEPLOY / "user"}


def unit(path: Path) -> RawConfigParser:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path)
    return parser


@pytest.mark.parametrize("scope", SCOPES)
def test_systemd_takes_the_units(scope: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    command = tmp_path / "gpud"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    for name in ("gpud.service", "gpud.socket"):
        text = (SCOPES[scope] / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/bin/gpud", str(command)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", f"--{scope}", *sorted(tmp_path.glob("gpud.s*"))],
        capture_output=True, text=True, timeout=120, env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr  # what it ignores it warns of


@pytest.mark.parametrize("scope", SCOPES)
def test_service_and_socket_name_the_same_places(scope: str) -> None:
    service, sockets = unit(SCOPES[scope] / "gpud.service"), unit(SCOPES[scope] / "gpud.socket")
    environment = dict(word.split("=", 1) for word in service["Service"].get("Environment", "").split())
    directory = environment.get("GPUD_RUNTIME_DIR", "%t/gpud")  # a user's is found by XDG_RUNTIME_DIR, which is %t
    assert ("GPUD_STATE_DIR" in environment) == (scope == "system")  # else what shall outlive a reboot would lie in %t
    assert sockets["Socket"]["ListenSequentialPacket"] == f"{directory}/hook.sock"
    assert sockets["Socket"]["ListenStream"] == f"{directory}/control.sock"
    assert sockets["Socket"]["DirectoryMode"] == service["Service"]["RuntimeDirectoryMode"]
    assert service["Service"]["Type"] == "notify"
    assert service["Unit"]["Requires"] == "gpud.socket"
    assert "RuntimeDirectoryPreserve" in service["Service"]  # what running jobs are taken over by lies there


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Which everybody can enter."""
    directory = Path(tempfile.mkdtemp(prefix="gpud-t-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.usefixtures("read_by_others")
def test_what_the_unit_leaves_root_is_enough(open_directory: Path) -> None:
    """With the capabilities of gpud.service, and no way to more, the daemon sees what others run, and ends it."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("needs root, and setpriv")
    words = unit(DEPLOY / "gpud.service")["Service"]["CapabilityBoundingSet"].split()
    kept = ",".join(["-all", *(f"+{word.removeprefix('CAP_').lower()}" for word in words)])
    gpud = [sys.executable, "-m", "gpud.cli.main"]
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("GPUD_", "XDG_"))}
    environment = ours | {"GPUD_RUNTIME_DIR": str(open_directory / "run"), "HOME": str(open_directory)}
    serve = [setpriv, "--no-new-privs", f"--bounding-set={kept}", *gpud, "serve", "--policy", "preempt-mix"]
    daemon = subprocess.Popen(serve, env=environment, stderr=subprocess.DEVNULL)
    job = None
    try:
        with Client(until(lambda: _config(environment), 60, "the daemon listens"), 60) as client:
            job = subprocess.Popen([sys.executable, "-c", AS_NOBODY], env=environment, cwd="/", start_new_session=True)
            (found,) = until(client.ps, 60, "the job is there")
            assert (found.name, found.user) == ("theirs", "nobody")
            client.kill(found.id, "KILL")
            assert job.wait(60) in (128 + 9, -9)  # `gpud run` is of the job, too, and is killed with it
    finally:
        if job is not None and job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        daemon.kill()
        daemon.wait()


def _config(environment: dict[str, str]) -> Config | None:
    config = load_config(environment)
    return config if config.control_socket.exists() else None


def test_the_shipped_configuration_is_read_and_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gpud").mkdir()
    shutil.copy(DEPLOY / "gpud.toml", tmp_path / "gpud" / "gpud.toml")
    monkeypatch.setattr(config_file, "SYSTEM_DIR", tmp_path / "none")
    assert read_config_files({"XDG_CONFIG_HOME": str(tmp_path)}) == FileConfig(None, {}, {}, ControlConfig())


def test_it_has_every_key_and_its_examples_can_be_switched_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (DEPLOY / "gpud.toml").read_text()
    switched = re.sub(r"^#(?! |$)", "", text, flags=re.M)
    (tmp_path / "gpud").mkdir()
    (tmp_path / "gpud" / "gpud.toml").write_text(switched)
    monkeypatch.setattr(config_file, "SYSTEM_DIR", tmp_path / "none")
    found = read_config_files({"XDG_CONFIG_HOME": str(tmp_path)})
    assert found.policies == Path("/etc/gpud/policies")
    assert found.claims == {"tier": ("@ml-serving", "ann"), "class": ()}
    assert found.control == ControlConfig()
    assert found.plugins == {"queue_depth": {"url": "http://localhost:8000/metrics"}}
    told = tomllib.loads(switched)
    assert set(told) == set(FileConfig._fields)
    for key, usual in FileConfig._field_defaults.items():
        assert set(told[key]) == set(usual._fields), key
