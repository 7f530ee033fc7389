"""Where the daemon's sockets and the native parts are. Standard library only, and cheap: `gpud run` imports this."""

import os
import stat
from collections.abc import Mapping

from gpud.cli.failure import EXIT_USAGE, Failure

SYSTEM_RUNTIME_DIR = "/run/gpud"
SOCKET_PATH_MAX = 107
"""Bytes of a Unix socket's path, without the terminating zero."""


def runtime_dir(environment: Mapping[str, str]) -> str:
    """The runtime directory: `$GPUD_RUNTIME_DIR`, else below `$XDG_RUNTIME_DIR`, else the usual places; where no daemon
    is there, that of the machine's daemon if there is one.

    The same as `gpud.config` finds (a test compares them). Raises `Failure` for a relative path, for one that is too
    long for sockets, and for a directory that somebody else owns or may write.
    """
    name = "GPUD_RUNTIME_DIR" if environment.get("GPUD_RUNTIME_DIR") else "XDG_RUNTIME_DIR"
    given = environment.get(name, "")
    if given and not given.startswith("/"):
        raise Failure(f"{name} is not an absolute path: {given!r}", "correct it, or unset it", code=EXIT_USAGE)
    directory = given or _usual()
    if given and name == "XDG_RUNTIME_DIR":
        directory = os.path.join(given, "gpud")
    if name == "XDG_RUNTIME_DIR" and not _has_daemon(directory) and _has_daemon(SYSTEM_RUNTIME_DIR):
        directory = SYSTEM_RUNTIME_DIR
    length = len(os.fsencode(os.path.join(directory, "control.sock")))
    if length > SOCKET_PATH_MAX:
        raise Failure(
            f"the socket path {directory}/control.sock has {length} bytes; {SOCKET_PATH_MAX} are allowed",
            "set GPUD_RUNTIME_DIR to a shorter directory, for the daemon and for its jobs",
            code=EXIT_USAGE,
        )
    _check_owner(directory)
    return directory


def _has_daemon(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, "control.sock"))


def _usual() -> str:
    uid = os.geteuid()
    if uid == 0:
        return SYSTEM_RUNTIME_DIR
    users = f"/run/user/{uid}"
    try:
        ours = os.path.isdir(users) and os.stat(users).st_uid == uid
    except OSError:
        ours = False
    return f"{users}/gpud" if ours else f"/tmp/gpud-{uid}"


def _check_owner(directory: str) -> None:
    """Somebody else who owns or may write the directory could pose as the daemon. One that is not there passes."""
    try:
        found = os.lstat(directory)
    except OSError:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise Failure(f"the runtime directory {directory} is not a directory", "remove it, or set GPUD_RUNTIME_DIR")
    if found.st_uid not in (os.geteuid(), 0):
        raise Failure(
            f"the runtime directory {directory} belongs to user {found.st_uid}, not to you",
            "set GPUD_RUNTIME_DIR to one of yours",
        )
    if found.st_mode & 0o022:
        raise Failure(f"others may write the runtime directory {directory}", f"chmod 0700 {directory}")


def native_dir(environment: Mapping[str, str]) -> str:
    """The directory of `libgpud_hook.so` and `sim/`: `$GPUD_NATIVE_DIR`, else inside the package (as `gpud.native`)."""
    return environment.get("GPUD_NATIVE_DIR") or os.path.join(os.path.dirname(os.path.dirname(__file__)), "_native")
