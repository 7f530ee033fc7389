"""Time zones by name, and the machine's own."""

from datetime import UTC, tzinfo

_LOCALTIME = "/etc/localtime"


def zone_named(name: str | None) -> tzinfo:
    """The zone of that IANA name; of this machine if None. Raises ValueError if there is no such zone."""
    if name is None:
        return _of_machine()
    found = _read(name)
    if found is None:
        raise ValueError(f"no time zone is called {name!r}")
    return found


def zone_exists(name: str) -> bool:
    return _read(name) is not None


def _read(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo  # only policies with hours pay for it

    if not name or not all(char.isalnum() or char in "/_+-" for char in name):
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # a folder of the data base, no file of it, unknown
        return None


def _of_machine() -> tzinfo:
    """As the C library finds it: TZ, a name, a path or a rule as POSIX writes it; else /etc/localtime; else UTC."""
    import os

    text = os.environ.get("TZ")
    if text is None:
        return _from_file(_LOCALTIME) or UTC
    text = text.removeprefix(":")
    if text.startswith("/"):
        return _from_file(text) or UTC
    return _read(text) or _from_rule(text) or UTC


def _from_file(path: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    try:
        with open(path, "rb") as file:
            return ZoneInfo.from_file(file)
    except (ValueError, OSError):
        return None


def _from_rule(text: str) -> tzinfo | None:
    """`CET-1CEST,M3.5.0,M10.5.0/3`: a zone file that has nothing but this rule in its footer (RFC 8536)."""
    import io
    import struct
    from zoneinfo import ZoneInfo

    if not any(char.isdigit() for char in text) or not text.isascii() or "\n" in text:
        return None
    header = struct.pack(">4sc15s6l", b"TZif", b"2", b"", 0, 0, 0, 0, 1, 4)
    content = struct.pack(">lbb4s", 0, 0, 0, b"UTC\0")
    try:
        return ZoneInfo.from_file(io.BytesIO((header + content) * 2 + b"\n" + text.encode() + b"\n"))
    except ValueError:
        return None
