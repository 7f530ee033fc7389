"""Recordings: JSON lines, a header and then one object for each moment at which something was measured.

    {"gpud_trace": 1, "start": "2026-03-02T07:40:00+08:00"}
    {"t": 0, "high.launch_rate": 1000, "high.active": true, "gpu.busy": 0.4}
    {"t": 0.1, "high.launch_rate": 980.5, "high.wait_p99": "3ms"}
    {"ns": 200000000, "high.launch_rate": null}

`start` is optional: wall-clock time of t = 0, with its offset from UTC. A moment is `t` in seconds or `ns`, from the
beginning of the recording, and never goes back. A value holds until its signal is named again. Values: true and false;
numbers in launches, blocks or bytes a second, bytes, seconds, 1 for 100 %; texts as policies write them, `"3ms"`,
`"40%"`, `"unlimited"`; null is missing. Names of classes the policy does not have, and of signals nobody reads, are
passed over, so that one recording serves many policies.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from gpud.policies.schema import UNLIMITED
from gpud.policies.types import Type

VERSION = 1
_LONGEST_LINE = 1 << 20
_LONGEST_NS = 2**61
"""70 years."""
_SECOND = 1_000_000_000
_HEADER = '{"gpud_trace": 1}'


class TraceError(ValueError):
    """The file is no recording, or a broken one. The text says what, where and what to do."""


@frozen
class Header:
    """First line of a recording."""

    start_ns: int | None
    """Unix time of t = 0."""


@frozen
class Record:
    """One further line."""

    line: int
    t_ns: int
    values: Mapping[str, Any]
    """As in the file; `value_of` reads them."""


def read_trace(lines: Iterable[str], name: str) -> tuple[Header, Iterator[Record]]:
    """The header, and the rest while it is read. Both raise TraceError, `name` says of which file."""
    numbered = enumerate(lines, 1)
    _, first = next(numbered, (1, ""))
    if not first.strip():
        raise TraceError(f"{name}: the file is empty; a recording begins with the line {_HEADER}")
    return _header(first, name), _records(numbered, name)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file, decoded. Raises TraceError for what is no file of text."""
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "there is no such file"
            raise TraceError(f"{path}: {what}; name a recording; docs/policy-language.md says what is in one")
        with path.open(encoding="utf-8", newline="\n") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if len(line) >= _LONGEST_LINE:
                    raise TraceError(f"{path}:{number}: a line longer than 1 MiB; this is not a recording of gpud")
                yield line
    except UnicodeDecodeError:
        raise TraceError(f"{path}: not a text; is it compressed? A recording is JSON, one object a line") from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None


def _object(line: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        return json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def _header(line: str, name: str) -> Header:
    found = _object(line)
    if not isinstance(found, dict) or "gpud_trace" not in found:
        raise TraceError(f"{name}:1: not a recording of gpud; its first line would be {_HEADER}")
    if found["gpud_trace"] != VERSION:
        version = json.dumps(found["gpud_trace"])[:40]
        raise TraceError(f"{name}:1: a recording of version {version}; this gpud reads version {VERSION}")
    start = found.get("start")
    if start is None:
        return Header(None)
    return Header(_wall(start, name))


def _wall(start: Any, name: str) -> int:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(start)
        if moment.tzinfo is None:
            raise ValueError
        since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):
        raise TraceError(
            f"{name}:1: `start` is no time with its offset from UTC; write it like 2026-03-02T07:40:00+08:00"
        ) from None
    return (since.days * 86_400 + since.seconds) * _SECOND + since.microseconds * 1000


def _records(numbered: Iterable[tuple[int, str]], name: str) -> Iterator[Record]:
    last = 0
    for number, line in numbered:
        if not line.strip():
            continue
        found = _object(line)
        if not isinstance(found, dict):
            if not line.endswith("\n"):
                raise TraceError(f"{name}:{number}: the file ends inside a line; the recording was cut off here")
            raise TraceError(f"{name}:{number}: not a JSON object; a recording has one on each line")
        t_ns = _moment(found, f"{name}:{number}")
        if t_ns < last:
            raise TraceError(f"{name}:{number}: time goes back, from {last / _SECOND:g}s to {t_ns / _SECOND:g}s")
        last = t_ns
        yield Record(number, t_ns, {key: value for key, value in found.items() if key not in ("t", "ns")})


def _moment(found: dict[str, Any], where: str) -> int:
    given = [key for key in ("t", "ns") if key in found]
    if len(given) != 1:
        raise TraceError(f'{where}: needs one of "t" (seconds) and "ns", from the beginning of the recording')
    value = found[given[0]]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TraceError(f'{where}: "{given[0]}" is not a number')
    scaled = value * (_SECOND if given[0] == "t" else 1)
    if not 0 <= scaled <= _LONGEST_NS:
        raise TraceError(f'{where}: "{given[0]}" lies before the beginning, or more than 70 years after it')
    return round(scaled)


# ------------------------------------------------------------------------------------------------------------- values


def value_of(raw: Any, type: Type, where: str) -> Any:
    """As programs keep it; None: missing. Raises TraceError; `where` says of which line and signal."""
    if raw is None:
        return None
    if isinstance(raw, bool):
        if type is Type.BOOL:
            return raw
    elif isinstance(raw, int | float) and type is not Type.BOOL:
        return _kept(raw, type, where)
    elif isinstance(raw, str) and type is not Type.BOOL:
        return _text(raw, type, where)
    raise TraceError(f"{where} is {type.value}; this is {json.dumps(raw)[:40]}")


def _kept(raw: float, type: Type, where: str) -> Any:
    if not 0 <= raw < 2**63:
        raise TraceError(f"{where}: {raw!r} is out of range")
    if type is Type.DURATION:
        return round(raw * _SECOND)
    if type is Type.BYTES:
        return round(raw)
    return raw if type is Type.NUMBER else float(raw)


def _text(raw: str, type: Type, where: str) -> Any:
    from gpud.policies.quantities import kept, read_quantity

    if raw == "unlimited":
        return UNLIMITED
    number = raw.rstrip("%/" + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    plain = number.replace("_", "").replace(".", "", 1)
    found = read_quantity(number, raw[len(number) :]) if plain.isascii() and plain.isdigit() else None
    if found is None or found[0] is not type:
        raise TraceError(f"{where} is {type.value}; this is {json.dumps(raw[:40])}")
    return kept(found[1], type)


# ------------------------------------------------------------------------------------------------------------ writing


def format_header(start: str | None = None) -> str:
    """First line of a recording, with its newline. `start` in ISO 8601 with its offset."""
    return json.dumps({"gpud_trace": VERSION} | ({} if start is None else {"start": start})) + "\n"


def format_record(t_ns: int, values: Iterable[tuple[str, Type, Any]]) -> str:
    """One further line, with its newline: (`high.wait_p99`, type, value as programs keep it)."""
    record: dict[str, Any] = {"ns": t_ns}
    for name, type, value in values:
        if value == UNLIMITED:
            record[name] = "unlimited"
        elif type is Type.DURATION and value is not None:
            record[name] = f"{value}ns"
        else:
            record[name] = value
    return json.dumps(record) + "\n"
