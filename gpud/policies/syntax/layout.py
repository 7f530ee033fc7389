"""Where lines break. What a reader wrote in one line stays in one if it fits; a break stays where a line may break."""

from collections.abc import Iterator
from typing import NamedTuple

from attrs import define, field

from gpud.policies import ast
from gpud.policies.syntax.align import Line, Mark
from gpud.policies.syntax.tokens import END, Tokens, scan

WIDTH = 100
"""Columns of a line, before anything is aligned and without its comment."""
_STEP = 2
_ITEMS = ("POLICY", "TEST")
_OPENING, _CLOSING = ("LPAR", "LSQB"), ("RPAR", "RSQB")
_BREAK_BEFORE = ("UNTIL", "BECAUSE", "AND", "OR", "TO")
_ASSIGNED = ("LET", "PARAM", "HOURS", "NAME", "PER")


def lines_of(text: str, file: ast.File) -> list[Line]:
    """The lines of a file that has no errors."""
    return _Layout(text, file).lines


class _Comment(NamedTuple):
    text: str
    behind: bool
    """Behind something in its line."""
    blank: bool
    """An empty line comes before it."""


@define
class _Block:
    """`{ … }`: indices of the braces, and what is between them."""

    begin: int
    end: int
    statements: list["_Statement"]


@define
class _Statement:
    """Tokens and blocks; `when a { … } else { … }` is one."""

    parts: list["int | _Block"] = field(factory=list)

    @property
    def first(self) -> int:
        part = self.parts[0]
        assert isinstance(part, int)  # nothing begins with a brace
        return part

    @property
    def blocks(self) -> list[_Block]:
        return [part for part in self.parts if isinstance(part, _Block)]


