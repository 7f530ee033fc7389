"""A text, and places in it."""

from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from attrs import define


class Span(NamedTuple):
    """Characters `start` … `end` (exclusive) of one source."""

    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        """From the beginning of this one to the end of the other."""
        return Span(self.start, other.end)


NOWHERE = Span(0, 0)


@define(slots=False)
class Source:
    """One file as read, or a text from elsewhere."""

    name: str
    """As diagnostics show it: a path as the user gave it, `<apply>` for a flag."""
    text: str
    """Newlines are `\\n`; no byte order mark."""

    @cached_property
    def _starts(self) -> list[int]:
        starts, at = [0], self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, columns in characters."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def start_of(self, number: int) -> int:
        """Offset of a line's first character."""
        return self._starts[number - 1]

    def line(self, number: int) -> str:
        """The text of a line, without its newline."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)]
