"""`gpud.toml`: the places of the daemon's files that are no flag, whose claims of labels a system daemon believes, who
may ask it what, where traces go, how much of what happened is kept.

policies = "/srv/gpud/policies"

[claims]
tier = ["@ml-serving", "ann"]

[control]
operators = "gpud-operators"
readers = "everyone"

[telemetry]
traces = "http://localhost:4318"
sample = 10

[metrics]
listen = "127.0.0.1:9400"

[journal]
max_bytes = 268435456

[plugins.vllm]
endpoint = "http://localhost:8000/metrics"

Standard library only.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpud.model.errors import UsageError

NAME = "gpud.toml"
SYSTEM_DIR = Path("/etc/gpud")
MOST_BYTES = 1 << 20


READERS = ("everyone", "owners", "operators")


class ControlConfig(NamedTuple):
    """Who may ask the daemon what."""

    operators: str = "gpud-operators"
    """A group whose members may do everything, as root and the daemon's own user may."""
    readers: str = "everyone"
    """Who sees others' jobs: `everyone`; `owners`: nobody, who has jobs sees own ones; `operators`: nobody else sees
    anything."""


class TelemetryConfig(NamedTuple):
    """Which traces leave the daemon. Variables of OpenTelemetry (`OTEL_*`) go before."""

    traces: bool | str | None = None
    """URL of an OTLP endpoint; True: the usual one, on this machine; False: none leave; None: only where a variable
    names an endpoint."""
    sample: int = 10
    """Of turns that nothing is special about, one in so many is told."""


class MetricsConfig(NamedTuple):
    """Where metrics go, beside the socket in the runtime directory."""

    listen: str = ""
    """`127.0.0.1:9400`; "": nowhere else."""
    allow_remote: bool = False
    """`listen` may be an address that other machines reach: there is neither a password nor encryption."""
    dcgm_mapping_dir: str = ""
    """Where dcgm-exporter looks for the jobs of devices; "": nobody tells it."""

    @property
    def address(self) -> tuple[str, int] | None:
        """Of `listen`."""
        host, _, port = self.listen.rpartition(":")
        return (host.strip("[]").replace("localhost", "127.0.0.1"), int(port)) if self.listen else None


class JournalConfig(NamedTuple):
    """What happened, on disk."""

    directory: Path | None = None
    """None: `journal` in the state directory."""
    max_bytes: int = 256 << 20
    """Of all its files; 0: there is none."""


class FileConfig(NamedTuple):
    """What the files say together. A key of the user's file goes before the same key of the system's."""

    policies: Path | None
    """Directory of the policies."""
    claims: dict[str, tuple[str, ...]]
    """Label (`class` for `gpud run --class`) → who may claim it: `@group`, a user, `uid:1000`."""
    plugins: dict[str, dict[str, Any]]
    """Plugin → its settings, which it judges itself."""
    control: ControlConfig = ControlConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    metrics: MetricsConfig = MetricsConfig()
    journal: JournalConfig = JournalConfig()


class _File(NamedTuple):
    """One file, for messages."""

    path: Path
    text: str

    def at(self, *keys: str) -> str:
        """`/etc/gpud/gpud.toml:12`, where a key, or a key of a table, is; without the line where it is not found."""
        wanted, table = ".".join(keys), ""
        for number, line in enumerate(self.text.splitlines(), 1):
            said = line.replace('"', "").replace("'", "").strip()
            if said.startswith("["):
                table = key = said.partition("#")[0].strip(" []")
                found = f"{key}.".startswith(f"{wanted}.")
            else:
                key = said.partition("=")[0].strip()
                found = "=" in said and f"{table}.{key}".strip(".") == wanted
            if found:
                return f"{self.path}:{number}"
        return self.at(keys[0]) if len(keys) > 1 else str(self.path)


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
    tables: dict[str, dict[str, Any]] = {name: {} for name in _TABLES}
    for directory in config_dirs(environ):
        found = _read(directory / NAME)
        if found is not None:
            policies = policies or found[0].policies
            claims = claims or found[0].claims
            plugins = found[0].plugins | plugins
            tables = {name: found[1][name] | said for name, said in tables.items()}
    return FileConfig(
        policies,
        claims,
        plugins,
        ControlConfig(**tables["control"]),
        TelemetryConfig(**tables["telemetry"]),
        MetricsConfig(**tables["metrics"]),
        JournalConfig(**tables["journal"]),
    )


