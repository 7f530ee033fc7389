"""What could stand somewhere, in words."""

from collections.abc import Set
from typing import NamedTuple

from gpud.policies.syntax.tables import tables
from gpud.policies.syntax.tokens import END


class _Group(NamedTuple):
    """Where all of `sign` could stand, `word` says it, for all of `covers` too."""

    word: str
    sign: frozenset[str]
    covers: frozenset[str] = frozenset()


def _group(word: str, sign: str, more: str = "") -> _Group:
    return _Group(word, frozenset(sign.split()), frozenset((sign + " " + more).split()))


_GROUPS = (
    _group("a line of a policy", "DOC CLASS WHEN GUARD NAME", "PARAM TIMEZONE HOURS LET EACH DURING"),
    _group("a binding, a rule", "LET WHEN DURING NAME"),
    _group("a step such as `at 1s expect …`", "AT BY FROM FEED", "POLICY CLOCK SIMULATE REPLAY ATTACH"),
    _group("a value", "QUANTITY RATE NUMBER STRING TRUE FALSE UNLIMITED NAME LPAR", "LSQB NOT"),
    _group("a setting", "NAME PER"),
    _group("an operator", "AND OR CMP", "ADD STAR SLASH IN"),
    _group("`and`, `or`", "AND OR"),
    _group("a number, a UUID in quotes, `*`", "NUMBER STRING STAR"),
)
_WORDS = {
    "NAME": "a name",
    "STRING": "a text in quotes",
    "TIME": "a time such as `22:00`",
    "NUMBER": "a number",
    "CMP": "a comparison",
    "ADD": "`+`",
    END: "the end of the file",
}
_LAST = ("RBRACE", END)
"""Named last: it is seldom what was meant."""
_MOST = 5


def in_words(accepted: Set[str]) -> str:
    """`expected `=`, `(` or a name`; empty where so much could stand that naming it helps nobody."""
    left = set(accepted)
    # What goes on with a name is only worth naming where nothing else is possible.
    if left - {"DOT", "LPAR"} and "NAME" not in left:
        left -= {"DOT", "LPAR"}
    groups: list[str] = []
    for group in _GROUPS:
        if group.sign <= left:
            groups.append(group.word)
            left -= group.covers
    single = sorted((_word(kind) for kind in left.difference(_LAST)), key=_signs_first)
    words = groups + single if len(single) > 2 and "`{`" not in single else single + groups
    words += [_word(kind) for kind in _LAST if kind in left]
    if not words or len(words) > _MOST:
        return ""
    return f"expected {', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else f"expected {words[0]}"


def _word(kind: str) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    return next((f"`{text}`" for text, of in tables()["words"].items() if of == kind), kind)


def _signs_first(word: str) -> tuple[bool, str]:
    return word[1:2].isalpha(), word
