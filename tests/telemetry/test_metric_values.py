"""Label values of any text, and histograms with exemplars."""

import pytest

from gpud.telemetry.metric_values import LONGEST, MOST_CLASSES, NONE, OTHER, ClassLabels, Counts, Histograms, clean


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("low", "low"),
        ("", NONE),
        ('a"b\\c', 'a"b\\c'),  # whoever writes it down escapes it
        ("a\nb\x00\x1b[31m", "a�b��[31m"),
        ("‮evil", "�evil"),
        ("größe", "größe"),
        ("x" * LONGEST, "x" * LONGEST),
        ("x" * (LONGEST + 1), "x" * (LONGEST - 1) + "…"),
        ("\n" * 10_000, "�" * (LONGEST - 1) + "…"),
        ("\ud800", "�"),
    ],
)
def test_any_text_is_a_short_label_in_one_line(text: str, shown: str) -> None:
    assert clean(text) == shown
    clean(text).encode()


def test_classes_beyond_a_number_are_one() -> None:
    labels = ClassLabels()
    assert labels.of("") == NONE
    assert [labels.of(f"c{number}") for number in range(MOST_CLASSES + 3)] == [
        *(f"c{number}" for number in range(MOST_CLASSES)),
        *([OTHER] * 3),
    ]
    assert labels.of("c0") == "c0"


def test_another_set_makes_room() -> None:
    labels = ClassLabels()
    labels.begin(f"c{number}" for number in range(MOST_CLASSES))
    assert labels.of("new") == OTHER
    assert labels.begin(["high", "low"]) == {"high", "low", OTHER, NONE}
    assert labels.of("new") == "new"


def test_a_name_of_10_kb_is_not_even_remembered() -> None:
    labels = ClassLabels()
    assert labels.of("x" * 10_000) == OTHER
    assert [labels.of(f"c{number}") for number in range(MOST_CLASSES)][-1] == f"c{MOST_CLASSES - 1}"


def test_durations_fall_into_buckets_their_bounds_included() -> None:
    histogram = Histograms((0.1, 1.0))
    for took in (0, 100_000_000, 100_000_001, 1_000_000_000, 5_000_000_000):
        histogram.add(("a",), took)
    assert histogram.rows() == [(("a",), [("0.1", 2), ("1.0", 4), ("+Inf", 5)], 6.200000001)]


def test_a_bucket_has_the_trace_of_who_was_in_it_last() -> None:
    histogram = Histograms((1.0,))
    histogram.add((), 500_000_000, "aa", 7_000_000_000)
    histogram.add((), 250_000_000, "bb", 8_000_000_000)
    histogram.add((), 250_000_000, "")  # one without a trace takes nothing away
    histogram.add((), 2_000_000_000, "not hex \n")
    histogram.add((), 2_000_000_000, "c" * 1000)
    ((_, ((_, _, exemplar), beyond), _),) = histogram.rows()  # type: ignore[misc]
    assert (exemplar.labels, exemplar.value, exemplar.timestamp) == ({"trace_id": "bb"}, 0.25, 8.0)
    assert beyond == ("+Inf", 5)


def test_what_is_kept_is_what_there_is() -> None:
    counts, histogram = Counts(), Histograms((1.0,))
    for job_class in ("high", "gone"):
        counts.add(("0", job_class), 2)
        histogram.add((job_class, "turn"), 1)
    counts.keep(frozenset({"high"}), 1)
    histogram.keep(frozenset({"high"}), 0)
    assert counts.values == {("0", "high"): 2}
    assert [labels for labels, _, _ in histogram.rows()] == [("high", "turn")]
