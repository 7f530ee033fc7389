"""Moments as people write them: how long ago, or the clock's time."""

from datetime import datetime, time, timedelta

from gpud.model.errors import UsageError
from gpud.model.units import SECOND, parse_duration

_EXAMPLE = "10min, 14:03 or 2026-11-30T14:03:20"


def parse_moment(text: str, where: str, now: datetime) -> int:
    """`10min`: so long ago; `14:03`: when it was so last, by this machine's clock; `2026-11-30T14:03:20`, with or
    without a zone. Unix time in nanoseconds. `where` names the flag. Raises UsageError."""
    if text[:1].isdigit() and text[-1:].isalpha() and text[-1:] != "Z":
        return round(now.timestamp()) * SECOND - parse_duration(text, where)
    try:
        if text[2:3] == ":":
            at = datetime.combine(now.date(), time.fromisoformat(text)).astimezone()
            at = at if at <= now else at - timedelta(days=1)
        else:
            at = datetime.fromisoformat(text).astimezone()
        return round(at.timestamp() * 1_000_000) * 1000
    except (ValueError, OverflowError):
        raise UsageError(f"{where}: {text!r} is no moment; write e.g. {_EXAMPLE}") from None


def shown(at_ns: int) -> str:
    """`2026-11-30 14:03:20`, by this machine's clock."""
    return datetime.fromtimestamp(at_ns / SECOND).isoformat(" ", "seconds")
