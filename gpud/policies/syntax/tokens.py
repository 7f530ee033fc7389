"""Text → tokens. Never fails: what is not a token of the language becomes one of the kinds in `BAD`."""

import re
from functools import cache
from typing import NamedTuple

from gpud.policies.syntax.tables import tables

END = "$END"
OPEN_STRING, BAD_NUMBER, BAD_WORD, BAD_CHARACTER = BAD = ("open string", "bad number", "bad word", "bad character")
"""A quoted text that its line does not close; `22h00`; `GB`; anything else."""
_BAD_PATTERNS = (r'"[^"\n]*', r"[0-9](?:[\w:%]|\.(?!\.))*", r"\w+", r"[\s\S]")


class Tokens(NamedTuple):
    """Parallel lists, one entry a token; the last is `END`."""

    kinds: list[str]
    starts: list[int]
    ends: list[int]
    comments: list[tuple[int, int]]


@cache
def _scanner() -> tuple[re.Pattern[str], list[str], dict[str, str]]:
    """One expression with a group a kind, the kind of each group, and the words that are no names."""
    table = tables()
    # The very strings that are the keys of the rows: a look-up then compares addresses.
    keys = {kind: kind for row in table["rows"] for kind in row}
    patterns = [(keys.get(kind, kind), pattern) for kind, pattern in table["patterns"]]
    patterns += zip(BAD, _BAD_PATTERNS, strict=True)
    expression = re.compile("|".join(f"({pattern})" for _, pattern in patterns))
    kinds = [""] * (expression.groups + 1)
    group = 1
    for kind, pattern in patterns:
        kinds[group] = "" if kind.startswith("__IGNORE") else kind
        group += 1 + re.compile(pattern).groups
    return expression, kinds, {word: keys[kind] for word, kind in table["words"].items()}


def scan(text: str) -> Tokens:
    """All tokens of a text. A byte order mark before the first counts as space."""
    expression, names, words = _scanner()
    kinds: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    comments: list[tuple[int, int]] = []
    for found in expression.finditer(text, 1 if text.startswith("\ufeff") else 0):
        group = found.lastindex
        kind = names[group]  # type: ignore[index]  # one group always matches
        if not kind:
            continue
        start, end = found.span()
        if kind == "NAME":
            kind = words.get(text[start:end], kind)
        elif kind == "COMMENT":
            comments.append((start, end))
            continue
        kinds.append(kind)
        starts.append(start)
        ends.append(end)
    last = ends[-1] if ends else 0
    kinds.append(END)
    starts.append(last)
    ends.append(last)
    return Tokens(kinds, starts, ends, comments)
