"""Recordings: what is read, and what is refused with which words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.quantities import show_value
from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.trace import (
    Record,
    TraceError,
    format_header,
    format_record,
    read_lines,
    read_trace,
    value_of,
)
from gpud.policies.types import CAPS, Type

HEADER = '{"gpud_trace": 1}\n'


def records(*lines: str) -> list[Record]:
    return list(read_trace([HEADER, *(f"{line}\n" for line in lines)], "a.jsonl")[1])


def refusal(read: Callable[[], Any]) -> str:
    with pytest.raises(TraceError) as caught:
        read()
    return str(caught.value)


def test_moments_in_seconds_and_in_nanoseconds() -> None:
    found = records('{"t": 0, "gpu.busy": 0.5}', '{"t": 0.1}', "", '{"ns": 200000000, "high.active": true}')
    assert [(record.line, record.t_ns, dict(record.values)) for record in found] == [
        (2, 0, {"gpu.busy": 0.5}), (3, 100_000_000, {}), (5, 200_000_000, {"high.active": True}),
    ]  # fmt: skip


def test_the_time_of_day_at_the_beginning() -> None:
    header, _ = read_trace(['{"gpud_trace": 1, "start": "2026-03-02T07:40:00+08:00"}\n'], "a")
    assert header.start_ns == 1_772_408_400 * 10**9
    assert read_trace([HEADER], "a")[0].start_ns is None


@pytest.mark.parametrize(
    ("raw", "type", "value"),
    [
        (None, Type.RATE, None),
        (True, Type.BOOL, True),
        (1000, Type.RATE, 1000.0),
        (0.25, Type.RATIO, 0.25),
        ("25%", Type.RATIO, 0.25),
        (0.0025, Type.DURATION, 2_500_000),
        ("2.5ms", Type.DURATION, 2_500_000),
        ("unlimited", Type.DURATION, UNLIMITED),
        (1024, Type.BYTES, 1024),
        ("1KiB", Type.BYTES, 1024),
        ("1_000/s", Type.RATE, 1000.0),
        (3, Type.NUMBER, 3),
        ("3", Type.NUMBER, 3),
    ],
)
def test_values(raw: Any, type: Type, value: Any) -> None:
    found = value_of(raw, type, "here")
    assert found == value
    assert found is None or isinstance(found, bool) is isinstance(value, bool)


@pytest.mark.parametrize(
    ("raw", "type"),
    [
        (1, Type.BOOL), ("true", Type.BOOL), (True, Type.NUMBER), ("3ms", Type.RATE), ("3", Type.DURATION),
        ("abc", Type.RATIO), ("", Type.RATIO), ([1], Type.NUMBER), ({}, Type.BOOL), ("-3ms", Type.DURATION),
        ("1..2ms", Type.DURATION), ("٣ms", Type.DURATION), ("_", Type.NUMBER),
    ],
)  # fmt: skip
def test_values_of_the_wrong_kind(raw: Any, type: Type) -> None:
    assert refusal(lambda: value_of(raw, type, "a:3: `x.y`")).startswith(f"a:3: `x.y` is {type.value}; this is ")


@pytest.mark.parametrize("raw", [-1, 2**64])
def test_values_out_of_range(raw: float) -> None:
    assert "out of range" in refusal(lambda: value_of(raw, Type.RATE, "a"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "a.jsonl: the file is empty; a recording begins with the line"),
        (["\n"], "the file is empty"),
        (["time,value\n"], 'a.jsonl:1: not a recording of gpud; its first line would be {"gpud_trace": 1}'),
        (["[1]\n"], "not a recording of gpud"),
        (['{"traceEvents": []}\n'], "not a recording of gpud"),
        (['{"gpud_trace": 2}\n'], "a recording of version 2; this gpud reads version 1"),
        (['{"gpud_trace": 1, "start": "yesterday"}\n'], "`start` is no time with its offset"),
        (['{"gpud_trace": 1, "start": "2026-03-02T07:40:00"}\n'], "`start` is no time with its offset"),
        (['{"gpud_trace": 1, "start": 5}\n'], "`start` is no time with its offset"),
    ],
)
def test_foreign_files(lines: list[str], said: str) -> None:
    assert said in refusal(lambda: read_trace(lines, "a.jsonl"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{}", 'a.jsonl:2: needs one of "t" (seconds) and "ns"'),
        ('{"t": 1, "ns": 5}', "needs one of"),
        ('{"t": "1s"}', '"t" is not a number'),
        ('{"t": true}', '"t" is not a number'),
        ('{"t": -1}', "lies before the beginning"),
        ('{"ns": 1e30}', "more than 70 years"),
        ('{"t": 1e999}', "more than 70 years"),
        ('{"t": NaN}', "not a JSON object"),
        ("null", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"t": ' + "9" * 5000 + "}", "a.jsonl:2: "),
    ],
)
def test_broken_lines(line: str, said: str) -> None:
    assert said in refusal(lambda: records(line))


def test_time_does_not_go_back() -> None:
    assert refusal(lambda: records('{"t": 2}', '{"t": 1.5}')) == "a.jsonl:3: time goes back, from 2s to 1.5s"


def test_a_file_that_was_cut_off() -> None:
    lines = [HEADER, '{"t": 0, "gpu.busy": 0.5}\n', '{"t": 1, "gpu.b']
    said = refusal(lambda: list(read_trace(lines, "a.jsonl")[1]))
    assert said == "a.jsonl:3: the file ends inside a line; the recording was cut off here"
    assert len(list(read_trace([*lines[:2], '{"t": 1}'], "a")[1])) == 2, "a newline is all that is missing"


def test_files_that_are_no_text(tmp_path: Path) -> None:
    compressed = tmp_path / "a.jsonl.gz"
    compressed.write_bytes(b"\x1f\x8b\x08\x00\xff\xfe")
    assert refusal(lambda: list(read_lines(compressed))).endswith(
        "not a text; is it compressed? A recording is JSON, one object a line"
    )
    assert "there is no such file" in refusal(lambda: list(read_lines(tmp_path / "b.jsonl")))
    assert "is not a file" in refusal(lambda: list(read_lines(tmp_path)))
    assert "is not a file" in refusal(lambda: list(read_lines(Path("/dev/zero"))))
    (tmp_path / "long").write_text("x" * (1 << 20))
    assert "a line longer than 1 MiB" in refusal(lambda: list(read_lines(tmp_path / "long")))


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for lines in (text.splitlines(True), [HEADER, *text.splitlines(True)]):
        said = "a: "
        try:
            for record in read_trace(lines, "a")[1]:
                for raw in record.values.values():
                    value_of(raw, Type.DURATION, "a: b")
        except TraceError as error:
            said = str(error)
        assert said.startswith("a:")


@given(
    st.lists(st.tuples(st.integers(0, 2**55), st.sampled_from(sorted(CAPS, key=lambda type: type.value)),
                       st.integers(0, 2**50), st.booleans(), st.booleans()))
)  # fmt: skip
def test_what_is_written_is_read(moments: list[tuple[int, Type, int, bool, bool]]) -> None:
    written, expected = [format_header("2026-03-02T07:40:00+00:00")], []
    for t_ns, type, number, missing, unlimited in sorted(moments, key=lambda moment: moment[0]):
        whole = type in (Type.DURATION, Type.BYTES, Type.NUMBER)
        value: Any = UNLIMITED if unlimited else number if whole else number / 7
        written.append(format_record(t_ns, [("a.b", type, None if missing else value)]))
        expected.append((t_ns, type, None if missing else value))
    _, found = read_trace(written, "a")
    read = [(record.t_ns, type, value_of(record.values["a.b"], type, "a")) for record, (_, type, _) in
            zip(found, expected, strict=True)]  # fmt: skip
    assert read == expected


def test_a_line_is_json_and_says_what_a_policy_would() -> None:
    line = format_record(5, [("a.wait", Type.DURATION, 3_000_000), ("a.active", Type.BOOL, True)])
    assert json.loads(line) == {"ns": 5, "a.wait": "3000000ns", "a.active": True}
    assert value_of(show_value(3_000_000, Type.DURATION), Type.DURATION, "a") == 3_000_000
