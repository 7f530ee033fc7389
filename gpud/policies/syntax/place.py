"""Where a parser got stuck, and what is around it."""

from functools import cached_property

from attrs import define

from gpud.policies.source import Source, Span
from gpud.policies.syntax.tables import tables
from gpud.policies.syntax.tokens import END, Tokens

OPENS = {"LBRACE": "RBRACE", "LPAR": "RPAR", "LSQB": "RSQB"}


class Stuck(Exception):
    """No rule has a place for token `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at


@define(slots=False)
class Place:
    """Token `at` cannot stand where it is."""

    source: Source
    tokens: Tokens
    at: int
    states: tuple[int, ...]
    """The parser's, before this token."""
    begin: int
    """The first token of its item."""

    def kind(self, near: int = 0) -> str:
        """Of a token, counted from the one that cannot stand; empty before the item."""
        index = self.at + near
        return self.tokens.kinds[index] if self.begin <= index < len(self.tokens.kinds) else ""

    def span(self, near: int = 0, last: int | None = None) -> Span:
        """Of a token, or up to another one."""
        end = self.at + (near if last is None else last)
        return Span(self.tokens.starts[self.at + near], self.tokens.ends[end])

    def text(self, near: int = 0) -> str:
        """Of a token; empty before the item and at the end."""
        return self.source.text[slice(*self.span(near))] if self.kind(near) else ""

    def glued(self, near: int = 0) -> bool:
        """Nothing between a token and the one before."""
        return self.kind(near - 1) != "" and self.tokens.starts[self.at + near] == self.tokens.ends[self.at + near - 1]

    def same_line(self, near: int) -> bool:
        """No newline between a token and the one before."""
        if not self.kind(near - 1):
            return False
        between = slice(self.tokens.ends[self.at + near - 1], self.tokens.starts[self.at + near])
        return "\n" not in self.source.text[between]

    @property
    def ended(self) -> bool:
        """The text is at its end."""
        return self.kind() == END

    @cached_property
    def accepted(self) -> frozenset[str]:
        """Kinds that could stand here."""
        row = tables()["rows"][self.states[-1]]
        return frozenset(kind for kind in row if fits(self.states, kind))

    @cached_property
    def open(self) -> list[int]:
        """The brackets that are open here, from the outermost, as indices of tokens."""
        found: list[int] = []
        for index in range(self.begin, self.at):
            kind = self.tokens.kinds[index]
            if kind in OPENS:
                found.append(index)
            elif found and OPENS[self.tokens.kinds[found[-1]]] == kind:
                found.pop()
        return found

    @cached_property
    def block(self) -> list[str]:
        """The words before the innermost `{` that is open: `["class", "a"]`; of a rule only the first counts."""
        braces = [index for index in self.open if self.tokens.kinds[index] == "LBRACE"]
        return self.words_before(braces[-1]) if braces else []

    def words_before(self, index: int) -> list[str]:
        """The texts of the tokens of one line of the language that come before a token."""
        first = index
        while first > self.begin and self.tokens.kinds[first - 1] not in ("LBRACE", "RBRACE"):
            first -= 1
            if self.tokens.kinds[first] in STARTERS:
                break
            if index - first > 40:
                break
        text = self.source.text
        return [text[self.tokens.starts[i] : self.tokens.ends[i]] for i in range(first, index)]

    def indent(self, index: int) -> int | None:
        """Columns before a token that is the first of its line, else None."""
        start = self.tokens.starts[index]
        before = self.source.text[self.source.text.rfind("\n", 0, start) + 1 : start]
        return None if before.strip() else len(before)

    def line_indent(self, index: int) -> int:
        """Columns before the first token of a token's line."""
        line = self.source.line(self.source.position(self.tokens.starts[index])[0])
        return len(line) - len(line.lstrip())


STARTERS = frozenset(
    ("POLICY", "TEST", "APPLY", "CLASS", "WHEN", "DURING", "GUARD", "EACH", "ELSE", "HOURS", "LET", "PARAM", "DOC",
     "TIMEZONE", "USE", "ATTACH", "FEED", "AT", "BY", "FROM", "SIMULATE", "CLOCK", "REPLAY")
)  # fmt: skip


def fits(states: tuple[int, ...], kind: str) -> bool:
    """Whether a parser in these states would take a token of this kind."""
    table = tables()
    rows, gotos, rules = table["rows"], table["gotos"], table["rules"]
    stack = list(states)
    while True:
        action = rows[stack[-1]].get(kind)
        if action is None:
            return False
        if action >= 0:
            return True
        origin, _, length, _ = rules[~action]
        del stack[-length:]
        stack.append(gotos[stack[-1]][origin])