def _read(path: Path) -> tuple[FileConfig, dict[str, dict[str, Any]]] | None:
    """With what it says of each of _TABLES."""
    try:
        content = _content(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    import tomllib

    try:
        file = _File(path, content.decode())
        table = tomllib.loads(file.text)
    except UnicodeDecodeError:
        raise UsageError(f"{path}: it is not UTF-8 text") from None
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        raise UsageError(f"{path}: it is not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: it is nested too deeply") from None
    for key in table:
        if key not in FileConfig._fields:
            raise UsageError(f"{file.at(key)}: nothing is called {key!r}; known are {', '.join(FileConfig._fields)}")
    policies, claims, plugins = (table.get(key) for key in ("policies", "claims", "plugins"))
    config = FileConfig(_policies(file, policies), _claims(file, claims), _plugins(file, plugins))
    return config, {name: look(file, table.get(name)) for name, look in _TABLES.items()}


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


def _policies(file: _File, value: object) -> Path | None:
    """A relative one is below the file's directory."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value:
        at = file.at("policies")
        raise UsageError(f'{at}: policies: {value!r} is not the name of a directory; write policies = "/etc/gpud/mine"')
    return file.path.parent / os.path.expanduser(value)


def _claims(file: _File, value: object) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        at = file.at("claims")
        raise UsageError(f'{at}: claims: {value!r} is not a table; write [claims] and below it tier = ["@ml-serving"]')
    return {str(label): _claimants(file, str(label), who) for label, who in value.items()}


def _plugins(file: _File, value: object) -> dict[str, dict[str, Any]]:
    if value is None:
        return {}
    tables: dict[str, Any] = value if isinstance(value, dict) else {"": value}
    for name, settings in tables.items():
        if not isinstance(settings, dict):
            at = file.at("plugins", *filter(None, (name,)))
            raise UsageError(
                f"{at}: plugins: {value!r} is not a table of tables; write [plugins.NAME], below it settings"
            )
        for key, setting in settings.items():
            if _has_date(setting):
                at = file.at("plugins", name, key)
                raise UsageError(f"{at}: plugins.{name}.{key}: a date or time is no setting; write it as a text")
    return {str(name): dict(settings) for name, settings in tables.items()}


def _has_date(value: object) -> bool:
    """A plugin gets its settings as JSON, which has none."""
    if isinstance(value, dict):
        return any(map(_has_date, value.values()))
    return any(map(_has_date, value)) if isinstance(value, list) else not isinstance(value, str | int | float)


def _entries(
    file: _File, name: str, value: object, known: tuple[str, ...], example: str
) -> Iterator[tuple[str, str, Any]]:
    """(where it stands, key, what it says) of a table; nothing where there is none. Raises UsageError for what is no
    table, and for a key that is not `known`."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise UsageError(f"{file.at(name)}: {name}: {value!r} is not a table; write [{name}] and below it {example}")
    for key, said in value.items():
        at = file.at(name, key)
        if key not in known:
            raise UsageError(f"{at}: nothing of {name} is called {key!r}; known are {', '.join(known)}")
        yield at, key, said


def _control(file: _File, value: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for at, key, said in _entries(file, "control", value, ControlConfig._fields, 'readers = "owners"'):
        if not isinstance(said, str) or not said or not said.isprintable():
            raise UsageError(f'{at}: control.{key}: {said!r} is no name; write {key} = "…"')
        if key == "readers" and said not in READERS:
            raise UsageError(f"{at}: control.readers: {said!r} is not one of {', '.join(READERS)}")
        found[key] = said
    return found


def _telemetry(file: _File, value: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for at, key, said in _entries(file, "telemetry", value, TelemetryConfig._fields, "traces = true"):
        url = isinstance(said, str) and said.startswith(("http://", "https://")) and said.isprintable()
        if key == "traces" and not (isinstance(said, bool) or url):
            raise UsageError(
                f"{at}: telemetry.traces: {said!r} is neither true nor false nor the URL of an OTLP endpoint; write "
                'traces = "http://localhost:4318"'
            )
        if key == "sample" and (isinstance(said, bool) or not isinstance(said, int) or not 1 <= said <= 1_000_000):
            raise UsageError(f"{at}: telemetry.sample: {said!r} is not a number from 1 to 1,000,000; write sample = 10")
        found[key] = said
    return found


def _metrics(file: _File, value: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    remote = isinstance(value, dict) and value.get("allow_remote") is True
    for at, key, said in _entries(file, "metrics", value, MetricsConfig._fields, 'listen = "127.0.0.1:9400"'):
        if key == "allow_remote" and not isinstance(said, bool):
            raise UsageError(f"{at}: metrics.allow_remote: {said!r} is neither true nor false")
        if key == "listen":
            _check_address(at, said, remote)
        if key == "dcgm_mapping_dir" and not (isinstance(said, str) and said.startswith("/") and "\0" not in said):
            raise UsageError(f"{at}: metrics.dcgm_mapping_dir: {said!r} is not an absolute path")
        found[key] = said
    return found


def _check_address(at: str, said: object, remote: bool) -> None:
    """`remote`: other machines may reach it."""
    from ipaddress import ip_address

    host, _, port = said.rpartition(":") if isinstance(said, str) else ("", "", "")
    host = "127.0.0.1" if host == "localhost" else host
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ip_address(host[1:-1] if bracketed else host)
        well = bracketed == (address.version == 6) and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536
    except ValueError:
        well = False
    if not well:
        raise UsageError(
            f"{at}: metrics.listen: {said!r} is not an address with a port; write listen = "
            '"127.0.0.1:9400", or "[::1]:9400"'
        )
    if not address.is_loopback and not remote:
        raise UsageError(
            f"{at}: metrics.listen: other machines could read metrics at {said}, without a password; write "
            f'listen = "127.0.0.1:{port}", or, if that is meant, allow_remote = true beside it'
        )


def _claimants(file: _File, label: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.removeprefix("@") for one in value):
        raise UsageError(
            f"{file.at('claims', label)}: claims.{label}: {value!r} is not a list of claimants; "
            f'write {label} = ["@ml-serving", "ann", "uid:1000"]: a group, a user by name, one by number'
        )
    return tuple(value)


def _journal(file: _File, value: object) -> dict[str, Any]:
    """A relative directory is below the file's."""
    found: dict[str, Any] = {}
    for at, key, said in _entries(file, "journal", value, JournalConfig._fields, "max_bytes = 268435456"):
        if key == "directory" and (not isinstance(said, str) or not said or "\0" in said):
            raise UsageError(f'{at}: journal.directory: {said!r} is no directory; write directory = "/srv/gpud"')
        whole = isinstance(said, int) and not isinstance(said, bool)
        if key == "max_bytes" and not (whole and (said == 0 or 1 << 20 <= said <= 1 << 50)):
            raise UsageError(
                f"{at}: journal.max_bytes: {said!r} is neither 0 (no journal) nor a number of bytes from 1048576 up; "
                "write max_bytes = 268435456"
            )
        found[key] = said
    if "directory" in found:
        found["directory"] = file.path.parent / os.path.expanduser(found["directory"])
    return found


_TABLES = {"control": _control, "telemetry": _telemetry, "metrics": _metrics, "journal": _journal}
"""Those whose keys go one by one before the same key of the system's file."""
