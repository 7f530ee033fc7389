"""Policies from text, for tests of what is found in them."""

from gpud.policies.check.whole import check_library
from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.ir import IrPolicy
from gpud.policies.library import from_texts
from gpud.policies.render import human
from gpud.policies.resolve import resolve_policy

CLASSES = """
  class high { match label("tier") == "online" }
  class mid  { match label("tier") == "batch" }
  class low  { match any }
"""


def policy_text(body: str, *, mode: str = "share { period = 20ms }", classes: str = CLASSES) -> str:
    """A whole file; `mode` "": a policy that only tightens."""
    return f'gpol 1\npolicy "p" {{\n{classes}  {f"arbitrate {mode}" if mode else ""}\n{body}\n}}\n'


def ir_of(text: str) -> IrPolicy:
    """The first policy of a file that must be right so far."""
    library = from_texts({"p.gpol": text})
    assert not library.diagnostics, human(list(library.diagnostics))
    policy, file = next(iter(library.policies.values()))
    resolved, problems = resolve_policy(policy, file, (), {})
    assert not problems, human(problems)
    assert resolved is not None
    return resolved


def found_in(text: str, **options: object) -> list[Diagnostic]:
    """All that is found in a file."""
    return check_library(from_texts({"p.gpol": text}), {}, **options)


def codes(text: str, **options: object) -> list[str]:
    return [one.code for one in found_in(text, **options)]


def quoted(label: Label) -> str:
    """The text that a label marks."""
    return label.source.text[label.span.start : label.span.end]
