"""Flags, environment and gpud.toml → one frozen Config: paths and sockets. What holds for jobs is in policies.

Standard library only. (`gpud run` has light copies of two of these checks; a test compares them.)
"""

import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from gpud.config_file import (
    NAME,
    ControlConfig,
    FileConfig,
    JournalConfig,
    MetricsConfig,
    TelemetryConfig,
    config_dirs,
    read_config_files,
)
from gpud.model.errors import SetupError, UsageError
from gpud.model.units import SECOND
from gpud.native import native_dir, shipped_policies

LONGEST_SOCKET_PATH = 107
"""Bytes: what fits into sockaddr_un with its closing zero."""
SYSTEM_RUNTIME_DIR = Path("/run/gpud")
_SOCKET = "control.sock"
LOG_LEVELS = ("error", "warning", "info", "debug")
DEFAULT_PROFILE = "a100-40gb"

VARIABLES = (
    "GPUD_DISABLE",
    "GPUD_LOG",
    "GPUD_NATIVE_DIR",
    "GPUD_OPTIONAL",
    "GPUD_POLICIES",
    "GPUD_REAL_LIBCUDA",
    "GPUD_RUNTIME_DIR",
    "GPUD_SIM_CACHE",
    "GPUD_SIM_DEVICES",
    "GPUD_SIM_FAULTS",
    "GPUD_SIM_LOG",
    "GPUD_SIM_MODE",
    "GPUD_SIM_NODE",
    "GPUD_SIM_PROFILE",
    "GPUD_SIM_PYTHON",
    "GPUD_SIM_TIME_SCALE",
    "GPUD_STATE_DIR",
)
"""Every variable gpud reads, as in hooks-native/tbl/env.h."""


class SimConfig(NamedTuple):
    """A simulated node instead of the real driver."""

    node: str
    """Processes with the same name share its devices."""
    profile: str
    """Name of a profile, or path of a .toml file."""
    devices: int
    time_scale: float | None
    """Wall time = model time × this; None: as the profile says."""
    log: str | None
    """File of the device log."""


