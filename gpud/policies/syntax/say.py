"""How a syntax error becomes a diagnostic."""

from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.source import Span
from gpud.policies.syntax.expected import in_words
from gpud.policies.syntax.place import Place

_MOST = 40


def say(
    place: Place,
    *helps: str,
    code: str = "GP101",
    message: str | None = None,
    span: tuple[int, int] | None = None,
    label: str | None = None,
    labels: tuple[Label, ...] = (),
) -> Diagnostic:
    """About the token that cannot stand where it is, unless something else is said."""
    if message is None:
        message = f"unexpected `{shown(place.text() if span is None else place.source.text[slice(*span)])}`"
    if label is None:
        # With a help that says what to write there is nothing to add.
        label = "not expected here" if helps else in_words(place.accepted) or "not expected here"
    where = Label(place.source, place.span() if span is None else Span(*span), label)
    return Diagnostic(code, message, where, labels, helps)


def shown(text: str) -> str:
    """A piece of the user's text as it may stand in a message: one line, not long, printable."""
    text = text.split("\n", 1)[0]
    text = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"
