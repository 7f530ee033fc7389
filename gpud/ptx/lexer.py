"""PTX text to tokens. Comments, `.loc` and `.file` lines end here: they do not change what a program computes."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpud.ptx.errors import PtxError


class Token(NamedTuple):
    """`kind` is name, dot (a `.word`), int, float, string, punct or end; `spaced` tells of white space before it."""

    kind: str
    text: str
    line: int
    spaced: bool = False


_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*|/\*.*?\*/|\.(?:loc|file)\b[^\n]*)
  | (?P<name>[A-Za-z][\w$]*|[_$%][\w$]+|_)
  | (?P<dot>\.\d*[A-Za-z_]\w*(?:::\w+)*)
  | (?P<float>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<string>"[^"\n]*")
  | (?P<punct>[{}()\[\]<>;:,=+\-*%&|^~!@?]|/(?!\*))
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str, *, file: str = "<ptx>") -> list[Token]:
    """All tokens of `text`, with one of kind "end" behind them.

    Raises PtxError for a character that PTX does not have, with its line.
    """
    found: list[Token] = []
    line = 1
    at = 0
    match = _TOKEN.match
    append = found.append
    spaced = False
    size = len(text)
    while at < size:
        piece = match(text, at)
        if piece is None:
            raise _stray(text, at, line, file)
        kind = piece.lastgroup
        at = piece.end()
        if kind == "space":
            spaced = True
        elif kind == "newline":
            line += 1
            spaced = True
        elif kind == "comment":
            line += piece.group().count("\n")
            spaced = True
        else:
            append(Token(kind or "", piece.group(), line, spaced))
            spaced = False
    append(Token("end", "", line))
    return found


def _stray(text: str, at: int, line: int, file: str) -> PtxError:
    if text.startswith("/*", at):
        return PtxError("this comment has no end", line=line, file=file, remedy="close it with */")
    if text[at] == '"':
        return PtxError("this string has no end on its line", line=line, file=file, remedy='close it with "')
    if text[at] == "\0":
        remedy = "pass PTX text, not a cubin or fatbin"
        return PtxError("a zero byte within the text", line=line, file=file, remedy=remedy)
    return PtxError(f"unexpected character {text[at]!r}", line=line, file=file, remedy="pass PTX text")
