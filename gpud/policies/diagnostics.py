"""What is wrong with a policy, where, and what to write instead. `render.py` turns these into text, JSON, SARIF.

Wording: lowercase, no full stop, the user's words in backticks, no Python or lark names; the primary label on the
cause; a help is an instruction that works if followed.
"""

from attrs import frozen

from gpud.policies.source import Source, Span

MOST = 20
"""Errors shown of one run; more are counted."""


@frozen
class Label:
    """A span with a word about it. A label may lie in another file than the primary one."""

    source: Source
    span: Span
    text: str = ""


@frozen
class Diagnostic:
    """One finding."""

    code: str
    """`GP103`; codes.py has the table."""
    message: str
    primary: Label
    labels: tuple[Label, ...] = ()
    """The other parties."""
    helps: tuple[str, ...] = ()

    @property
    def is_warning(self) -> bool:
        """Lints, and notices such as an absent device; `--strict` makes them errors."""
        from gpud.policies.codes import CODES

        return CODES[self.code].warning

    @property
    def place(self) -> tuple[str, int, str]:
        """What findings are sorted by."""
        return self.primary.source.name, self.primary.span.start, self.code


def has_errors(found: "list[Diagnostic] | tuple[Diagnostic, ...]") -> bool:
    """Is any of them more than a warning?"""
    return any(not diagnostic.is_warning for diagnostic in found)
