"""`gpud.toml`: the places of the daemon's files that are no flag, and whose claims of labels a system daemon believes.

policies = "/srv/gpud/policies"

[claims]
tier = ["@ml-serving", "ann"]

[plugins.vllm]
endpoint = "http://localhost:8000/metrics"

Standard library only.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpud.model.errors import UsageError

NAME = "gpud.toml"
SYSTEM_DIR = Path("/etc/gpud")


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
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    import tomllib

    try:
        table = tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise UsageError(f"{path}: it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: it is not TOML: {error}") from None
    for key in table:
        if key not in FileConfig._fields:
            raise UsageError(f"{path}: nothing is called {key!r}; known are {', '.join(FileConfig._fields)}")
    return FileConfig(
        _policies(path, table.get("policies")), _claims(path, table.get("claims")), _plugins(path, table.get("plugins"))
    )


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
    return {str(name): dict(settings) for name, settings in value.items()}


def _claimants(path: Path, label: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.removeprefix("@") for one in value):
        raise UsageError(
            f"{path}: claims.{label}: {value!r} is not a list of claimants; "
            f'write {label} = ["@ml-serving", "ann", "uid:1000"]: a group, a user by name, one by number'
        )
    return tuple(value)
