"""`hours` and `timezone`."""

import pytest

from tests.policies.resolving import resolved, said


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("mon..fri 08:00..22:00", [((0, 1, 2, 3, 4), 480, 1320)]),
        ("daily", [((0, 1, 2, 3, 4, 5, 6), 0, 1440)]),
        ("daily 22:00..06:00", [((0, 1, 2, 3, 4, 5, 6), 1320, 360)]),
        ("sat 0:00..24:00", [((5,), 0, 1440)]),
        ("sat..mon 10:00..11:59", [((0, 5, 6), 600, 719)]),
        ("mon 08:00..09:00, wed", [((0,), 480, 540), ((2,), 0, 1440)]),
        ("mon..sun", [((0, 1, 2, 3, 4, 5, 6), 0, 1440)]),
    ],
)  # fmt: skip
def test_spans(text: str, spans: list[tuple[tuple[int, ...], int, int]]) -> None:
    (hours,) = resolved(f"hours day = {text}").hours
    assert [(span.days, span.begin_min, span.end_min) for span in hours.spans] == spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mon 25:00..26:00",
            [
                "GP207 '25:00' there is no 25:00 = times go from 00:00 to 23:59, and 24:00 may end a span",
                "GP207 '26:00' there is no 26:00 = times go from 00:00 to 23:59, and 24:00 may end a span; a "
                "span whose end is not after its begin ends on the next day",
            ],
        ),
        ("mon 24:00..08:00", ["GP207 '24:00' there is no 24:00 = a day begins at 00:00"]),
        (
            "mon 08:00..24:01",
            [
                "GP207 '24:01' there is no 24:01 = times go from 00:00 to 23:59, and 24:00 may end a span; a "
                "span whose end is not after its begin ends on the next day",
            ],
        ),
        ("mon 07:60..09:00", ["GP207 '07:60' there is no 07:60 = minutes go from 00 to 59"]),
        ("mon..foo", ["GP207 'foo' no day is called `foo` = days are mon tue wed thu fri sat sun, and daily"]),
        ("mo..fri", ["GP207 'mo' no day is called `mo` = did you mean `mon`?"]),
        ("monday", ["GP207 'monday' no day is called `monday` = write mon"]),
        ("fryday", ["GP207 'fryday' no day is called `fryday` = write fri"]),
        ("weekdays 08:00..09:00", ["GP207 'weekdays' no day is called `weekdays` = write mon..fri"]),
        ("daily..fri", ["GP207 'daily' `daily` is every day already = write `daily` alone"]),
        ("mon..daily", ["GP207 'daily' `daily` is every day already = write `daily` alone"]),
    ],
)  # fmt: skip
def test_times_and_days_that_do_not_exist(text: str, expected: list[str]) -> None:
    assert said(f"hours day = {text} during day {{ low.pause = true }}") == expected


@pytest.mark.parametrize(
    ("zone", "helped"),
    [
        ("Europe/Berln", "did you mean `Europe/Berlin`?"),
        ("europe/berlin", "did you mean `Europe/Berlin`?"),
        ("Berlin", "did you mean `Europe/Berlin`?"),
        ("New York", "did you mean `America/New_York`?"),
        ("UTC+1", "write it as the IANA data base does, with a city: Europe/Berlin"),
        ("", "write it as the IANA data base does, with a city: Europe/Berlin"),
        ("../../etc/passwd", "write it as the IANA data base does, with a city: Europe/Berlin"),
        ("Europe", "write it as the IANA data base does, with a city: Europe/Berlin"),
    ],
)  # fmt: skip
def test_unknown_zones(zone: str, helped: str) -> None:
    (found,) = said(f'timezone "{zone}"')
    assert found == f"GP208 '\"{zone}\"' no time zone is called `{zone}` = {helped}"


def test_zones_and_times_of_rules() -> None:
    ir = resolved(
        'timezone "Asia/Shanghai" hours day = daily '
        "during day early 15min { low.pause = true } else { low.pause = false }"
    )
    assert ir.timezone == "Asia/Shanghai"
    (rule,) = ir.body.rules
    assert (rule.kind, rule.hours, rule.early_ns) == ("during", 0, 900_000_000_000)
    assert rule.otherwise is not None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("hours day = daily during dya { }", "GP201 'dya' no hours are called `dya` = did you mean `day`?"),
        ("hours day = daily during noon { }", "GP201 'noon' no hours are called `noon` = there is `day`"),
        (
            "param x = 3 during x { }",
            "GP202 'x' `during` needs hours, but `x` is a param = `during` takes hours; for a condition, write "
            "`when`",
        ),
        (
            "during low { }",
            "GP202 'low' `during` needs hours, but `low` is a class = `during` takes hours; for a condition, "
            "write `when`",
        ),
        (
            "hours day = daily during day early 25h { }",
            "GP206 '25h' the time after `early` can be 24h at most = write 24h or less",
        ),
        (
            "hours day = daily during day early 3 { }",
            "GP103 '3' the time after `early` needs a duration, and `3` has no unit = write for example 3ms or "
            "3s",
        ),
        (
            "hours day = daily hours day = mon",
            "GP205 'day' `day` is defined twice = choose another name for one of them",
        ),
        (
            'timezone "UTC" timezone "UTC"',
            "GP305 'timezone \"UTC\"' a policy has one `timezone` at most = leave one of them out",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_during(body: str, expected: str) -> None:
    assert said(body) == [expected]
