"""What metrics are made of: label values of whatever text, sums, and histograms with exemplars. Pure.

`prometheus_client` writes them down; its own counters and histograms are not used, since theirs cannot be read without
a lock, nor forgotten by class.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from attrs import Factory, define
from prometheus_client.samples import Exemplar

LONGEST = 64
"""Characters of a label value."""
LONGEST_TRACE = 64
MOST_CLASSES = 32
"""Values of the label `class`, beside these three."""
OTHER = "other"
"""All that there was no room for."""
NONE = "none"
"""Of jobs where no policy arbitrates."""
Labels = tuple[str, ...]


def clean(text: str) -> str:
    """In one line, short, and not empty: an empty label is none."""
    text = text[: LONGEST + 1]
    shown = text if text.isprintable() else "".join(one if one.isprintable() else "�" for one in text)
    return f"{shown[: LONGEST - 1]}…" if len(shown) > LONGEST else shown or NONE


class ClassLabels:
    """Names of classes → label values, so many at a time."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def begin(self, names: Iterable[str]) -> frozenset[str]:
        """These are the classes from now on; returns the values that stand for something."""
        self._known = {}
        for name in names:
            self.of(name)
        return frozenset((*self._known.values(), OTHER, NONE))

    def of(self, name: str) -> str:
        """One that was not known takes a free place, if there is one."""
        found = self._known.get(name)
        if found is not None or not name:
            return found or NONE
        if len(self._known) >= MOST_CLASSES or len(name) > 10 * LONGEST:
            return OTHER
        return self._known.setdefault(name, clean(name))


class Counts:
    """A counter for each set of label values."""

    def __init__(self) -> None:
        self.values: dict[Labels, int] = {}

    def add(self, labels: Labels, by: int = 1) -> None:
        """With 0 it is there from now on: who looks at differences sees the first one."""
        self.values[labels] = self.values.get(labels, 0) + by

    def keep(self, classes: frozenset[str], at: int) -> None:
        """Forgets those of classes that there are not any more. `at`: where the class stands among the labels."""
        self.values = {labels: count for labels, count in self.values.items() if labels[at] in classes}


@define
class _Times:
    """One histogram. `counts` and `exemplars`: by bucket, the last one of what is beyond all bounds."""

    counts: list[int]
    exemplars: list[Exemplar | None]
    total_ns: int = 0


@define
class Histograms:
    """Durations, a histogram for each set of label values. `bounds`: of buckets, in seconds."""

    bounds: tuple[float, ...]
    values: dict[Labels, _Times] = Factory(dict)
    _bounds_ns: tuple[int, ...] = ()

    def __attrs_post_init__(self) -> None:
        self._bounds_ns = tuple(round(bound * 1e9) for bound in self.bounds)

    def add(self, labels: Labels, took_ns: int, trace: str = "", at_ns: int = 0) -> None:
        """`trace`: of what took so long, "" if there is none; `at_ns`: when it was over, Unix time."""
        found = self.begin(labels)
        bucket = bisect_left(self._bounds_ns, took_ns)
        found.counts[bucket] += 1
        found.total_ns += took_ns
        if trace and len(trace) <= LONGEST_TRACE and trace.isalnum():
            found.exemplars[bucket] = Exemplar({"trace_id": trace}, took_ns / 1e9, at_ns / 1e9)

    def begin(self, labels: Labels) -> _Times:
        """As `Counts.add` with 0."""
        found = self.values.get(labels)
        if found is None:
            room = len(self.bounds) + 1
            found = self.values[labels] = _Times([0] * room, [None] * room)
        return found

    def keep(self, classes: frozenset[str], at: int) -> None:
        """As of Counts."""
        self.values = {labels: one for labels, one in self.values.items() if labels[at] in classes}

    def rows(self) -> list[tuple[Labels, list[tuple[str, float] | tuple[str, float, Exemplar]], float]]:
        """(label values, buckets as `prometheus_client` wants them, sum in seconds)."""
        names = [*map(str, self.bounds), "+Inf"]
        return [(labels, _buckets(names, one), one.total_ns / 1e9) for labels, one in self.values.items()]


def _buckets(names: Sequence[str], one: _Times) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    return [
        (name, count) if exemplar is None else (name, count, exemplar)
        for name, count, exemplar in zip(names, accumulate(one.counts), one.exemplars, strict=True)
    ]
