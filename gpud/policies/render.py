"""Findings as text for people: what is wrong, where, and what to write instead. formats.py has those for machines.

error[GP103]: unknown unit `GB`
 --> bad/unit.gpol:3:43
  |
3 |   class a { match any  limit { memory = 20GB } }
  |                                           ^^
  = help: sizes are powers of two here: write GiB (1024³ bytes)
"""

import os
from collections.abc import Sequence
from typing import TextIO

from gpud.policies.diagnostics import MOST, Diagnostic, Label
from gpud.policies.excerpt import Mark, excerpt, visible
from gpud.policies.source import Source

_LONGEST = 400
"""Characters of a message: a name may be a megabyte long."""

_RED, _YELLOW, _BLUE, _BOLD, _PLAIN = "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"


def colour_wanted(stream: TextIO) -> bool:
    """May escape sequences be written there? Not to a file or pipe, nor with NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def one_line(text: str) -> str:
    """A message as it may be shown: on one line, without control characters, not endless."""
    if len(text) > _LONGEST:
        text = text[: _LONGEST // 2] + " … " + text[-_LONGEST // 2 :]
    return visible(text)


def severity(diagnostic: Diagnostic, *, strict: bool = False) -> str:
    """`error` or `warning`."""
    return "warning" if diagnostic.is_warning and not strict else "error"


def human(found: Sequence[Diagnostic], *, colour: bool = False, strict: bool = False, most: int = MOST) -> str:
    """The text of all findings in the order given, a blank line between two, ending with a newline; "" for none.

    Of more than `most`, warnings are left out first; what is left out is counted: `… and 7 more`.
    """
    by_weight = sorted(range(len(found)), key=lambda number: severity(found[number], strict=strict) == "warning")
    texts = [_one(found[number], colour, strict) for number in sorted(by_weight[:most])]
    if len(found) > most:
        texts.append(f"… and {len(found) - most} more")
    return "\n\n".join(texts) + "\n" if texts else ""


def summary(found: Sequence[Diagnostic], *, strict: bool = False) -> str:
    """`3 errors, 1 warning in 2 files`; `no findings`."""
    if not found:
        return "no findings"
    warnings = sum(severity(diagnostic, strict=strict) == "warning" for diagnostic in found)
    errors = len(found) - warnings
    files = len({diagnostic.primary.source.name for diagnostic in found})
    parts = [counted(errors, "error")] if errors else []
    parts += [counted(warnings, "warning")] if warnings else []
    return f"{', '.join(parts)} in {counted(files, 'file')}"


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


def _one(diagnostic: Diagnostic, colour: bool, strict: bool) -> str:
    word = severity(diagnostic, strict=strict)
    accent = _RED if word == "error" else _YELLOW

    def paint(text: str, how: str) -> str:
        return f"{how}{text}{_PLAIN}" if colour else text

    labels = (diagnostic.primary, *diagnostic.labels)
    numbers = [label.source.position(label.span.start)[0] for label in labels]
    gutter = len(str(max(numbers)))
    bar = paint(" " * gutter + " |", _BLUE)
    lines = [paint(f"{word}[{diagnostic.code}]", accent) + paint(f": {one_line(diagnostic.message)}", _BOLD)]
    for source, of_source in _by_source(labels).values():
        arrow = "-->" if source is diagnostic.primary.source else ":::"
        if not source.text:
            lines.append(f"{paint(' ' * gutter + arrow, _BLUE)} {visible(source.name)}")
            continue
        line, column = source.position(of_source[0].span.start)
        lines.append(f"{paint(' ' * gutter + arrow, _BLUE)} {visible(source.name)}:{line}:{column}")
        lines.append(bar)
        last = 0
        for number, marks in sorted(_marks(source, of_source, diagnostic.primary).items()):
            if last and number > last + 1:
                lines.append(paint(" " * gutter + " :", _BLUE))
            last = number
            for row in excerpt(source.line(number), marks):
                if row.mark:
                    lines.append(f"{bar} {paint(row.text, accent if row.mark == '^' else _BLUE)}")
                else:
                    lines.append(f"{paint(f'{number:>{gutter}} |', _BLUE)} {row.text}".rstrip())
    lines += [f"{paint(' ' * gutter + ' =', _BLUE)} help: {one_line(text)}" for text in diagnostic.helps]
    return "\n".join(lines)


def _by_source(labels: Sequence[Label]) -> dict[int, tuple[Source, list[Label]]]:
    """The primary's source first."""
    found: dict[int, tuple[Source, list[Label]]] = {}
    for label in labels:
        found.setdefault(id(label.source), (label.source, []))[1].append(label)
    return found


def _marks(source: Source, labels: Sequence[Label], primary: Label) -> dict[int, list[Mark]]:
    """Per line; on one line the primary first, then the others from right to left."""
    found: dict[int, list[Mark]] = {}
    for label in sorted(labels, key=lambda label: (label is not primary, -label.span.start)):
        line, column = source.position(label.span.start)
        end = column - 1 + max(0, label.span.end - label.span.start)
        end = min(end, max(column - 1, len(source.line(line).rstrip())))  # a longer span is marked on its first line
        mark = Mark(column - 1, end, "^" if label is primary else "-", one_line(label.text))
        found.setdefault(line, []).append(mark)
    return found
