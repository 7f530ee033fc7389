"""From a token that cannot stand where it is to a sentence that says what to write."""

from gpud.policies import ast
from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.source import Source, Span
from gpud.policies.syntax.expected import in_words
from gpud.policies.syntax.place import OPENS, STARTERS, Place
from gpud.policies.syntax.say import say, shown
from gpud.policies.syntax.tree import Refused

VERSION = "1"
LARGEST = 128 << 10
"""Characters of a file: about 3000 lines."""
_MOST_MARKED = 60
"""Characters of a span that is only marked where it begins."""
_VERSION_HELP = f"write `gpol {VERSION}` as the first line"


def unreadable(source: Source) -> Diagnostic | None:
    """What makes reading any further useless."""
    text = source.text
    if len(text) > LARGEST:
        label = Label(Source(source.name, ""), Span(0, 0))
        return Diagnostic(
            "GP108",
            f"`{shown(source.name)}` has more than {LARGEST >> 10} KiB",
            label,
            helps=("split it into several files",),
        )
    for at, what in ((text.find("\0"), "a NUL character"), (_surrogate(text), "half a character")):
        if at >= 0:
            # The text shown must be printable whatever it has in it.
            clean = Source(source.name, text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd"))
            return Diagnostic(
                "GP106",
                f"{what} is in the text",
                Label(clean, Span(at, at + 1), "here"),
                helps=("this is no text file, or it was damaged: write it anew",),
            )
    return None


def _surrogate(text: str) -> int:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return error.start
    return -1


def wrong_version(source: Source, version: ast.Quantity) -> Diagnostic:
    return Diagnostic(
        "GP105",
        f"this gpud reads gpol {VERSION}, not gpol {shown(version.number)}",
        Label(source, version.span, "unknown"),
        helps=(_VERSION_HELP,),
    )


def empty(source: Source) -> Diagnostic:
    end = len(source.text.rstrip())
    return Diagnostic(
        "GP101",
        "nothing is in this file",
        Label(source, Span(end, end), "expected `policy`, `apply` or `test`"),
        helps=("write something, or delete the file",),
    )


def refusal(source: Source, refused: Refused) -> Diagnostic:
    start, end = refused.span
    end = min(end, start + _MOST_MARKED)
    return Diagnostic(
        refused.code, refused.message, Label(source, Span(start, end), refused.label), helps=refused.helps
    )


def describe(place: Place, *, cut: bool) -> Diagnostic:
    """`cut`: the token begins another item, so this one is not closed."""
    from gpud.policies.syntax.misspelt import TOKENS, WORDS  # files without mistakes need not pay for them
    from gpud.policies.syntax.mistakes import MISTAKES, no_target

    if place.begin == 0 and place.at < 2:
        return _no_version(place)
    if place.ended or (cut and place.open):
        return no_target(place) or _not_closed(place)
    for recognise in (*TOKENS, *MISTAKES, *WORDS):
        found = recognise(place)
        if found is not None:
            return found
    return say(place, labels=_unclosed_above(place))


def _no_version(place: Place) -> Diagnostic:
    if not place.source.text.strip():
        message = "the file is empty"
    elif place.at == 0:
        message = "the file does not begin with its version"
    else:
        message = "the version is a number"
    span = place.span()
    end = min(span.end, span.start + 40)
    return Diagnostic("GP105", message, Label(place.source, Span(span.start, end)), helps=(_VERSION_HELP,))


def _not_closed(place: Place) -> Diagnostic:
    bracket = _never_closed(place)
    labels: tuple[Label, ...] = ()
    expected = in_words(place.accepted)
    if bracket is not None:
        start, end = place.tokens.starts[bracket], place.tokens.ends[bracket]
        labels = (Label(place.source, Span(start, end), f"this `{place.source.text[start:end]}` is never closed"),)
    if not place.ended:
        word = shown(place.text())
        if _closed_behind(place):
            return say(place, "write it behind the `}` of the block", message=f"`{word}` cannot stand inside a block")
        return say(place, "close the block above it", message=f"`{word}` cannot stand inside a block", labels=labels)
    if bracket is None:
        return say(place, message="the file ends too early", label=expected or "something is missing here")
    if "RBRACE" in place.accepted and place.tokens.kinds[bracket] == "LBRACE":
        expected = "expected `}`"
    return say(
        place,
        code="GP102",
        message="the file ends inside a block",
        label=expected or "something is missing here",
        labels=labels,
    )


def _closed_behind(place: Place) -> bool:
    """What the token begins is really inside the block: a `}` for it comes behind."""
    depth = 0
    for kind in place.tokens.kinds[place.at : place.at + 2000]:
        depth += (kind == "LBRACE") - (kind == "RBRACE")
        if depth < 0:
            return True
    return False


def _never_closed(place: Place) -> int | None:
    """The bracket that was forgotten: as the indentation says, if it says something, else the innermost open one."""
    stack: list[int] = []
    tokens = place.tokens
    for index in range(place.begin, place.at):
        kind = tokens.kinds[index]
        if kind in ("LBRACE", "LPAR", "LSQB"):
            stack.append(index)
        elif kind in ("RBRACE", "RPAR", "RSQB") and stack:
            indent = place.indent(index)
            if kind == "RBRACE" and indent is not None:
                same = [opener for opener in stack if place.line_indent(opener) == indent]
                if same and same[-1] != stack[-1] and place.line_indent(stack[-1]) > indent:
                    return stack[-1]
            stack.pop()
    return stack[-1] if stack else None


def _unclosed_above(place: Place) -> tuple[Label, ...]:
    """The bracket above, if the token can hardly be meant to be inside of it."""
    if not place.open or place.tokens.kinds[place.at] == OPENS[place.tokens.kinds[place.open[-1]]]:
        return ()
    opener = place.open[-1]
    start, end = place.tokens.starts[opener], place.tokens.ends[opener]
    indent = place.indent(place.at)
    if place.tokens.kinds[opener] == "LBRACE":
        if (
            indent is None
            or indent > place.line_indent(opener)
            or "\n" not in place.source.text[start : place.span().start]
        ):
            return ()
    elif place.kind() not in ("LBRACE", "RBRACE", *STARTERS):
        return ()
    return (Label(place.source, Span(start, end), f"is this `{place.source.text[start:end]}` closed?"),)