class _Layout:
    def __init__(self, text: str, file: ast.File) -> None:
        self.text, self.tokens = text, scan(text)
        self.starts, self.actions = set[int](), set[int]()
        """Offsets at which statements begin, and what happens in an `at`."""
        for node in (*file.uses, *file.items):
            self._note(node)
        self.comments: list[list[_Comment]] = []
        """Before each token."""
        self.blank: list[bool] = []
        """An empty line comes directly before the token."""
        self.newline: list[bool] = []
        self._gaps(self.tokens)
        self.lines: list[Line] = []
        statements, _ = self._statements(0)
        previous = ""
        for statement in statements:
            kind = self.tokens.kinds[statement.first]
            apart = kind in _ITEMS or previous in _ITEMS or (kind == "APPLY" and previous != "APPLY")
            self._statement(statement, 0, apart=apart and previous != "")
            previous = kind
        self._leading(len(self.tokens.kinds) - 1, 0)

    # ------------------------------------------------------------------------------------------- reading the text

    def _note(self, node: object) -> None:
        """Statements in statements; the tree is not deep."""
        if isinstance(node, ast.Body):
            inner: tuple[object, ...] = node.members
        else:
            self.starts.add(node.span.start)  # type: ignore[attr-defined]
            match node:
                case ast.Policy() | ast.Class():
                    inner = node.members
                case ast.Block() | ast.Attach():
                    inner = node.settings
                case ast.Test():
                    inner = node.steps
                case ast.Guard() | ast.Each():
                    inner = (node.body,)
                case ast.During() | ast.When():
                    inner = (node.body,) if node.otherwise is None else (node.body, node.otherwise)
                case ast.At():
                    self.actions.add(node.action.span.start)
                    inner = ()
                case _:
                    inner = ()
        for child in inner:
            self._note(child)

    def _gaps(self, tokens: Tokens) -> None:
        at, comments = 0, tokens.comments
        end = 0
        for index, start in enumerate(tokens.starts):
            if tokens.kinds[index] == END:
                start = len(self.text)
            here: list[_Comment] = []
            self.newline.append("\n" in self.text[end:start])
            while at < len(comments) and comments[at][0] < start:
                between = self.text[end : comments[at][0]]
                behind = index > 0 and not here and "\n" not in between
                here.append(_Comment(self.text[slice(*comments[at])].rstrip(), behind, between.count("\n") > 1))
                end = comments[at][1]
                at += 1
            self.comments.append(here)
            self.blank.append(self.text[end:start].count("\n") > 1)
            end = tokens.ends[index]

    def _statements(self, at: int) -> tuple[list[_Statement], int]:
        """Up to the brace that closes, or the end: the statements, and where that is."""
        kinds, starts = self.tokens.kinds, self.tokens.starts
        found: list[_Statement] = []
        while kinds[at] not in ("RBRACE", END):
            if not found or starts[at] in self.starts or kinds[at] in ("MATCH", "GPOL"):
                found.append(_Statement())
            if kinds[at] == "LBRACE":
                inner, end = self._statements(at + 1)
                found[-1].parts.append(_Block(at, end, inner))
                at = end + 1
            else:
                found[-1].parts.append(at)
                at += 1
        return found, at

    # ------------------------------------------------------------------------------------------------- one statement

    def _statement(self, statement: _Statement, indent: int, *, apart: bool = False, first: bool = False) -> None:
        """`apart`: an empty line comes before it in any case; `first`: none does, it opens a block."""
        self._leading(statement.first, indent, apart=apart, first=first)
        if self._is_flat(statement):
            line = self._flat_line(statement, indent)
            if indent + len(_plain(line)) <= WIDTH:
                self._add(line, statement.first, apart, first)
                return
        head: list[int] = []
        opened = False
        for part in statement.parts:
            if isinstance(part, int):
                if not head and opened:
                    self._leading(part, indent, first=True)
                head.append(part)
                continue
            empty = not part.statements and not self.comments[part.end]
            self._head([*head, part.begin], indent, "}" if empty else "", statement, apart, first or opened)
            head, opened = [], True
            if empty:
                continue
            for number, inner in enumerate(part.statements):
                self._statement(inner, indent + _STEP, first=number == 0)
            self._leading(part.end, indent + _STEP, first=not part.statements, last=True)
            self.lines.append(Line(indent, ["}"]))
        if head:
            self._head(head, indent, "", statement, apart, first)

    def _add(self, line: Line, token: int, apart: bool, first: bool) -> None:
        """The line that begins with a token, with the empty line before it."""
        own = any(not comment.behind for comment in self.comments[token])
        line.blank = (self.blank[token] or (apart and not own)) and not (first and not own)
        self.lines.append(line)

    def _leading(
        self, token: int, indent: int, *, apart: bool = False, first: bool = False, last: bool = False
    ) -> None:
        """The comments before a token: the one behind the line above, and lines of their own."""
        for comment in self.comments[token]:
            if comment.behind:
                self.lines[-1].comment = comment.text
            else:
                self.lines.append(Line(indent, comment=comment.text, blank=(comment.blank or apart) and not first))
                apart = first = False

    def _is_flat(self, statement: _Statement) -> bool:
        """It was written in one line, or can only be."""
        if self.tokens.kinds[statement.first] in _ITEMS and any(block.statements for block in statement.blocks):
            return False
        for number, part in enumerate(statement.parts):
            if isinstance(part, int):
                if number and (self.comments[part] or self._may_break(part)):
                    return False
            elif not self._is_flat_block(part):
                return False
        return True

    def _is_flat_block(self, block: _Block) -> bool:
        inside = range(block.begin + 1, block.end + 1)
        return not self.comments[block.begin] and not any(self.comments[i] or self.newline[i] for i in inside)

    def _may_break(self, token: int) -> bool:
        """A break before this token stays."""
        kinds = self.tokens.kinds
        if kinds[token] == "ELSE":
            return self.newline[token]
        if kinds[token] in _BREAK_BEFORE:
            # Behind `and` is as good as before it, and is made the same.
            return self.newline[token] or (kinds[token] in ("AND", "OR") and self.newline[token + 1])
        return self.newline[token] and kinds[token - 1] in ("COMMA", *_OPENING) and kinds[token] not in _CLOSING

    # ----------------------------------------------------------------------------------------------------- one line

    def _flat_line(self, statement: _Statement, indent: int) -> Line:
        """All of a statement."""
        line = Line(indent)
        blocks = statement.blocks
        alignable = len(blocks) == 1 and bool(blocks[0].statements)
        heads = [part for part in statement.parts if isinstance(part, int)]
        mark = None if blocks else self._mark(heads)
        for part in statement.parts:
            if isinstance(part, int):
                self._append(line, part, self._key(statement) if part == mark else None)
                continue
            self._append(line, part.begin, f"{{ {self._word(statement.first)}" if alignable else None)
            for number, inner in enumerate(part.statements):
                if number == 1 and alignable and self.tokens.kinds[statement.first] == "CLASS":
                    line.marks.append(Mark("cell", 2))
                    line.cells.append("")
                elif number:
                    line.cells[-1] += " "
                self._append_flat(line, inner)
            line.cells[-1] += " }" if part.statements else "}"
        return line

    def _append_flat(self, line: Line, statement: _Statement) -> None:
        """A statement within the line of another."""
        for part in statement.parts:
            if isinstance(part, int):
                self._append(line, part, None)
                continue
            self._append(line, part.begin, None)
            for number, inner in enumerate(part.statements):
                line.cells[-1] += " " if number else ""
                self._append_flat(line, inner)
            line.cells[-1] += " }" if part.statements else "}"

    def _append(self, line: Line, token: int, key: str | None) -> None:
        """A token, with a space before it where one belongs, or with a mark."""
        if key is not None:
            line.marks.append(Mark(key, 2 if key == "AT" else 1))
            line.cells.append("")
        elif line.cells[-1] and self._spaced(token):
            line.cells[-1] += " "
        line.cells[-1] += self._word(token)

    def _word(self, token: int) -> str:
        return self.text[self.tokens.starts[token] : self.tokens.ends[token]]

    def _spaced(self, token: int) -> bool:
        before, kind = self.tokens.kinds[token - 1], self.tokens.kinds[token]
        if kind in ("COMMA", "DOT", "DOTS", *_CLOSING) or before in ("DOT", "DOTS", *_OPENING):
            return False
        if kind == "LPAR":
            called = before in ("NAME", "STRING") or (before == "CLASS" and self.tokens.kinds[token - 2] == "DOT")
            return not called
        return True

    def _mark(self, heads: list[int]) -> int | None:
        """The token of a statement without block that stands below those of its neighbours."""
        kinds = self.tokens.kinds
        first = kinds[heads[0]]
        if first in _ASSIGNED:
            return next((token for token in heads if kinds[token] == "EQUAL"), None)
        if first == "AT":
            return next((token for token in heads if self.tokens.starts[token] in self.actions), None)
        sought = {"BY": "EXPECT", "FROM": "EXPECT", "APPLY": "TO"}.get(first)
        return next((token for token in heads if kinds[token] == sought), None)

    def _key(self, statement: _Statement) -> str:
        first = self.tokens.kinds[statement.first]
        return {"BY": "AT", "PER": "NAME"}.get(first, first)

    # ------------------------------------------------------------------------------------------------- several lines

    def _head(self, tokens: list[int], indent: int, tail: str, statement: _Statement, apart: bool, first: bool) -> None:
        """Tokens that may take several lines, the last perhaps a `{`."""
        breaks = {token for token in tokens[1:] if self.comments[token] or self._may_break(token)}
        while self._break_more(tokens, breaks, indent, tail):
            pass
        is_block = self.tokens.kinds[tokens[-1]] == "LBRACE"
        mark = None if is_block else self._mark(tokens)
        depth = 0
        pieces = list(_split(tokens, breaks))
        for number, piece in enumerate(pieces):
            if number:
                self._leading(piece[0], self._indent(indent, piece[0], depth), first=True)
            line = Line(self._indent(indent, piece[0], depth) if number else indent)
            named = self._one_argument(piece) if number and depth else None
            for token in piece:
                key = self._key(statement) if token == mark else "arg" if token == named else None
                self._append(line, token, key)
                depth += (self.tokens.kinds[token] in _OPENING) - (self.tokens.kinds[token] in _CLOSING)
            if number == len(pieces) - 1:
                line.cells[-1] += tail
            if number:
                self.lines.append(line)
            else:
                self._add(line, piece[0], apart, first)

    def _indent(self, indent: int, token: int, depth: int) -> int:
        return indent if self.tokens.kinds[token] == "LBRACE" else indent + _STEP * max(depth, 1)

    def _one_argument(self, piece: list[int]) -> int | None:
        """The `=` of a line that has a named argument and nothing else."""
        kinds = [self.tokens.kinds[token] for token in piece]
        if kinds[:2] != ["NAME", "EQUAL"]:
            return None
        depth = 0
        for at, kind in enumerate(kinds):
            if kind == "COMMA" and depth == 0 and at < len(kinds) - 1:
                return None
            depth += (kind in _OPENING) - (kind in _CLOSING)
        return piece[1]

    def _break_more(self, tokens: list[int], breaks: set[int], indent: int, tail: str) -> bool:
        """Adds breaks to a line that is too long; false if none is, or none can be made shorter."""
        kinds = self.tokens.kinds
        depth = 0
        for piece in _split(tokens, breaks):
            line = Line(0)
            for token in piece:
                self._append(line, token, None)
            start = indent if piece[0] == tokens[0] else self._indent(indent, piece[0], depth)
            long = start + len(_plain(line)) + (len(tail) if piece[-1] == tokens[-1] else 0) > WIDTH
            more = self._breaks_in(piece) if long else set()
            if more:
                breaks |= more
                return True
            depth += sum((kinds[token] in _OPENING) - (kinds[token] in _CLOSING) for token in piece)
        return False

    def _breaks_in(self, piece: list[int]) -> set[int]:
        """Before `because`, else before `until`, else between arguments, else before `and` and `or`."""
        kinds = self.tokens.kinds
        for word in ("BECAUSE", "UNTIL"):
            for token in piece[1:]:
                if kinds[token] == word:
                    return {token}
        levels: dict[int, set[int]] = {}
        logic: dict[int, set[int]] = {}
        depth = 0
        for at, token in enumerate(piece):
            if kinds[token] in ("AND", "OR") and at:
                logic.setdefault(depth, set()).add(token)
            depth += (kinds[token] in _OPENING) - (kinds[token] in _CLOSING)
            if at + 1 < len(piece) and kinds[token] in ("COMMA", *_OPENING) and kinds[piece[at + 1]] not in _CLOSING:
                levels.setdefault(depth, set()).add(piece[at + 1])
        found = [logic[level] for level in sorted(logic)][:1] + [levels[level] for level in sorted(levels)][:1]
        # What is outermost goes first; between two of one depth the arguments do.
        if logic and levels and min(levels) <= min(logic):
            found.reverse()
        return found[0] if found else set()


def _split(tokens: list[int], breaks: set[int]) -> Iterator[list[int]]:
    piece: list[int] = []
    for token in tokens:
        if token in breaks and piece:
            yield piece
            piece = []
        piece.append(token)
    yield piece


def _plain(line: Line) -> str:
    """Its text without alignment."""
    text = line.cells[0]
    for mark, cell in zip(line.marks, line.cells[1:], strict=True):
        text += " " * mark.gap + cell
    return text
