"""What names of a policy mean: classes, params, lets, hours, aliases of `each`. One name, one meaning at a place."""

from collections.abc import Iterator
from typing import NamedTuple

from attrs import define, field

from gpud.policies import ast
from gpud.policies.diagnostics import Label
from gpud.policies.ir import Const, HoursRead, LetRead
from gpud.policies.quantities import UNITS
from gpud.policies.resolve.findings import Findings
from gpud.policies.schema import (
    CONSTRUCTORS,
    LABEL_FUNCTIONS,
    NOT_NAMES,
    OPERATORS,
    PURE_FUNCTIONS,
    RESERVED,
    TENANT_FIELDS,
)
from gpud.policies.source import Span


class Entry(NamedTuple):
    """One defined name."""

    kind: str
    """`class`, `param`, `let`, `hours`, `alias`."""
    name: str
    span: Span
    """Of the name where it is defined."""
    value: Const | LetRead | HoursRead | None = None
    """What reading it gives (without a span); None of a class, an alias, and of what could not be resolved."""
    job_class: str = ""
    """Of a class or an alias; "" if an alias's class is unknown."""
    origin: Label | None = None
    """Of a param: the argument that gives its value."""


@define
class Names:
    """All names that can be seen, and those that will be defined further below."""

    _entries: dict[str, Entry] = field(factory=dict)
    _inner: list[str] = field(factory=list)
    """Those of blocks that are open, to be forgotten at their ends."""
    later: dict[str, Span] = field(factory=dict)
    closed: dict[str, Entry] = field(factory=dict)
    """Those of blocks that have ended."""
    used: dict[str, None] = field(factory=dict)
    refused: dict[str, None] = field(factory=dict)
    """Names that cannot be used, which is reported where they are defined: nothing is said about who reads them."""

    def get(self, name: str) -> Entry | None:
        return self._entries.get(name)

    def use(self, name: str) -> Entry | None:
        """As `get`, and remembers that something reads it."""
        entry = self._entries.get(name)
        if entry is not None:
            self.used.setdefault(name)
            if entry.kind == "alias":
                self.used.setdefault(entry.job_class)
        return entry

    def visible(self, *kinds: str) -> Iterator[str]:
        """Names of these kinds; of all kinds if none is given."""
        for name, entry in self._entries.items():
            if not kinds or entry.kind in kinds:
                yield name

    def define(self, entry: Entry) -> None:
        self._entries[entry.name] = entry
        self._inner.append(entry.name)
        self.later.pop(entry.name, None)

    def enter(self) -> int:
        """A block begins; give what is returned to `leave`."""
        return len(self._inner)

    def leave(self, mark: int) -> None:
        while len(self._inner) > mark:
            name = self._inner.pop()
            self.closed[name] = self._entries.pop(name)


def may_be_called(name: ast.Name, kind: str, names: Names, plugins: tuple[str, ...], findings: Findings) -> bool:
    """Is the name free? Reports it otherwise."""
    taken = _taken(name.text, plugins)
    if taken:
        findings.add(
            "GP104", name.span, f"`{name.text}` is {taken}; {_A[kind]} cannot be called that",
            helps=("choose another name",),
        )  # fmt: skip
        names.refused.setdefault(name.text)
        return False
    first = names.get(name.text)
    if first is not None:
        findings.add(
            "GP205", name.span, f"`{name.text}` is defined twice", "defined again",
            also=((first.span, "first defined here"),), helps=(_another(first, kind),),
        )  # fmt: skip
        return False
    return True


_A = {"class": "a class", "param": "a param", "let": "a let", "hours": "hours", "alias": "a tenant"}


def _another(first: Entry, kind: str) -> str:
    if first.kind == kind == "let":
        return "a let is assigned once: give the second another name"
    return "choose another name for one of them"


def _taken(name: str, plugins: tuple[str, ...]) -> str:
    """What a name means already, everywhere; "" if nothing."""
    if name in RESERVED:
        return "a reserved word"
    if name in PURE_FUNCTIONS or name in OPERATORS or name in LABEL_FUNCTIONS or name in CONSTRUCTORS:
        return "the name of a function"
    if name in TENANT_FIELDS:
        return "a fact of a tenant"
    if name in UNITS:
        return "a unit"
    if name in plugins:
        return "a plugin that this file uses"
    return "a word of the language" if name in NOT_NAMES else ""