class Config(NamedTuple):
    """What one daemon, or one command that talks to it, needs to know."""

    runtime_dir: Path
    """Holds the sockets, the lock and the state file; 0700, or 0755 of the machine's daemon."""
    log_level: str
    native_dir: Path
    """Holds libgpud_hook.so and sim/."""
    sim: SimConfig | None
    policies: Path
    """Directory of the policies."""
    policies_by: str
    """What named it, for messages: `--policies`, `GPUD_POLICIES`, `gpud.toml`, or `default`."""
    state_dir: Path
    """Keeps the policies that ran, so that good ones survive a restart; 0700."""
    applied: str | None = None
    """Of `--policy`: what every device gets, in place of the `apply` lines: `preempt-mix(quiet = 1ms), quotas`."""
    claims: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Label → who may claim it (config_file.py)."""
    plugins: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """Plugin → its settings."""
    control: ControlConfig = ControlConfig()
    """Who may ask the daemon what."""
    telemetry: TelemetryConfig = TelemetryConfig()
    """Which traces leave the daemon."""
    metrics: MetricsConfig = MetricsConfig()
    """Where metrics go."""
    journal: JournalConfig = JournalConfig()
    """What happened, on disk."""
    system: bool = False
    """The machine's daemon, not one user's: it believes a claim of others only if `claims` allows it."""
    lease_ns: int = 3 * SECOND
    """A page is valid this long without the daemon."""
    failsafe_after_ns: int = 30 * SECOND
    """What was set is held this long after the lease, then the gates open."""

    @property
    def hook_socket(self) -> Path:
        return self.runtime_dir / "hook.sock"

    @property
    def control_socket(self) -> Path:
        return self.runtime_dir / _SOCKET

    @property
    def metrics_socket(self) -> Path:
        return self.runtime_dir / "metrics.sock"

    @property
    def journal_dir(self) -> Path:
        return self.journal.directory or self.state_dir / "journal"

    @property
    def lock_file(self) -> Path:
        return self.runtime_dir / "daemon.lock"

    @property
    def state_file(self) -> Path:
        return self.runtime_dir / "state.json"


def load_config(
    environ: Mapping[str, str] | None = None,
    *,
    runtime_dir: str | None = None,
    log: str | None = None,
    sim: str | None = None,
    policies: str | None = None,
    policy: str | None = None,
    serving: bool = False,
) -> Config:
    """Flags (as typed; None = not given) over environment over gpud.toml over defaults. `sim`: a profile, "" for the
    default one. `serving`: for a daemon of one's own, never the system's.

    Raises UsageError that names the flag, the variable or file and key, what was wrong with it and what is allowed.
    """
    environ = os.environ if environ is None else environ
    if environ.get("GPUD_DISABLE", "") not in ("", "0", "1"):
        raise UsageError(f"GPUD_DISABLE: {environ['GPUD_DISABLE']!r} is neither 0 nor 1")
    level = log or environ.get("GPUD_LOG") or "warning"
    if level not in LOG_LEVELS:
        raise UsageError(f"{'--log' if log else 'GPUD_LOG'}: {level!r} is not one of {', '.join(LOG_LEVELS)}")
    directory = _runtime_dir(environ, runtime_dir, serving=serving)
    file = read_config_files(environ)
    found, by = _policies(environ, policies, file)
    return Config(
        runtime_dir=directory,
        log_level=level,
        native_dir=native_dir(),
        sim=_sim(environ, sim, directory),
        policies=found,
        policies_by=by,
        state_dir=_state_dir(
            environ,
            directory if runtime_dir or environ.get("GPUD_RUNTIME_DIR") else None,
            of_machine=directory == SYSTEM_RUNTIME_DIR,
        ),
        applied=policy,
        claims=file.claims,
        plugins=file.plugins,
        control=file.control,
        telemetry=file.telemetry,
        metrics=file.metrics,
        journal=file.journal,
        system=os.geteuid() == 0,
    )


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """GPUD_* variables that nobody reads: probably misspelt."""
    return sorted(name for name in environ if name.startswith("GPUD_") and name not in VARIABLES)


def make_runtime_dir(directory: Path, *, everybody: bool = False) -> None:
    """Creates the runtime directory with mode 0700, or 0755 where everybody may come in, or checks that nobody else may
    write it. Raises SetupError."""
    try:
        there = directory.exists()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if everybody and not there:
            directory.chmod(0o755)  # whatever the umask says; one that was there is as its maker wants it
    except OSError as error:
        raise SetupError(
            f"cannot make the runtime directory {directory}: {error.strerror}; "
            "set GPUD_RUNTIME_DIR to a place you can write"
        ) from error
    check_runtime_dir(directory)


def check_runtime_dir(directory: Path) -> None:
    """Nobody else may own or write the directory, else somebody else could pose as the daemon. Raises SetupError.

    A directory that is not there passes: whoever connects says that there is no daemon.
    """
    try:
        found = directory.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SetupError(f"cannot look at the runtime directory {directory}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise SetupError(f"the runtime directory {directory} is not a directory; remove it, or set GPUD_RUNTIME_DIR")
    if found.st_uid not in (os.geteuid(), 0):
        raise SetupError(
            f"the runtime directory {directory} belongs to user {found.st_uid}, not to you; "
            "set GPUD_RUNTIME_DIR to one of yours"
        )
    if found.st_mode & 0o022:
        raise SetupError(f"others may write the runtime directory {directory}; chmod 0700 {directory}")


def _runtime_dir(environ: Mapping[str, str], flag: str | None, *, serving: bool) -> Path:
    given = flag or environ.get("GPUD_RUNTIME_DIR")
    name = "--runtime-dir" if flag else "GPUD_RUNTIME_DIR"
    if given:
        directory = Path(given)
        if not directory.is_absolute():
            raise UsageError(f"{name}: {given!r} is not an absolute path")
    elif environ.get("XDG_RUNTIME_DIR"):
        name, directory = "XDG_RUNTIME_DIR", Path(environ["XDG_RUNTIME_DIR"]) / "gpud"
        if not directory.is_absolute():
            raise UsageError(f"XDG_RUNTIME_DIR: {environ['XDG_RUNTIME_DIR']!r} is not an absolute path")
    elif os.geteuid() == 0:
        directory = SYSTEM_RUNTIME_DIR
    else:
        uid = os.geteuid()
        users = Path(f"/run/user/{uid}")
        ours = users.is_dir() and users.stat().st_uid == uid
        directory = users / "gpud" if ours else Path(f"/tmp/gpud-{uid}")
    if not given and not serving and not (directory / _SOCKET).exists() and (SYSTEM_RUNTIME_DIR / _SOCKET).exists():
        directory = SYSTEM_RUNTIME_DIR  # the user has no daemon, and the machine has
    if "\0" in str(directory):
        raise UsageError(f"{name}: a path cannot hold a zero byte")
    length = len(os.fsencode(directory / "control.sock"))
    if length > LONGEST_SOCKET_PATH:
        raise UsageError(
            f"{name}: the socket path {directory}/control.sock has {length} bytes, {LONGEST_SOCKET_PATH} are possible; "
            "set GPUD_RUNTIME_DIR to a shorter one"
        )
    return directory


def _sim(environ: Mapping[str, str], profile: str | None, directory: Path) -> SimConfig | None:
    """The variables are checked in any case, so that garbage is never silent."""
    devices = environ.get("GPUD_SIM_DEVICES") or "1"
    if devices not in tuple("12345678"):
        raise UsageError(f"GPUD_SIM_DEVICES: {devices!r} is not a number from 1 to 8")
    scale_text = environ.get("GPUD_SIM_TIME_SCALE") or ""
    try:
        scale = float(scale_text) if scale_text else None
    except ValueError:
        scale = -1.0
    if scale is not None and not 0.001 <= scale <= 1000:
        raise UsageError(f"GPUD_SIM_TIME_SCALE: {scale_text!r} is not a number from 0.001 to 1000")
    node = environ.get("GPUD_SIM_NODE") or f"gpud-{os.geteuid()}-{zlib.crc32(os.fsencode(directory)):08x}"
    if len(node) > 64 or not all(c.isascii() and (c.isalnum() or c in "._-") for c in node):
        raise UsageError(f"GPUD_SIM_NODE: {node!r} is not 1 to 64 letters, digits, dots, dashes and underscores")
    if profile is None:
        return None
    profile = profile or environ.get("GPUD_SIM_PROFILE") or DEFAULT_PROFILE
    if "/" in profile or profile.endswith(".toml"):
        profile = os.path.abspath(profile)  # jobs run in other directories
    return SimConfig(
        node=node,
        profile=profile,
        devices=int(devices),
        time_scale=scale,
        log=os.path.abspath(environ["GPUD_SIM_LOG"]) if environ.get("GPUD_SIM_LOG") else None,
    )


def _policies(environ: Mapping[str, str], flag: str | None, file: FileConfig) -> tuple[Path, str]:
    """The directory, and what named it. One that is named need not be there yet; of the usual ones, the first that
    is."""
    for name, given in (("--policies", flag), ("GPUD_POLICIES", environ.get("GPUD_POLICIES"))):
        if given and "\0" in given:
            raise UsageError(f"{name}: a path cannot hold a zero byte")
        if given and name != "--policies" and not os.path.isabs(given):
            raise UsageError(f"{name}: {given!r} is not an absolute path")
        if given:
            return Path(os.path.abspath(given)), name
    if file.policies is not None:
        return file.policies, NAME
    usual = (directory / "policies" for directory in config_dirs(environ))
    return next((directory for directory in usual if directory.is_dir()), shipped_policies()), "default"


def _state_dir(environ: Mapping[str, str], runtime_dir: Path | None, *, of_machine: bool) -> Path:
    """`runtime_dir`: one that was named, whose daemon then keeps its state there, apart from all others. `of_machine`:
    it is the machine's daemon that is asked."""
    for name in ("GPUD_STATE_DIR", "XDG_STATE_HOME"):
        if environ.get(name) and not os.path.isabs(environ[name]):
            raise UsageError(f"{name}: {environ[name]!r} is not an absolute path")
    if environ.get("GPUD_STATE_DIR"):
        return Path(environ["GPUD_STATE_DIR"])
    if runtime_dir is not None:
        return runtime_dir / "state"
    if os.geteuid() == 0 or of_machine:
        return Path("/var/lib/gpud")
    if environ.get("XDG_STATE_HOME"):
        return Path(environ["XDG_STATE_HOME"]) / "gpud"
    home = environ.get("HOME", "")
    return Path(home if home.startswith("/") else f"/tmp/gpud-{os.geteuid()}") / ".local" / "state" / "gpud"
