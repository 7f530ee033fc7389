"""Parts of a policy as screens quote them: as the operator wrote them, on one line."""

import re

from gpud.policies.ir import IrPolicy
from gpud.policies.source import Span

_PIECE = re.compile(r'("[^"\n]*")|(?:#[^\n]*|\s+)+')


def quoted(ir: IrPolicy, span: Span) -> str:
    """The text of a span without comments, newlines and runs of spaces."""
    text = ir.source.text[span.start : span.end]
    return _PIECE.sub(lambda piece: piece[1] or " ", text).strip()


def line_of(ir: IrPolicy, span: Span) -> int:
    """From 1."""
    return ir.source.position(span.start)[0]
