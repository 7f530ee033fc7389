"""A place in the token list, and the ways to step on from it."""

from __future__ import annotations

from typing import NoReturn

from gpud.ptx.errors import PtxError
from gpud.ptx.lexer import Token

_MAX_DEPTH = 100


class Cursor:
    """Reads tokens one after another; every `expect` raises PtxError with the line and the statement so far."""

    def __init__(self, tokens: list[Token], *, file: str) -> None:
        self.tokens = tokens
        self.file = file
        self.at = 0
        self.statement_at = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def begin(self) -> None:
        """Marks the start of a statement, for messages."""
        self.statement_at = self.at

    def accept(self, text: str) -> bool:
        """Steps over the token if it reads `text`."""
        if self.tokens[self.at].text == text and self.tokens[self.at].kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        token = self.tokens[self.at]
        if token.text != text or token.kind == "string":
            self.fail(f"expected {text!r}, found {_shown(token)}")
        self.at += 1
        return token

    def expect_kind(self, kind: str, what: str) -> Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            self.fail(f"expected {what}, found {_shown(token)}")
        self.at += 1
        return token

    def name(self, what: str = "a name") -> str:
        return self.expect_kind("name", what).text

    def integer(self, what: str = "a whole number") -> int:
        return integer(self.expect_kind("int", what).text)

    def fail(self, message: str, *, remedy: str = "") -> NoReturn:
        token = self.tokens[self.at]
        start = self.tokens[min(self.statement_at, self.at)]
        line = start.line or token.line
        raise PtxError(message, line=line, instruction=self._so_far(), file=self.file, remedy=remedy)

    def enter(self) -> None:
        """Counts a level of nesting in; `leave` counts it out. Refuses text that nests without end."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail(f"nested more than {_MAX_DEPTH} levels deep")

    def leave(self) -> None:
        self.depth -= 1

    def _so_far(self) -> str:
        """The statement's text from its start to its semicolon, at most 12 tokens, as written but for white space."""
        text = ""
        for token in self.tokens[self.statement_at : self.statement_at + 12]:
            if token.kind == "end" or token.text in (";", "{", "}"):
                break
            text += (" " if token.spaced and text else "") + token.text
        return text


def integer(text: str) -> int:
    """The value of an integer constant as PTX writes it: decimal, 0x, 0b or octal with a leading 0; U is ignored."""
    text = text.rstrip("Uu")
    lower = text.lower()
    if lower.startswith("0x"):
        return int(lower, 16)
    if lower.startswith("0b"):
        return int(lower, 2)
    if len(lower) > 1 and lower[0] == "0" and set(lower) <= set("01234567"):
        return int(lower, 8)
    return int(lower)


def _shown(token: Token) -> str:
    return "the end of the text" if token.kind == "end" else repr(token.text)
