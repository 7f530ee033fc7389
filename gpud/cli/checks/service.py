"""The daemon: is it there, and does the service manager start it?"""

import os
import shutil
import subprocess
from pathlib import Path

from gpud.cli.checks.finding import FAIL, OK, WARN, Finding, Findings
from gpud.config import Config
from gpud.control.client import Client
from gpud.model.errors import GpudError, NoDaemon

SYSTEMD = Path("/run/systemd/system")
"""There while systemd is the service manager."""
UNIT = "gpud.service"
_PATIENCE_S = 10


def units() -> Findings:
    """Of systemd: the machine's for root, else one's own, or the machine's where that has one."""
    systemctl = shutil.which("systemctl")
    if systemctl is None or not SYSTEMD.is_dir():
        yield Finding(check="units", result=OK, text="no systemd here; start the daemon by hand: gpud serve")
        return
    scopes = [["--system"]] if os.geteuid() == 0 else [["--user"], ["--system"]]
    for scope in scopes:
        state = _state(systemctl, scope)
        if state is None:
            yield Finding(
                check="units", result=WARN, text=f"systemctl {scope[0]} does not answer", remedy="see: systemctl"
            )
        elif state.get("LoadState") == "loaded":
            yield _judge(scope[0], state)
            return
    yield Finding(check="units", result=OK, text=f"{UNIT} is not installed (docs/operations.md says how)")


def _judge(scope: str, state: dict[str, str]) -> Finding:
    words = f"{UNIT} ({scope.removeprefix('--')})"
    active, enabled = state.get("ActiveState", ""), state.get("UnitFileState", "")
    if active == "failed":
        why = state.get("Result", "")
        remedy = f"journalctl {scope} -u gpud -n 30 --no-pager, then systemctl {scope} restart gpud"
        return Finding(check="units", result=FAIL, text=f"{words} has failed ({why})", remedy=remedy)
    if active in ("active", "reloading", "activating"):
        return Finding(check="units", result=OK, text=f"{words} is {active}")
    if enabled in ("enabled", "static", "indirect"):
        return Finding(check="units", result=OK, text=f"{words} starts when its socket is asked")
    remedy = f"systemctl {scope} enable --now gpud.socket"
    return Finding(check="units", result=WARN, text=f"{words} is installed and {enabled or 'disabled'}", remedy=remedy)


def _state(systemctl: str, scope: list[str]) -> dict[str, str] | None:
    command = [systemctl, *scope, "show", UNIT, "--property=LoadState,ActiveState,UnitFileState,Result"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return dict(line.split("=", 1) for line in shown.stdout.splitlines() if "=" in line) or None


def daemon(config: Config) -> Findings:
    """Does a daemon of this version answer?"""
    from gpud import __version__

    try:
        with Client(config, timeout=3.0) as client:
            status = client.status()
    except NoDaemon as error:
        yield Finding(
            check="daemon", result=WARN, text=str(error), remedy="gpud serve (without a GPU: gpud serve --sim)"
        )
        return
    except GpudError as error:
        yield Finding(check="daemon", result=FAIL, text=str(error), remedy="gpud stop, then gpud serve")
        return
    if status.version != __version__:
        yield Finding(
            check="daemon",
            result=WARN,
            text=f"the daemon is of version {status.version}, this command of {__version__}",
            remedy="restart the daemon; programs go on meanwhile",
        )
    elif status.policy_set.differs:
        yield Finding(check="daemon", result=WARN, text=status.policy_set.differs, remedy="see: gpud policy reload")
    elif status.driver != "ok":
        yield Finding(
            check="daemon", result=WARN, text=f"running, but its driver: {status.driver}", remedy="see above: driver"
        )
    else:
        what = f"simulated {status.simulated}" if status.simulated else "real devices"
        yield Finding(check="daemon", result=OK, text=f"version {status.version}, pid {status.pid}, {what}")
