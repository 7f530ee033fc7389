"""Hours over days, weeks and nights when clocks change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.policies.hours import HoursClock
from gpud.policies.ir import IrDays, IrHours
from gpud.policies.source import NOWHERE
from gpud.policies.zones import zone_exists, zone_named

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
WEEK = 7 * 24 * HOUR
ALL_DAYS = (0, 1, 2, 3, 4, 5, 6)


def minutes(text: str) -> int:
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)


def span(times: str, days: tuple[int, ...] = ALL_DAYS) -> IrDays:
    begin, end = times.split("..")
    return IrDays(days, minutes(begin), minutes(end), NOWHERE)


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(local.timestamp()) * SECOND


def shown(wall_ns: int, zone: str) -> str:
    return datetime.fromtimestamp(wall_ns // SECOND, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S%z")


def test_a_weekday_span() -> None:
    clock = HoursClock(IrHours("day", (span("08:00..22:00", (0, 1, 2, 3, 4)),), NOWHERE), "Asia/Shanghai")
    monday = "2026-03-02 "
    assert clock.active(at(monday + "07:59:59", "Asia/Shanghai")) == (False, at(monday + "08:00", "Asia/Shanghai"))
    assert clock.active(at(monday + "08:00", "Asia/Shanghai")) == (True, at(monday + "22:00", "Asia/Shanghai"))
    assert clock.active(at(monday + "22:00", "Asia/Shanghai") - 1) == (True, at(monday + "22:00", "Asia/Shanghai"))
    friday_night = at("2026-03-06 22:00", "Asia/Shanghai")
    assert clock.active(friday_night) == (False, at("2026-03-09 08:00", "Asia/Shanghai"))


def test_early_begins_earlier_and_ends_on_time() -> None:
    clock = HoursClock((span("08:00..22:00"),), "UTC")
    assert clock.active(at("2026-03-02 07:44:59"), 15 * MINUTE) == (False, at("2026-03-02 07:45"))
    assert clock.active(at("2026-03-02 07:45"), 15 * MINUTE) == (True, at("2026-03-02 22:00"))
    assert clock.active(at("2026-03-02 22:00"), 15 * MINUTE) == (False, at("2026-03-03 07:45"))


@pytest.mark.parametrize("early", [10 * HOUR, 30 * HOUR, 7 * 24 * HOUR, 10**6 * HOUR])
def test_so_early_that_it_never_ends(early: int) -> None:
    clock = HoursClock((span("08:00..22:00"),), "UTC")
    for day in range(1, 9):
        now = at(f"2026-03-{day:02} 23:30")
        held, until = clock.active(now, early)
        assert held
        assert until > now + 6 * 24 * HOUR


def test_a_span_past_midnight_belongs_to_its_first_day() -> None:
    clock = HoursClock((span("22:00..06:00", (4,)),), "UTC")  # Friday night
    assert clock.active(at("2026-03-06 03:00")) == (False, at("2026-03-06 22:00"))
    assert clock.active(at("2026-03-06 22:00")) == (True, at("2026-03-07 06:00"))
    assert clock.active(at("2026-03-07 05:59")) == (True, at("2026-03-07 06:00"))
    assert clock.active(at("2026-03-07 06:00")) == (False, at("2026-03-13 22:00"))


def test_spans_that_touch_or_overlap_are_one() -> None:
    clock = HoursClock((span("08:00..12:00"), span("12:00..18:00"), span("17:00..20:00")), "UTC")
    assert clock.active(at("2026-03-02 09:00")) == (True, at("2026-03-02 20:00"))
    assert clock.active(at("2026-03-02 20:00")) == (False, at("2026-03-03 08:00"))


@pytest.mark.parametrize("whole", ["00:00..00:00", "00:00..24:00", "07:00..07:00"])
def test_the_whole_week(whole: str) -> None:
    clock = HoursClock((span(whole),), "America/New_York")
    now = at("2026-03-06 12:34", "America/New_York")
    held, until = clock.active(now)
    assert held
    assert now + WEEK < until < now + 2 * WEEK


def test_whole_days_end_at_midnight() -> None:
    clock = HoursClock((span("00:00..24:00", (5, 6)),), "Europe/Berlin")
    assert clock.active(at("2026-03-06 12:00", "Europe/Berlin")) == (False, at("2026-03-07 00:00", "Europe/Berlin"))
    assert clock.active(at("2026-03-07 12:00", "Europe/Berlin")) == (True, at("2026-03-09 00:00", "Europe/Berlin"))


def test_no_span_at_all_never_holds() -> None:
    now = at("2026-03-06 12:00")
    assert HoursClock((), "UTC").active(now) == (False, now + WEEK)


# ----------------------------------------------------------------------------------------- nights when clocks change

SPRING = {"Europe/Berlin": "2026-03-29", "America/New_York": "2026-03-08", "Australia/Lord_Howe": "2026-10-04"}
AUTUMN = {"Europe/Berlin": "2026-10-25", "America/New_York": "2026-11-01", "Australia/Lord_Howe": "2026-04-05"}
STEP = {"Europe/Berlin": 60, "America/New_York": 60, "Australia/Lord_Howe": 30}


@pytest.mark.parametrize("zone", SPRING)
def test_a_night_span_is_shorter_in_spring(zone: str) -> None:
    clock = HoursClock((span("01:00..04:00"),), zone)
    begin, end = at(f"{SPRING[zone]} 01:00", zone), at(f"{SPRING[zone]} 04:00", zone)
    assert end - begin == 3 * HOUR - STEP[zone] * MINUTE
    assert clock.active(begin - 1) == (False, begin)
    assert clock.active(begin) == (True, end)
    assert clock.active(end)[0] is False


@pytest.mark.parametrize("zone", AUTUMN)
def test_a_night_span_is_longer_in_autumn(zone: str) -> None:
    clock = HoursClock((span("01:00..04:00"),), zone)
    begin, end = at(f"{AUTUMN[zone]} 01:00", zone), at(f"{AUTUMN[zone]} 04:00", zone)
    assert end - begin == 3 * HOUR + STEP[zone] * MINUTE
    assert clock.active(begin - 1) == (False, begin)
    assert clock.active(begin) == (True, end)
    assert clock.active(end)[0] is False


@pytest.mark.parametrize(
    ("zone", "left_out", "change"),
    [
        ("Europe/Berlin", "02:30", "2026-03-29 03:00:00+0200"),
        ("Europe/Berlin", "02:00", "2026-03-29 03:00:00+0200"),
        ("America/New_York", "02:30", "2026-03-08 03:00:00-0400"),
        ("Australia/Lord_Howe", "02:15", "2026-10-04 02:30:00+1100"),
    ],
)
def test_a_time_that_is_left_out_is_the_moment_of_the_change(zone: str, left_out: str, change: str) -> None:
    day = change[:10]
    begins, ends = HoursClock((span(f"{left_out}..05:00"),), zone), HoursClock((span(f"01:00..{left_out}"),), zone)
    moment = ends.active(at(f"{day} 01:30", zone))[1]
    assert shown(moment, zone) == change
    assert begins.active(at(f"{day} 01:30", zone)) == (False, moment)


def test_a_span_within_the_hour_that_is_left_out_is_not_there_that_day() -> None:
    clock = HoursClock((span("02:10..02:50"),), "Europe/Berlin")
    assert clock.active(at("2026-03-29 01:00", "Europe/Berlin")) == (False, at("2026-03-30 02:10", "Europe/Berlin"))
    early = clock.active(at("2026-03-29 01:50", "Europe/Berlin"), 20 * MINUTE)
    assert early == (False, at("2026-03-30 01:50", "Europe/Berlin"))


@pytest.mark.parametrize(
    ("zone", "twice", "first"),
    [
        ("Europe/Berlin", "02:30", "2026-10-25 02:30:00+0200"),
        ("America/New_York", "01:30", "2026-11-01 01:30:00-0400"),
        ("Australia/Lord_Howe", "01:45", "2026-04-05 01:45:00+1100"),
    ],
)
def test_a_time_that_comes_twice_is_the_first(zone: str, twice: str, first: str) -> None:
    day = first[:10]
    begins, ends = HoursClock((span(f"{twice}..05:00"),), zone), HoursClock((span(f"00:30..{twice}"),), zone)
    moment = ends.active(at(f"{day} 00:45", zone))[1]
    assert shown(moment, zone) == first
    assert begins.active(at(f"{day} 00:45", zone)) == (False, moment)
    assert begins.active(at(f"{day} 04:59", zone)) == (True, at(f"{day} 05:00", zone))
    again = at(f"{day} {twice}", zone, fold=1)
    assert begins.active(again - 1)[0], "it goes on while the clock shows earlier times again"
    assert not ends.active(again - MINUTE)[0]


def test_early_is_time_that_passes_not_time_that_a_clock_shows() -> None:
    clock = HoursClock((span("04:00..05:00"),), "Europe/Berlin")
    begin = at("2026-03-29 04:00", "Europe/Berlin")
    assert clock.active(begin - 2 * HOUR - 1, 2 * HOUR) == (False, begin - 2 * HOUR)
    assert shown(begin - 2 * HOUR, "Europe/Berlin") == "2026-03-29 01:00:00+0100"


def test_a_whole_day_that_a_zone_left_out() -> None:
    clock = HoursClock((span("00:00..24:00", (4,)),), "Pacific/Apia")  # there was no Friday 2011-12-30
    thursday = at("2011-12-29 12:00", "Pacific/Apia")
    assert clock.active(thursday) == (False, at("2012-01-06 00:00", "Pacific/Apia"))


CHANGES = [
    ("Europe/Berlin", "2026-03-28"), ("Europe/Berlin", "2026-10-24"),
    ("America/New_York", "2026-03-07"), ("America/New_York", "2026-10-31"),
    ("Australia/Lord_Howe", "2026-10-03"), ("Australia/Lord_Howe", "2026-04-04"),
    ("America/Sao_Paulo", "2018-11-03"), ("America/Sao_Paulo", "2019-02-15"),  # changes at midnight
    ("America/Havana", "2026-03-07"), ("America/Havana", "2026-10-31"),  # 0:00 and 1:00
    ("Antarctica/Troll", "2026-03-28"), ("Antarctica/Troll", "2026-10-24"),  # two hours
    ("Pacific/Apia", "2011-12-29"), ("Asia/Kathmandu", "2026-03-28"),
]  # fmt: skip


def by_the_clock_on_the_wall(
    spans: tuple[IrDays, ...], zone: str, begin: int, count: int
) -> Iterator[tuple[int, bool]]:
    """Minute by minute: the furthest time the clock has shown so far, and whether a span contains it."""
    furthest = datetime.min
    for minute in range(-3 * 24 * 60, count):
        now = begin + minute * MINUTE
        local = datetime.fromtimestamp(now // SECOND, ZoneInfo(zone)).replace(tzinfo=None)
        furthest = max(furthest, local)
        if minute >= 0:
            yield now, any(_contains(one, furthest) for one in spans)


def _contains(one: IrDays, local: datetime) -> bool:
    for back in (0, 1):
        midnight = local.replace(hour=0, minute=0) - timedelta(days=back)
        end = one.end_min if one.end_min > one.begin_min else one.end_min + 1440
        since = (local - midnight) // timedelta(minutes=1)
        if midnight.weekday() in one.days and one.begin_min <= since < end:
            return True
    return False


SPANS = st.builds(
    lambda days, begin, end: IrDays(tuple(sorted(days)), begin * 15, end * 15, NOWHERE),
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 95),
    st.integers(0, 96),
)


@settings(max_examples=50)
@given(st.lists(SPANS, min_size=1, max_size=3).map(tuple), st.sampled_from(CHANGES))
def test_agrees_with_a_clock_watched_minute_by_minute(spans: tuple[IrDays, ...], change: tuple[str, str]) -> None:
    zone, day = change
    clock = HoursClock(spans, zone)
    begin = at(f"{day} 12:00", "UTC")
    begin -= begin % (15 * MINUTE)
    expected_until, known = 0, False
    for now, held in by_the_clock_on_the_wall(spans, zone, begin, 36 * 60):
        if now >= expected_until:  # ask only where it says that something changes, and once before
            answer, expected_until = clock.active(now)
            assert expected_until > now
            known = answer
        assert held is known, shown(now, zone)


@given(st.lists(SPANS, min_size=1, max_size=3).map(tuple), st.integers(-(10**9), 4 * 10**9), st.integers(0, 30 * HOUR))
def test_until_is_the_very_next_change(spans: tuple[IrDays, ...], seconds: int, early: int) -> None:
    clock = HoursClock(spans, "Europe/Berlin")
    now = seconds * SECOND
    held, until = clock.active(now, early)
    assert now < until
    assert clock.active(until - 1, early)[0] is held
    if until - now < WEEK:  # else it is only as far as it looked
        assert clock.active(until - 1, early)[1] == until
        assert clock.active(until, early)[0] is not held


@pytest.mark.parametrize("seconds", [-(2**62), -62135596800, 253402300799, 2**62])
def test_the_ends_of_the_calendar(seconds: int) -> None:
    held, until = HoursClock((span("22:00..06:00"),), "Europe/Berlin").active(seconds * SECOND)
    assert until > seconds * SECOND
    assert isinstance(held, bool)


# -------------------------------------------------------------------------------------------------------- time zones


@pytest.mark.parametrize("name", ["", "Europe/Berlni", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b", "CET\n"])
def test_an_unknown_zone(name: str) -> None:
    assert not zone_exists(name)
    with pytest.raises(ValueError, match="no time zone"):
        HoursClock((span("08:00..22:00"),), name)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("Europe/Berlin", 2),
        (":Europe/Berlin", 2),
        ("CET-1CEST,M3.5.0,M10.5.0/3", 2),
        ("<+0330>-3:30", 3.5),
        ("UTC0", 0),
        ("", 0),
        ("nowhere", 0),
        ("/no/such/file", 0),
        ("\udcff1", 0),
    ],
)
def test_the_zone_of_the_machine_is_in_tz(monkeypatch: pytest.MonkeyPatch, text: str, hours: float) -> None:
    monkeypatch.setenv("TZ", text)
    summer = datetime(2026, 7, 1, tzinfo=UTC)
    assert summer.astimezone(zone_named(None)).utcoffset() == timedelta(hours=hours)


def test_the_zone_of_the_machine_is_in_etc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from importlib.resources import files

    monkeypatch.delenv("TZ", raising=False)
    localtime = tmp_path / "localtime"
    monkeypatch.setattr("gpud.policies.zones._LOCALTIME", str(localtime))
    assert zone_named(None).utcoffset(datetime(2026, 7, 1)) == timedelta(0)
    localtime.write_bytes(files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes())
    clock = HoursClock((span("08:00..22:00"),))
    assert clock.active(at("2026-03-02 07:00", "Asia/Tokyo")) == (False, at("2026-03-02 08:00", "Asia/Tokyo"))
    localtime.write_bytes(b"not a zone file")
    assert zone_named(None).utcoffset(datetime(2026, 7, 1)) == timedelta(0)
