"""Flags and environment → one frozen Config: paths, sockets, the parameters of `gpud serve`.

Standard library only. (`gpud run` has light copies of two of these checks; a test compares them.)
"""

import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpud.model.errors import SetupError, UsageError
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND, parse_duration
from gpud.native import native_dir

LONGEST_SOCKET_PATH = 107
"""Bytes: what fits into sockaddr_un with its closing zero."""
LOG_LEVELS = ("error", "warning", "info", "debug")
DEFAULT_PROFILE = "a100-40gb"

VARIABLES = (
    "GPUD_DISABLE",
    "GPUD_LOG",
    "GPUD_NATIVE_DIR",
    "GPUD_REAL_LIBCUDA",
    "GPUD_RUNTIME_DIR",
    "GPUD_SIM_CACHE",
    "GPUD_SIM_DEVICES",
    "GPUD_SIM_LOG",
    "GPUD_SIM_NODE",
    "GPUD_SIM_PROFILE",
    "GPUD_SIM_PYTHON",
    "GPUD_SIM_TIME_SCALE",
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
    """Holds the sockets, the lock and the state file; 0700."""
    log_level: str
    native_dir: Path
    """Holds libgpud_hook.so and sim/."""
    sim: SimConfig | None
    resume_after_ns: int
    """`high` must be idle for this long before `low` goes on."""
    max_inflight: int
    """Launches of `low` submitted and unfinished; 0 = unlimited."""
    max_pause_ns: int
    """A held tenant gets one launch through after this; FOREVER_NS = never."""
    lease_ns: int = 3 * SECOND
    """A page is valid this long without the daemon."""
    failsafe_after_ns: int = 30 * SECOND
    """What was set is held this long after the lease, then the gates open."""

    @property
    def hook_socket(self) -> Path:
        return self.runtime_dir / "hook.sock"

    @property
    def control_socket(self) -> Path:
        return self.runtime_dir / "control.sock"

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
    resume_after: str | None = None,
    max_inflight: str | None = None,
    max_pause: str | None = None,
) -> Config:
    """Flags (as typed; None = not given) over environment over defaults. `sim`: a profile, "" for the default one.

    Raises UsageError that names the flag or the variable, what was wrong with it and what is allowed.
    """
    environ = os.environ if environ is None else environ
    if environ.get("GPUD_DISABLE", "") not in ("", "0", "1"):
        raise UsageError(f"GPUD_DISABLE: {environ['GPUD_DISABLE']!r} is neither 0 nor 1")
    level = log or environ.get("GPUD_LOG") or "warning"
    if level not in LOG_LEVELS:
        raise UsageError(f"{'--log' if log else 'GPUD_LOG'}: {level!r} is not one of {', '.join(LOG_LEVELS)}")
    directory = _runtime_dir(environ, runtime_dir)
    return Config(
        runtime_dir=directory,
        log_level=level,
        native_dir=native_dir(),
        sim=_sim(environ, sim, directory),
        resume_after_ns=parse_duration(resume_after, "--resume-after") if resume_after else MILLISECOND,
        max_inflight=_count(max_inflight, "--max-inflight") if max_inflight else 1,
        max_pause_ns=_pause(max_pause) if max_pause else 2 * SECOND,
    )


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """GPUD_* variables that nobody reads: probably misspelt."""
    return sorted(name for name in environ if name.startswith("GPUD_") and name not in VARIABLES)


def make_runtime_dir(directory: Path) -> None:
    """Creates the runtime directory with mode 0700, or checks that it is ours alone. Raises SetupError."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
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


def _runtime_dir(environ: Mapping[str, str], flag: str | None) -> Path:
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
        directory = Path("/run/gpud")
    else:
        uid = os.geteuid()
        users = Path(f"/run/user/{uid}")
        ours = users.is_dir() and users.stat().st_uid == uid
        directory = users / "gpud" if ours else Path(f"/tmp/gpud-{uid}")
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


def _count(text: str, where: str) -> int:
    if text == "unlimited":
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) > 0):
        raise UsageError(f"{where}: {text!r} is neither a number from 1 to 999999 nor `unlimited`")
    return int(text)


def _pause(text: str) -> int:
    return FOREVER_NS if text == "unlimited" else parse_duration(text, "--max-pause")
