"""What `sim` draws: the picture is well-formed and says what the series say; the terminal's lines fit."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.plot import LANE, LEFT, WIDTH, draw_svg
from gpud.policies.simulate.series import Recording, Series
from gpud.policies.simulate.terminal import draw
from gpud.policies.types import Type
from gpud.policies.values import Share

S = 10**9
SVG = "{http://www.w3.org/2000/svg}"


def series(name: str, type: Type, *values: object, kind: str = "knob") -> Series:
    """A value a second."""
    made = Series(name, type, kind)
    for second, value in enumerate(values):
        made.add(second * S, value)
    return made


RECORDING = Recording(
    title='policy "aimd" & <friends>',
    end_ns=8 * S,
    series=(
        series("high.launch_rate", Type.RATE, 1000.0, 1000.0, 500.0, None, 1000.0, kind="signal"),
        series("hurt", Type.BOOL, False, True, False, kind="let"),
        series("low.max_launch_rate", Type.RATE, 20.0, 100.0, 4000.0, UNLIMITED),
        series("low.residency", Type.RESIDENCY, "device", "host", "disk"),
        series("low.share", Type.SHARE, Share("weight", weight=2), Share("fixed", percent=10)),
    ),
    notes=("`x > 1` is false at 3s",),
)


def test_series_keep_changes_only() -> None:
    made = series("a", Type.NUMBER, 1, 1, 2, 2, None, None, 0)
    assert (made.times, made.values) == ([0, 2 * S, 4 * S, 6 * S], [1, 2, None, 0])
    made.add(6 * S, 5)
    assert made.at(6 * S) == 5, "a later word about one moment replaces the earlier"
    assert [made.at(second * S) for second in range(5)] == [1, 1, 2, 2, None]
    assert list(made.pieces(8 * S)) == [(0, 2 * S, 1), (2 * S, 4 * S, 2), (4 * S, 6 * S, None), (6 * S, 8 * S, 5)]


def test_the_picture_has_a_lane_for_each_and_labelled_axes() -> None:
    root = ET.fromstring(draw_svg(RECORDING))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts[0] == RECORDING.title
    for one in RECORDING.series:
        assert one.name in texts
    assert {"0s", "8s", "4000/s", "0/s", "false", "true", "device", "host", "disk", "simulated time"} <= set(texts)
    assert "weight(2)" in texts
    assert "dashed: unlimited" in texts
    assert RECORDING.notes[0] in texts
    lanes = [element for element in root.iter(f"{SVG}rect") if element.get("class") == "lane"]
    assert len(lanes) == len(RECORDING.series)
    assert "prefers-color-scheme: dark" in draw_svg(RECORDING)


def test_the_picture_draws_values_where_they_are() -> None:
    root = ET.fromstring(draw_svg(Recording(title="t", end_ns=4 * S, series=(series("a", Type.BOOL, False, True),))))
    (path,) = [element.get("d") for element in root.iter(f"{SVG}path")]
    top, bottom = 56.0, 56.0 + LANE
    assert path == f"M {float(LEFT)} {bottom} H {LEFT + WIDTH / 4} V {top} H {float(LEFT + WIDTH)}"


def test_the_picture_leaves_gaps_where_a_value_is_missing() -> None:
    root = ET.fromstring(draw_svg(RECORDING))
    missing = [element for element in root.iter(f"{SVG}rect") if element.get("class") == "missing"]
    assert len(missing) == 1
    assert float(missing[0].get("x", "")) == LEFT + WIDTH * 3 / 8


def test_a_long_run_makes_no_long_file() -> None:
    long = Series("a", Type.RATE, "signal")
    for tick in range(200_000):
        long.add(tick * 5_000_000, float(tick * 7919 % 1000))
    assert len(draw_svg(Recording(title="t", end_ns=1000 * S, series=(long,)))) < 100_000


def test_names_and_notes_are_escaped() -> None:
    hostile = Recording(title="</svg><script>", end_ns=S, series=(series("<b>", Type.TEXT, "<i>"),), notes=("<u>",))
    root = ET.fromstring(draw_svg(hostile))
    assert not list(root.iter(f"{SVG}script"))


def test_the_terminal() -> None:
    assert draw(RECORDING, width=71) == (
        'policy "aimd" & <friends>\n'
        "high.launch_rate  signal  0 … 1000/s   ████████▅▅▅▅····████████████████\n"
        "hurt  let                              ▁▁▁▁████▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁\n"
        "low.max_launch_rate  knob  0 … 4000/s  ▁▁▁▁▁▁▁▁████∞∞∞∞∞∞∞∞∞∞∞∞∞∞∞∞∞∞∞∞\n"
        "low.residency  knob  device … disk     ▁▁▁▁▅▅▅▅████████████████████████\n"
        "low.share  knob                        |wei|fixed(10%)─────────────────\n"
        "                                       0s────────────────────────────8s\n"
        "`x > 1` is false at 3s\n"
    )


def test_the_terminal_without_unicode() -> None:
    text = draw(RECORDING, width=72, unicode=False)
    assert text.isascii()
    assert "high.launch_rate  signal  0 .. 1000/s   ########====????################\n" in text
    assert "low.max_launch_rate  knob  0 .. 4000/s  ________####^^^^^^^^^^^^^^^^^^^^\n" in text


def test_a_short_peak_is_seen() -> None:
    peak = Series("a", Type.NUMBER, "signal")
    for t_ns, value in ((0, 0), (500_000_000, 9), (500_000_001, 0)):
        peak.add(t_ns, value)
    assert "█" in draw(Recording(title="t", end_ns=3600 * S, series=(peak,)))


@pytest.mark.parametrize("width", [1, 60, 200])
@given(
    values=st.lists(st.one_of(st.none(), st.floats(0, 1e12), st.just(UNLIMITED)), max_size=30),
    end_ns=st.integers(1, 10**15),
    unicode=st.booleans(),
)
def test_anything_can_be_drawn(width: int, values: list[float | None], end_ns: int, unicode: bool) -> None:
    made = Series("low.max_launch_rate", Type.RATE, "knob")
    for index, value in enumerate(values):
        made.add(index * end_ns // 40, value)
    recording = Recording(title="t", end_ns=end_ns, series=(made,))
    lines = draw(recording, width=width, unicode=unicode).splitlines()
    assert all(len(line) <= max(width, 60) for line in lines)
    ET.fromstring(draw_svg(recording))
