"""Policies resolved from text, for tests of what resolving makes of them and what it says."""

from collections.abc import Mapping

from gpud.policies import ast
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.ir import IrExpr, IrPolicy
from gpud.policies.parse import parse
from gpud.policies.plugins.declare import Plugin
from gpud.policies.render import human
from gpud.policies.resolve import resolve_policy
from gpud.policies.source import Source

CLASSES = 'class high { match label("tier") == "online" } class low { match any }'
PREEMPT = "arbitrate preempt { order = [high, low]  resume_after = 3ms }"


def resolve_text(
    text: str, plugins: Mapping[str, Plugin] | None = None, args: str = ""
) -> tuple[IrPolicy, list[Diagnostic]]:
    """The first policy of a file, and what is found in it; the file must be readable. `args` as in `apply`."""
    file, found = parse(Source("t.gpol", text))
    assert file is not None
    assert not found, human(found)
    given: tuple[ast.Arg, ...] = ()
    source = Source("site.gpol", f'gpol 1 apply "p"({args}) to gpu *')
    if args:
        site, found = parse(source)
        assert site is not None
        assert not found, human(found)
        given = site.applies[0].policies[0].args
    ir, found = resolve_policy(file.policies[0], file, given, plugins or {}, argument_source=source)
    assert ir is not None
    return ir, found


def policy(body: str, *, mode: str = "open {}", classes: str = CLASSES, head: str = "") -> str:
    """A file with one policy; `mode` "": it only tightens."""
    arbiter = f"arbitrate {mode}" if mode else ""
    return f'gpol 1\n{head}\npolicy "p" {{\n{classes}\n{arbiter}\n{body}\n}}\n'


def resolved(body: str, *, mode: str = "open {}", classes: str = CLASSES, args: str = "") -> IrPolicy:
    """A policy that must be right."""
    ir, found = resolve_text(policy(body, mode=mode, classes=classes), args=args)
    assert not found, human(found)
    return ir


def said(body: str, *, mode: str = "open {}", classes: str = CLASSES, args: str = "") -> list[str]:
    """What is found, each as `GP201 'marked text' message = help; help`."""
    return [one_line(diagnostic) for diagnostic in found_in(body, mode=mode, classes=classes, args=args)]


def found_in(body: str, *, mode: str = "open {}", classes: str = CLASSES, args: str = "") -> list[Diagnostic]:
    return resolve_text(policy(body, mode=mode, classes=classes), args=args)[1]


def one_line(diagnostic: Diagnostic) -> str:
    helps = f" = {'; '.join(diagnostic.helps)}" if diagnostic.helps else ""
    return f"{diagnostic.code} '{marked(diagnostic)}' {diagnostic.message}{helps}"


def marked(diagnostic: Diagnostic) -> str:
    label = diagnostic.primary
    return label.source.text[label.span.start : label.span.end]


def let_value(text: str, body: str = "") -> IrExpr:
    """What an expression becomes."""
    return resolved(f"{body} let x = {text}").lets[-1].value
