"""What is found while a text is resolved, in the order of discovery."""

from collections.abc import Iterable, Sequence

from attrs import define, field

from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.resolve.nearest import did_you_mean
from gpud.policies.source import Source, Span

_MOST_GUESSES = 50
"""Guesses cost time, and nobody reads a thousand."""
_MOST_NAMED = 12


@define
class Findings:
    """Diagnostics of one source. `also`: spans of the other parties, with a word about each."""

    source: Source
    found: list[Diagnostic] = field(factory=list)
    origins: dict[Span, Label] = field(factory=dict)
    """Where the value of a param comes from that is read at a span: findings about the span say so."""
    _guesses: int = 0

    def add(
        self,
        code: str,
        span: Span,
        message: str,
        label: str = "",
        *,
        also: Sequence[tuple[Span, str] | Label] = (),
        helps: Sequence[str] = (),
    ) -> None:
        labels = tuple(other if isinstance(other, Label) else Label(self.source, other[0], other[1]) for other in also)
        if span in self.origins:
            labels += (self.origins[span],)
        helps = tuple(text for text in helps if text)
        self.found.append(Diagnostic(code, message, Label(self.source, span, label), labels, helps))

    def did_you_mean(self, word: str, names: Iterable[str]) -> tuple[str, ...]:
        """As a help; none if nothing is similar."""
        self._guesses += 1
        return did_you_mean(word, names) if self._guesses <= _MOST_GUESSES else ()

    def one_of(self, word: str, names: Iterable[str]) -> tuple[str, ...]:
        """The same, or else all there are, if they are few."""
        known = list(names)
        few = 0 < len(known) <= _MOST_NAMED
        return self.did_you_mean(word, known) or ((f"there is {alternatives(known, 'and')}",) if few else ())


def alternatives(words: Iterable[str], last: str = "or") -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}" if quoted else "nothing"
