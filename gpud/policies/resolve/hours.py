"""`hours` and `timezone`: times and days that exist."""

from gpud.policies import ast
from gpud.policies.ir import IrDays, IrHours
from gpud.policies.resolve.findings import Findings
from gpud.policies.resolve.nearest import did_you_mean, nearest
from gpud.policies.schema import DAYS

_DAY_MIN = 24 * 60
_GROUPS = {
    "weekdays": "mon..fri", "weekday": "mon..fri", "workdays": "mon..fri", "weekend": "sat..sun",
    "weekends": "sat..sun", "everyday": "daily", "always": "daily", "all": "daily", "any": "daily",
}  # fmt: skip
_FULL = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def read_hours(hours: ast.Hours, findings: Findings) -> IrHours | None:
    """Spans in text order; None if one is wrong, which is reported."""
    found = [_span(span, findings) for span in hours.spans]
    spans = tuple(span for span in found if span is not None)
    return IrHours(hours.name.text, spans, hours.span) if len(spans) == len(found) else None


def _span(span: ast.HoursSpan, findings: Findings) -> IrDays | None:
    days = _days(span, findings)
    begin = _minutes(span.begin, False, findings) if span.begin is not None else 0
    end = _minutes(span.end, True, findings) if span.end is not None else _DAY_MIN
    return IrDays(days, begin, end, span.span) if days and begin is not None and end is not None else None


def _days(span: ast.HoursSpan, findings: Findings) -> tuple[int, ...]:
    """Numbers of days, 0 = Monday, in the order of the week; none: reported. `sat..mon` goes round."""
    if span.first.text == "daily" and span.last is None:
        return tuple(range(7))
    first = _day(span.first, findings)
    last = _day(span.last, findings) if span.last is not None else first
    if first is None or last is None:
        return ()
    return tuple(sorted((first + more) % 7 for more in range((last - first) % 7 + 1)))


def _day(name: ast.Name, findings: Findings) -> int | None:
    if name.text in DAYS:
        return DAYS.index(name.text)
    if name.text == "daily":
        findings.add("GP207", name.span, "`daily` is every day already", helps=("write `daily` alone",))
        return None
    full = name.text if name.text in _FULL else nearest(name.text, _FULL)
    if full is not None:
        helps: tuple[str, ...] = (f"write {full[:3]}",)
    elif name.text in _GROUPS:
        helps = (f"write {_GROUPS[name.text]}",)
    else:
        helps = findings.did_you_mean(name.text, (*DAYS, "daily")) or (f"days are {' '.join(DAYS)}, and daily",)
    findings.add("GP207", name.span, f"no day is called `{name.text}`", helps=helps)
    return None


def _minutes(time: ast.Time, is_end: bool, findings: Findings) -> int | None:
    """After midnight. 24:00 may end a span."""
    hour, minute = (int(part) for part in time.text.split(":"))
    if minute < 60 and (hour < 24 or (is_end and hour == 24 and not minute)):
        return hour * 60 + minute
    helped = "times go from 00:00 to 23:59, and 24:00 may end a span"
    if hour == 24 and not minute:
        helped = "a day begins at 00:00"
    elif hour < 24:
        helped = "minutes go from 00 to 59"
    elif is_end:
        helped += "; a span whose end is not after its begin ends on the next day"
    findings.add("GP207", time.span, f"there is no {time.text}", helps=(helped,))
    return None


# ---------------------------------------------------------------------------------------------------------- zones


def read_timezone(zone: ast.Timezone, findings: Findings) -> str | None:
    """The name, if there is such a zone; None: reported."""
    from gpud.policies.zones import zone_exists

    name = zone.zone.text
    if zone_exists(name):
        return name
    findings.add("GP208", zone.zone.span, f"no time zone is called `{name}`", helps=_zone_helps(name))
    return None


def _zone_helps(name: str) -> tuple[str, ...]:
    from zoneinfo import available_timezones

    known = sorted(available_timezones())
    low = name.casefold().replace(" ", "_")
    exact = [zone for zone in known if zone.casefold() == low]
    cities = [zone for zone in known if zone.casefold().rpartition("/")[2] == low.rpartition("/")[2]]
    if exact or (cities and low):
        return (f"did you mean `{(exact or cities)[0]}`?",)
    return did_you_mean(name, known) or ("write it as the IANA data base does, with a city: Europe/Berlin",)
