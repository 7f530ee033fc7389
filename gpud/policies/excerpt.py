"""The lines of a source that a finding points at, with carets below, at most `WIDTH` columns wide.

Tabs, wide and combining characters are counted as a terminal shows them; characters that would move the cursor or turn
the text round are shown as pictures, so no file can write to the terminal of who checks it.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

WIDTH = 120
"""Columns of a source line; what is longer is cut around the marks."""
_TAB = "    "


class Mark(NamedTuple):
    """What is to be underlined of one line: characters `start` … `end`, counted from 0."""

    start: int
    end: int
    char: str
    """`^` for the cause, `-` for another party."""
    text: str


class Row(NamedTuple):
    """One line of an excerpt."""

    text: str
    mark: str = ""
    """`^` or `-` below a source line; "" of the source line itself."""


@lru_cache(maxsize=1024)
def _shown(char: str) -> tuple[str, int]:
    """What is printed for a character, and its columns."""
    if char == "\t":
        return _TAB, len(_TAB)
    if " " <= char <= "~":
        return char, 1
    if char < " ":
        return chr(0x2400 + ord(char)), 1
    if char == "\x7f":
        return "␡", 1
    from unicodedata import category, east_asian_width  # most files are ASCII

    kind = category(char)
    if kind in ("Mn", "Me"):
        return char, 0
    if not char.isprintable():  # controls, what turns the direction of writing, halves of pairs, what is not assigned
        return " " if kind == "Zs" else "�", 1
    return char, 2 if east_asian_width(char) in "WF" else 1


def visible(text: str) -> str:
    """The text with nothing in it that a terminal would obey."""
    return text if text.isascii() and text.isprintable() else "".join(_shown(char)[0] for char in text)


def columns(text: str) -> int:
    """How wide a text is in a terminal."""
    return len(text) if text.isascii() and text.isprintable() else sum(_shown(char)[1] for char in text)


def _fitting(text: str, start: int, end: int) -> tuple[int, int]:
    """Characters lo … hi of `text` that fit into WIDTH around start … end: these first, then either side in turn."""
    room = WIDTH - 2  # for `…` on both sides
    lo = hi = start
    while hi < end and _shown(text[hi])[1] <= room:
        room -= _shown(text[hi])[1]
        hi += 1
    left = right = True
    while left or right:
        if left := left and lo > 0 and _shown(text[lo - 1])[1] <= room:
            lo -= 1
            room -= _shown(text[lo])[1]
        if right := right and hi < len(text) and _shown(text[hi])[1] <= room:
            room -= _shown(text[hi])[1]
            hi += 1
    return lo, hi


def _windows(text: str, marks: list[Mark]) -> list[tuple[int, int, list[Mark]]]:
    """Parts of a line that show every mark: the whole line if it fits, else as few cuts as do it."""
    if len(text) <= WIDTH and columns(text) <= WIDTH:
        return [(0, len(text), marks)]
    found: list[tuple[int, int, list[Mark]]] = []
    first, last = min(mark.start for mark in marks), max(mark.end for mark in marks)
    if last - first < WIDTH - 2:
        found.append((*_fitting(text, first, min(last, len(text))), []))
    for mark in marks:
        for lo, hi, held in found:
            if lo <= mark.start and mark.end <= hi:
                held.append(mark)
                break
        else:
            found.append((*_fitting(text, mark.start, min(mark.end, len(text))), [mark]))
    return [window for window in found if window[2]]


def excerpt(text: str, marks: Iterable[Mark]) -> list[Row]:
    """A source line and the rows below it, one a mark, in the order given."""
    text = text.rstrip()
    rows = []
    for lo, hi, held in _windows(text, list(marks)):
        before, after = "…" if lo > 0 else "", "…" if hi < len(text) else ""
        rows.append(Row(before + visible(text[lo:hi]) + after))
        for mark in held:
            start = min(mark.start, hi)
            indent = len(before) + columns(text[lo:start]) + max(0, mark.start - len(text))
            line = mark.char * max(1, columns(text[start : min(mark.end, hi)]))
            rows.append(Row(" " * indent + line + (f" {visible(mark.text)}" if mark.text else ""), mark.char))
    return rows
