"""PTX text to a Module."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.cursor import Cursor
from gpud.ptx.declarations import LINKAGE, SPACES, parameters, variables
from gpud.ptx.errors import PtxError
from gpud.ptx.lexer import tokens
from gpud.ptx.operands import group, operand

_NOT_PTX = "pass PTX text (for example from `nvcc -ptx` or numba without the package nvidia-nvjitlink)"


def parse(text: str, *, file: str = "<ptx>") -> ast.Module:
    """The module that `text` holds.

    Raises PtxError with line, statement and remedy where it is not PTX.
    """
    cursor = Cursor(tokens(text.rstrip("\0"), file=file), file=file)
    if cursor.token.kind == "end":
        cursor.fail("no PTX: the text is empty", remedy=_NOT_PTX)
    cursor.begin()
    if cursor.token.text != ".version":
        cursor.fail("PTX starts with .version", remedy=_NOT_PTX)
    cursor.next()
    version = _version(cursor)
    target: tuple[str, ...] = ()
    address_size = 32
    items: list[ast.Function | ast.Variable | ast.Alias | ast.Pragma] = []
    while cursor.token.kind != "end":
        cursor.begin()
        word = cursor.token.text
        if word == ".target":
            cursor.next()
            target = _words(cursor)
        elif word == ".address_size":
            cursor.next()
            address_size = cursor.integer("32 or 64")
        elif word == ".section":
            _skip_section(cursor)
        elif word == ".pragma":
            items.append(_pragma(cursor))
        elif word == ".alias":
            items.append(_alias(cursor))
        elif word == ".version":
            cursor.fail("a second .version", remedy="pass one module a file")
        else:
            items.extend(_item(cursor))
    if not target:
        raise PtxError("no .target", line=1, file=file, remedy="add a line such as .target sm_75")
    return ast.Module(version, target, address_size, tuple(items))


def _version(cursor: Cursor) -> tuple[int, int]:
    text = cursor.next().text
    major, dot, minor = text.partition(".")
    if not (dot and major.isdigit() and minor.isdigit()):
        cursor.fail(f"expected a version such as 8.0, found {text!r}")
    return int(major), int(minor)


def _words(cursor: Cursor) -> tuple[str, ...]:
    words = [cursor.name("a target")]
    while cursor.accept(","):
        words.append(cursor.name("a target"))
    return tuple(words)


def _skip_section(cursor: Cursor) -> None:
    """Debug data: nothing that runs."""
    cursor.next()
    while cursor.token.text != "{":
        if cursor.next().kind == "end":
            cursor.fail("a .section without a body")
    depth = 0
    while True:
        token = cursor.next()
        if token.kind == "end":
            cursor.fail("a .section without an end", remedy="close it with }")
        depth += (token.text == "{") - (token.text == "}")
        if depth == 0:
            return


def _pragma(cursor: Cursor) -> ast.Pragma:
    line = cursor.next().line
    text = cursor.expect_kind("string", "a string").text[1:-1]
    cursor.expect(";")
    return ast.Pragma(text, line)


def _alias(cursor: Cursor) -> ast.Alias:
    line = cursor.next().line
    name = cursor.name()
    cursor.expect(",")
    target = cursor.name()
    cursor.expect(";")
    return ast.Alias(name, target, line)


def _item(cursor: Cursor) -> list[ast.Function | ast.Variable | ast.Alias | ast.Pragma]:
    """A function, or variables (one statement may declare several)."""
    linkage: list[str] = []
    while cursor.token.text in LINKAGE:
        linkage.append(cursor.next().text[1:])
    word = cursor.token.text
    if word in (".entry", ".func"):
        return [_function(cursor, tuple(linkage))]
    if word[1:] in SPACES:
        return list(variables(cursor, tuple(linkage)))
    cursor.fail(f"{word!r} is no declaration of a module", remedy="check that the whole file is PTX")


def _function(cursor: Cursor, linkage: tuple[str, ...]) -> ast.Function:
    first = cursor.next()
    entry = first.text == ".entry"
    directives = list(_directives(cursor))
    results = parameters(cursor) if not entry and cursor.token.text == "(" else ()
    name = cursor.name("a function's name")
    params = parameters(cursor) if cursor.token.text == "(" else ()
    directives += _directives(cursor)
    body = None
    if not cursor.accept(";"):
        if cursor.token.text != "{":
            cursor.fail(f"expected a body or ';' behind {name}, found {cursor.token.text!r}")
        body = _block(cursor)
    return ast.Function(entry, name, params, results, tuple(directives), linkage, body, first.line)


def _directives(cursor: Cursor) -> list[ast.Directive]:
    found = []
    while cursor.token.kind == "dot":
        name = cursor.next().text[1:]
        values: list[int | str] = []
        while cursor.token.kind in ("int", "string"):
            values.append(cursor.next().text[1:-1] if cursor.token.kind == "string" else cursor.integer())
            if not cursor.accept(","):
                break
        if name == "pragma":
            cursor.accept(";")
        found.append(ast.Directive(name, tuple(values)))
    return found


def _block(cursor: Cursor) -> ast.Block:
    line = cursor.expect("{").line
    cursor.enter()
    body: list[ast.Statement] = []
    while cursor.token.text != "}":
        if cursor.token.kind == "end":
            cursor.begin()
            cursor.fail(f"the text ends within the block that starts on line {line}", remedy="pass the whole PTX file")
        cursor.begin()
        _statement(cursor, body)
    cursor.next()
    cursor.leave()
    return ast.Block(tuple(body), line)


def _statement(cursor: Cursor, body: list[ast.Statement]) -> None:
    token = cursor.token
    if token.kind == "name":
        if cursor.peek().text == ":":
            _label(cursor, body)
        else:
            body.append(_instruction(cursor, None))
    elif token.text == "@":
        body.append(_guarded(cursor))
    elif token.text == "{":
        body.append(_block(cursor))
    elif token.text == ".pragma":
        body.append(_pragma(cursor))
    elif token.text == ".section":
        _skip_section(cursor)
    elif token.text == ";":
        cursor.next()
    elif token.text in LINKAGE or token.text[1:] in SPACES:
        linkage: list[str] = []
        while cursor.token.text in LINKAGE:
            linkage.append(cursor.next().text[1:])
        body.extend(variables(cursor, tuple(linkage)))
    else:
        cursor.fail(f"{token.text!r} starts no statement")


def _label(cursor: Cursor, body: list[ast.Statement]) -> None:
    token = cursor.next()
    cursor.next()
    word = cursor.token.text
    if word == ".branchtargets":
        cursor.next()
        labels = [cursor.name("a label")]
        while cursor.accept(","):
            labels.append(cursor.name("a label"))
        cursor.expect(";")
        body.append(ast.BranchTargets(token.text, tuple(labels), token.line))
    elif word in (".callprototype", ".calltargets"):
        cursor.fail(
            f"indirect calls ({word}) are not supported",
            remedy="call functions by name, not through pointers or virtual methods",
        )
    else:
        body.append(ast.Label(token.text, token.line))


def _guarded(cursor: Cursor) -> ast.Instruction:
    cursor.expect("@")
    negated = cursor.accept("!")
    guard = ast.Guard(cursor.name("a predicate register"), negated)
    return _instruction(cursor, guard)


def _instruction(cursor: Cursor, guard: ast.Guard | None) -> ast.Instruction:
    first = cursor.expect_kind("name", "an instruction")
    modifiers = []
    while cursor.token.kind == "dot":
        modifiers.append(cursor.next().text[1:])
    operands: list[ast.Operand] = []
    if cursor.token.text != ";":
        while True:
            operands.append(group(cursor) if first.text == "call" and cursor.token.text == "(" else operand(cursor))
            if not cursor.accept(","):
                break
    if not cursor.accept(";"):
        cursor.fail(f"expected ',' or ';', found {cursor.token.text!r}" if cursor.token.text else "no ';' at the end")
    return ast.Instruction(first.text, tuple(modifiers), tuple(operands), guard, first.line)
