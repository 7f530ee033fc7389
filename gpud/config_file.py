"""`gpud.toml`: the places of the daemon's files that are no flag, and whose claims of labels a system daemon believes.

policies = "/srv/gpud/policies"

[claims]
tier = ["@ml-serving", "ann"]

[plugins.vllm]
endpoint = "http://localhost:8000/metrics"

Standard library only.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpud.model.errors import UsageError

NAME = "gpud.toml"
SYSTEM_DIR = Path("/etc/gpud")
MOST_BYTES = 1 << 20


class FileConfig(NamedTuple):
    """What the files say together. A key of the user's file goes before the same key of the system's."""

    policies: Path | None
    """Directory of the policies."""
    claims: dict[str, tuple[str, ...]]
    """Label (`class` for `gpud run --class`) → who may claim it: `@group`, a user, `uid:1000`."""
    plugins: dict[str, dict[str, Any]]
    """Plugin → its settings, which it judges itself."""


def config_dirs(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where gpud's configuration may be, the user's first. Raises UsageError for a relative XDG_CONFIG_HOME."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if base and not base.startswith("/"):
        raise UsageError(f"XDG_CONFIG_HOME: {base!r} is not an absolute path")
    home = environ.get("HOME", "")
    if not base and home.startswith("/"):
        base = os.path.join(home, ".config")
    return (Path(base) / "gpud", SYSTEM_DIR) if base else (SYSTEM_DIR,)


def read_config_files(environ: Mapping[str, str]) -> FileConfig:
    """Raises UsageError that names file and key, what was wrong with it and what is allowed."""
    policies: Path | None = None
    claims: dict[str, tuple[str, ...]] = {}
    plugins: dict[str, dict[str, Any]] = {}
    for directory in config_dirs(environ):
        found = _read(directory / NAME)
        if found is not None:
            policies = policies or found.policies
            claims = claims or found.claims
            plugins = found.plugins | plugins
    return FileConfig(policies, claims, plugins)


def _read(path: Path) -> FileConfig | None:
    try:
        content = _content(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    import tomllib

    try:
        table = tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise UsageError(f"{path}: it is not UTF-8 text") from None
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        raise UsageError(f"{path}: it is not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: it is nested too deeply") from None
    for key in table:
        if key not in FileConfig._fields:
            raise UsageError(f"{path}: nothing is called {key!r}; known are {', '.join(FileConfig._fields)}")
    return FileConfig(
        _policies(path, table.get("policies")), _claims(path, table.get("claims")), _plugins(path, table.get("plugins"))
    )


def _content(path: Path) -> bytes:
    """Never waits for a pipe, and reads no more than counts. Raises OSError, UsageError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UsageError(f"{path}: it is no regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise UsageError(f"{path}: it has more than {MOST_BYTES >> 20} MiB")
    return content


def _policies(path: Path, value: object) -> Path | None:
    """A relative one is below the file's directory."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value:
        raise UsageError(
            f'{path}: policies: {value!r} is not the name of a directory; write policies = "/etc/gpud/mine"'
        )
    return path.parent / os.path.expanduser(value)


def _claims(path: Path, value: object) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(
            f'{path}: claims: {value!r} is not a table; write [claims] and below it tier = ["@ml-serving"]'
        )
    return {str(label): _claimants(path, str(label), who) for label, who in value.items()}


def _plugins(path: Path, value: object) -> dict[str, dict[str, Any]]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(settings, dict) for settings in value.values()):
        raise UsageError(
            f"{path}: plugins: {value!r} is not a table of tables; write [plugins.NAME], below it settings"
        )
    for name, settings in value.items():
        for key, setting in settings.items():
            if _has_date(setting):
                raise UsageError(f"{path}: plugins.{name}.{key}: a date or time is no setting; write it as a text")
    return {str(name): dict(settings) for name, settings in value.items()}


def _has_date(value: object) -> bool:
    """A plugin gets its settings as JSON, which has none."""
    if isinstance(value, dict):
        return any(map(_has_date, value.values()))
    return any(map(_has_date, value)) if isinstance(value, list) else not isinstance(value, str | int | float)


def _claimants(path: Path, label: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.removeprefix("@") for one in value):
        raise UsageError(
            f"{path}: claims.{label}: {value!r} is not a list of claimants; "
            f'write {label} = ["@ml-serving", "ann", "uid:1000"]: a group, a user by name, one by number'
        )
    return tuple(value)
