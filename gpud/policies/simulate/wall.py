"""`clock "2026-03-02 07:40"`: a local time of the policy's time zone."""

import re
from datetime import UTC, datetime

from gpud.policies.zones import zone_named

DEFAULT_CLOCK = "2026-03-02 00:00"
"""Where a test does not say: the first minute of a Monday."""
_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(:[0-9]{2})?")


def wall_time(text: str, zone: str | None) -> int:
    """Unix time in nanoseconds; of a time that comes twice the first. Raises ValueError, a message for the user."""
    try:
        moment = datetime.fromisoformat(text if _FORM.fullmatch(text) else "")
    except ValueError:
        raise ValueError(f"`{text[:40]}` is no date and time") from None
    local = moment.replace(tzinfo=zone_named(zone))
    since = local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    if (datetime(1970, 1, 1, tzinfo=UTC) + since).astimezone(local.tzinfo).replace(tzinfo=None) != moment:
        raise ValueError(f"there is no {text} in {zone or 'this time zone'}: the clocks go forward there")
    return (since.days * 86_400 + since.seconds) * 1_000_000_000
