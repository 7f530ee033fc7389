"""`gpud policy fmt`: one style for all files. Comments stay, and so does every choice of line that a reader made.

What is aligned: `=`, braces, comments (syntax/align.py); where lines break: syntax/layout.py.
"""

from gpud.policies.parse import parse
from gpud.policies.source import Source
from gpud.policies.syntax.align import aligned
from gpud.policies.syntax.layout import lines_of


def format_text(source: Source) -> str:
    """The text in the one style; as it is where it does not parse."""
    file, found = parse(source)
    if file is None or found:
        return source.text
    return aligned(lines_of(source.text, file))
