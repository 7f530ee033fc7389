"""Operands and constant expressions."""

from __future__ import annotations

import struct
from collections.abc import Callable

from gpud.ptx import ast
from gpud.ptx.cursor import Cursor, integer

_MASK = (1 << 64) - 1


def operand(cursor: Cursor) -> ast.Operand:
    """One operand of an instruction.

    Raises PtxError where the text is none.
    """
    token = cursor.token
    if token.kind == "name":
        return _named(cursor)
    if token.text == "[":
        return _address(cursor)
    if token.text == "{":
        return _vector(cursor)
    if token.text == "!":
        cursor.next()
        return ast.Not(ast.Name(cursor.name("a predicate register")))
    if token.text == "-" and cursor.peek().kind == "name":
        cursor.next()
        return ast.Negate(_plain_name(cursor))
    return constant(cursor)


def group(cursor: Cursor) -> ast.Group:
    """`( operand, ... )`, possibly empty."""
    cursor.expect("(")
    items: list[ast.Operand] = []
    while not cursor.accept(")"):
        items.append(operand(cursor))
        if not cursor.accept(","):
            cursor.expect(")")
            break
    return ast.Group(tuple(items))


def _plain_name(cursor: Cursor) -> ast.Name:
    text = cursor.name()
    if cursor.token.kind == "dot":
        return ast.Name(text, cursor.next().text[1:])
    return ast.Name(text)


def _named(cursor: Cursor) -> ast.Operand:
    name = _plain_name(cursor)
    if cursor.token.text == "|":
        cursor.next()
        return ast.Pair(name, _plain_name(cursor))
    if cursor.token.text in ("+", "-"):
        return ast.Offset(name, _signed_offset(cursor))
    return name


def _signed_offset(cursor: Cursor) -> int:
    """`+4`, `-4`, `+-4`"""
    total = 0
    while cursor.token.text in ("+", "-"):
        sign = -1 if cursor.next().text == "-" else 1
        if cursor.accept("-"):
            sign = -sign
        total += sign * cursor.integer("a constant offset")
    if total >= 1 << 63:
        total -= 1 << 64
    return total


def _address(cursor: Cursor) -> ast.Address:
    cursor.expect("[")
    base: ast.Name | ast.Int
    if cursor.token.kind == "name":
        base = _plain_name(cursor)
        offset = _signed_offset(cursor)
    else:
        value = constant(cursor)
        if not isinstance(value, ast.Int):
            cursor.fail("an address is a register, a variable or a whole number")
        base, offset = value, 0
    more: list[ast.Operand] = []
    while cursor.accept(","):
        more.append(operand(cursor))
    cursor.expect("]")
    return ast.Address(base, offset, tuple(more))


def _vector(cursor: Cursor) -> ast.Vector:
    return ast.Vector(_list(cursor, operand))


def _list(cursor: Cursor, item: Callable[[Cursor], ast.Operand]) -> tuple[ast.Operand, ...]:
    """`{ item, ... }`"""
    cursor.expect("{")
    cursor.enter()
    items: list[ast.Operand] = []
    while not cursor.accept("}"):
        items.append(item(cursor))
        if not cursor.accept(","):
            cursor.expect("}")
            break
    cursor.leave()
    return tuple(items)


def initialiser(cursor: Cursor) -> ast.Operand:
    """`5`, `{1, 2}`, `{{1, 2}, {3}}`, `name`, `name+8`, `generic(name)+8`"""
    if cursor.token.text == "{":
        return ast.Vector(_list(cursor, initialiser))
    if cursor.token.kind != "name":
        return constant(cursor)
    if cursor.token.text == "generic" and cursor.peek().text == "(":
        cursor.next()
        cursor.next()
        inner = _named(cursor)
        cursor.expect(")")
        offset = _signed_offset(cursor)
        return ast.Group((inner, ast.Int(offset)) if offset else (inner,), "generic")
    return _named(cursor)


# Constant expressions: 64-bit arithmetic, C precedence.

_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "|": (1, lambda a, b: a | b),
    "^": (2, lambda a, b: a ^ b),
    "&": (3, lambda a, b: a & b),
    "<<": (4, lambda a, b: a << (b & 63)),
    ">>": (4, lambda a, b: a >> (b & 63)),
    "+": (5, lambda a, b: a + b),
    "-": (5, lambda a, b: a - b),
    "*": (6, lambda a, b: a * b),
    "/": (6, lambda a, b: _quotient(a, b)),
}


def _quotient(a: int, b: int) -> int:
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def constant(cursor: Cursor) -> ast.Int | ast.Float:
    """A constant: a number of either kind, or an expression of whole numbers."""
    negative = cursor.token.text == "-" and cursor.peek().kind == "float"
    if negative:
        cursor.next()
    if cursor.token.kind == "float":
        return _float(cursor.next().text, negative)
    value = _expression(cursor, 0)
    if value >= 1 << 64 or value < -(1 << 63):
        value &= _MASK
    return ast.Int(value)


def _float(text: str, negative: bool) -> ast.Float:
    head = text[:2].lower()
    if head == "0f":
        return ast.Float(int(text[2:], 16) ^ (negative << 31), 32)
    if head == "0d":
        return ast.Float(int(text[2:], 16) ^ (negative << 63), 64)
    image = int(struct.unpack("<Q", struct.pack("<d", float(text)))[0])
    return ast.Float(image ^ (negative << 63), 64)


def _expression(cursor: Cursor, level: int) -> int:
    left = _unary(cursor)
    while True:
        symbol = cursor.token.text
        if symbol in "<>" and cursor.peek().text == symbol:
            symbol *= 2
        entry = _BINARY.get(symbol)
        if entry is None or entry[0] <= level:
            return left
        for _ in symbol:
            cursor.next()
        right = _expression(cursor, entry[0])
        if symbol == "/" and right == 0:
            cursor.fail("division by zero in a constant expression")
        left = entry[1](left, right)


def _unary(cursor: Cursor) -> int:
    cursor.enter()
    value = _value(cursor)
    cursor.leave()
    return value


def _value(cursor: Cursor) -> int:
    token = cursor.token
    if token.kind == "int":
        return integer(cursor.next().text)
    if token.text == "-":
        cursor.next()
        return -_unary(cursor)
    if token.text == "+":
        cursor.next()
        return _unary(cursor)
    if token.text == "~":
        cursor.next()
        return ~_unary(cursor)
    if token.text == "(":
        cursor.next()
        if cursor.token.kind == "dot":  # a cast: (.s64) or (.u64)
            cursor.next()
            cursor.expect(")")
            return _unary(cursor)
        value = _expression(cursor, 0)
        cursor.expect(")")
        return value
    cursor.fail(f"expected an operand, found {token.text!r}" if token.text else "the text ends within an instruction")
