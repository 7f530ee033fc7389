"""When `hours` hold, to the nanosecond, in a time zone; check/week.py has the same over a week without dates.

What a clock on the wall shows leaves out times and shows times twice when clocks change. Here a local time is the first
moment at which the clock shows it or a later one: a time that is left out is the moment of the change, one that
comes twice is the first. So spans that follow each other on the clock follow each other in time, never overlap, and
a time is never in none of them. A night span is an hour shorter or longer then.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from gpud.policies.ir import IrDays, IrHours
from gpud.policies.zones import zone_named

DAY_MIN = 1440
WEEK_MIN = 7 * DAY_MIN
_SECOND = 1_000_000_000
_WEEK_NS = WEEK_MIN * 60 * _SECOND
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal() - 2
_MINUTE = timedelta(minutes=1)


class HoursClock:
    """One `hours`, or its spans, in a zone (IANA name; None: the machine's). Raises ValueError for an unknown zone."""

    def __init__(self, hours: IrHours | Iterable[IrDays], zone: str | None = None) -> None:
        spans = hours.spans if isinstance(hours, IrHours) else hours
        self._zone = zone_named(zone)
        by_day: list[list[tuple[int, int]]] = [[] for _ in range(7)]
        for span in spans:
            for day in span.days:
                by_day[day].append((span.begin_min, end_of(span)))
        self._by_day = tuple(tuple(sorted(day)) for day in by_day)

    def active(self, wall_ns: int, early_ns: int = 0) -> tuple[bool, int]:
        """Do the hours hold at that moment (Unix time), when each span begins `early_ns` before its time? And the
        earliest moment at which that may change, later than `wall_ns`; a week from now if nothing is to change."""
        if early_ns > _WEEK_NS and any(self._by_day):
            return True, wall_ns + _WEEK_NS
        end = None
        today = self._local_day(wall_ns)
        last = min(today + 9 + early_ns // (86_400 * _SECOND), _LAST_DAY)
        for day in range(max(today - 2, 1), last + 1):
            for begin_min, end_min in self._by_day[(day - 1) % 7]:
                begin, finish = self._moment(day, begin_min), self._moment(day, end_min)
                if finish <= wall_ns or begin == finish:  # over; or a clock change swallowed it
                    continue
                begin -= early_ns
                if end is None:
                    if begin > wall_ns:
                        return False, begin
                    end = finish
                elif begin <= end:
                    end = max(end, finish)
                else:
                    return True, end
        return (False, wall_ns + _WEEK_NS) if end is None else (True, end)

    def _local_day(self, wall_ns: int) -> int:
        """Its number in the zone, 1 for 0001-01-01, a Monday."""
        try:
            return datetime.fromtimestamp(wall_ns // _SECOND, self._zone).toordinal()
        except (ValueError, OverflowError, OSError):  # no year that a date can have
            return 1 if wall_ns < 0 else _LAST_DAY

    def _moment(self, day: int, minute: int) -> int:
        """The first moment, Unix time in ns, at which the local clock shows this time or a later one."""
        local = datetime.fromordinal(day) + minute * _MINUTE
        before, after = self._offset(local), self._offset(local.replace(fold=1))
        seconds = (day - _EPOCH_DAY) * 86_400 + minute * 60
        if after <= before:  # shown once, or twice: the offset before the change has the first
            return (seconds - before) * _SECOND
        early, late = seconds - after, seconds - before  # never shown: the clocks go forward after `early`
        while late - early > 1:
            middle = (early + late) // 2
            if self._offset_at(middle) == after:
                late = middle
            else:
                early = middle
        return late * _SECOND

    def _offset(self, local: datetime) -> int:
        return _seconds(local.replace(tzinfo=self._zone).utcoffset())

    def _offset_at(self, unix: int) -> int:
        return _seconds(datetime.fromtimestamp(unix, UTC).astimezone(self._zone).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else offset.days * 86_400 + offset.seconds


def end_of(span: IrDays) -> int:
    """Minutes after midnight of the day on which it begins; above 1440 on the next day."""
    return span.end_min if span.end_min > span.begin_min else span.end_min + DAY_MIN
