"""Variable declarations and parameter lists."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.cursor import Cursor
from gpud.ptx.operands import initialiser

SPACES = {"reg", "param", "local", "shared", "global", "const", "tex"}
LINKAGE = {".extern", ".visible", ".weak", ".common"}
TYPES = {
    *(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)),
    *("b128", "f16", "f16x2", "f32", "f64", "bf16", "bf16x2", "pred", "texref", "samplerref", "surfref"),
}


class _Head:
    """What stands before the names: space, alignment, vector size, type, pointer attributes."""

    def __init__(self, cursor: Cursor) -> None:
        self.space = cursor.next().text[1:].partition("::")[0]
        if self.space not in SPACES:
            cursor.fail(f"no such state space: .{self.space}")
        self.align = 0
        self.vector = 1
        self.type = ""
        self.pointer: tuple[str, int] | None = None
        self.attributes: list[str] = []
        self._read(cursor)
        if not self.type:
            cursor.fail("a declaration without a type")

    def _read(self, cursor: Cursor) -> None:
        while cursor.token.kind == "dot":
            word = cursor.next().text[1:]
            if word == "align":
                self.align = _alignment(cursor)
            elif word in ("v2", "v4", "v8"):
                self.vector = int(word[1:])
            elif word in TYPES:
                self.type = word
            elif word == "ptr":
                self.pointer = _pointer(cursor)
            elif word == "attribute":
                self.attributes += _attributes(cursor)
            else:
                cursor.fail(f"no such type or attribute: .{word}")


def variables(cursor: Cursor, linkage: tuple[str, ...]) -> list[ast.Variable]:
    """A declaration statement: `.reg .b32 %r<5>;`, `.shared .align 4 .b8 a[16], b[16];`"""
    line = cursor.token.line
    head = _Head(cursor)
    found = [_variable(cursor, head, linkage, line)]
    while cursor.accept(","):
        found.append(_variable(cursor, head, linkage, line))
    if not cursor.accept(";"):
        cursor.fail(f"expected ',' or ';' behind a declaration, found {cursor.token.text!r}")
    return found


def parameters(cursor: Cursor) -> tuple[ast.Variable, ...]:
    """`(.param .u64 a, .param .align 8 .b8 b[32])`, also with .reg and empty."""
    cursor.expect("(")
    found: list[ast.Variable] = []
    while not cursor.accept(")"):
        line = cursor.token.line
        if cursor.token.kind != "dot":
            cursor.fail(f"expected a parameter, found {cursor.token.text!r}")
        found.append(_variable(cursor, _Head(cursor), (), line))
        if not cursor.accept(","):
            cursor.expect(")")
            break
    return tuple(found)


def _variable(cursor: Cursor, head: _Head, linkage: tuple[str, ...], line: int) -> ast.Variable:
    name = cursor.name("a variable's name")
    count = 0
    dims: list[int] = []
    if cursor.accept("<"):
        count = cursor.integer()
        cursor.expect(">")
    while cursor.accept("["):
        dims.append(-1 if cursor.token.text == "]" else cursor.integer("an array's size"))
        cursor.expect("]")
    initial = initialiser(cursor) if cursor.accept("=") else None
    return ast.Variable(
        head.space,
        head.type,
        name,
        head.align,
        head.vector,
        tuple(dims),
        count,
        initial,
        linkage,
        head.pointer,
        tuple(head.attributes),
        line,
    )


def _alignment(cursor: Cursor) -> int:
    align = cursor.integer("an alignment")
    if align <= 0 or align & (align - 1) or align > 1 << 20:
        cursor.fail(f"an alignment is a power of two, not {align}")
    return align


def _pointer(cursor: Cursor) -> tuple[str, int]:
    space, align = "", 0
    while cursor.token.kind == "dot":
        word = cursor.token.text[1:]
        if word == "align":
            cursor.next()
            align = _alignment(cursor)
        elif word in SPACES:
            space = cursor.next().text[1:]
        else:
            break
    return space, align


def _attributes(cursor: Cursor) -> list[str]:
    cursor.expect("(")
    found = []
    while not cursor.accept(")"):
        text = cursor.next().text
        while cursor.token.text not in (",", ")"):
            if cursor.token.kind == "end":
                cursor.fail("an .attribute without an end")
            text += cursor.next().text
        found.append(text)
        cursor.accept(",")
    return found
