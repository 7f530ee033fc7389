"""Hours over a week without dates: sets of minutes after Monday 00:00, as sorted spans that do not touch."""

from collections.abc import Iterable

from gpud.policies.hours import DAY_MIN, WEEK_MIN, end_of
from gpud.policies.ir import IrHours
from gpud.policies.schema import DAYS

Week = tuple[tuple[int, int], ...]
"""`(begin, end)` each, end exclusive, at most 10080."""
WHOLE: Week = ((0, WEEK_MIN),)


def week_of(hours: IrHours, early_min: int = 0) -> Week:
    """When they hold, each span beginning `early_min` before its time."""
    parts: list[tuple[int, int]] = []
    for span in hours.spans:
        for day in span.days:
            begin, end = day * DAY_MIN + span.begin_min - early_min, day * DAY_MIN + end_of(span)
            if end - begin >= WEEK_MIN:
                return WHOLE
            shift = begin // WEEK_MIN * WEEK_MIN
            parts.append((begin - shift, min(end - shift, WEEK_MIN)))
            if end - shift > WEEK_MIN:  # Sunday night belongs to Monday's beginning
                parts.append((0, end - shift - WEEK_MIN))
    return _merged(parts)


def _merged(parts: Iterable[tuple[int, int]]) -> Week:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(parts):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return tuple(merged)


def union(weeks: Iterable[Week]) -> Week:
    return _merged(part for week in weeks for part in week)


def common(left: Week, right: Week) -> Week:
    """When both hold."""
    both = ((max(begin, other), min(end, other_end)) for begin, end in left for other, other_end in right)
    return tuple((begin, end) for begin, end in both if begin < end)


def rest(week: Week) -> Week:
    """When it does not hold."""
    edges = [0, *(minute for part in week for minute in part), WEEK_MIN]
    return tuple((begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end)


def length(week: Week) -> int:
    """Minutes."""
    return sum(end - begin for begin, end in week)


def show(week: Week, most: int = 3) -> str:
    """`mon..fri 22:00..23:00, sun 09:00..10:00`; what crosses Sunday's midnight is one span."""
    parts = list(week)
    if len(parts) > 1 and parts[0][0] == 0 and parts[-1][1] == WEEK_MIN:
        parts = [*parts[1:-1], (parts[-1][0], WEEK_MIN + parts[0][1])]
    by_times: dict[tuple[int, int], list[int]] = {}
    for begin, end in parts:
        day = begin // DAY_MIN
        by_times.setdefault((begin - day * DAY_MIN, end - day * DAY_MIN), []).append(day)
    texts = [f"{_days(days, begin, end)} {_times(begin, end)}" for (begin, end), days in by_times.items()]
    if len(texts) > most:
        texts = [*texts[:most], f"and {len(texts) - most} more"]
    return ", ".join(texts)


def _days(days: list[int], begin: int, end: int) -> str:
    if len(days) == 7:
        return "daily"
    if len(days) > 1 and days[-1] - days[0] == len(days) - 1:
        return f"{DAYS[days[0]]}..{DAYS[days[-1]]}"
    return ", ".join(DAYS[day] for day in days)


def _times(begin: int, end: int) -> str:
    later, minute = divmod(end, DAY_MIN)
    if minute == 0 and later == 1:
        return f"{_clock(begin)}..24:00"
    day = "" if later == 0 or (later == 1 and minute <= begin) else f" {later} days later"
    return f"{_clock(begin)}..{_clock(minute)}{day}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
