"""What the code can say to those who look from outside: names of spans, attributes, links, reasons and decisions, read
out of its sources, so that none can be left out of docs/observability.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpud.engine import publish

ROOT = Path(__file__).parents[2]
TELEMETRY = ROOT / "gpud" / "telemetry"
ENGINE = ROOT / "gpud" / "engine"
_ATTRIBUTE = re.compile(r"(gpud|hw|process|code|host|service)(\.[a-z_]+)+|gpud\.[a-z.]*\*[a-z_]*")
_VARIABLE_NAMES = {"name", "phase.name", "step.name", "kind", "code", "self.kind", "effect.kind"}
"""What names, codes and kinds may be besides words: what these are is looked up where it is said."""


def _calls(directory: Path) -> Iterator[tuple[str, ast.Call]]:
    """(called, call)."""
    for path in sorted(directory.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func).rpartition(".")[2], node


def _words(node: ast.expr) -> set[str]:
    """All that an expression may be. Raises AssertionError where that is not known."""
    if isinstance(node, ast.IfExp):
        return _words(node.body) | _words(node.orelse)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    assert ast.unparse(node) in _VARIABLE_NAMES, f"{ast.unparse(node)} can be anything"
    return set()


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def span_names() -> set[str]:
    found: set[str] = set()
    for called, call in _calls(TELEMETRY):
        name = _keyword(call, "name")
        if called == "SpanRecord" and name is not None:
            found |= _words(name)
        elif called == "_event":
            found |= _words(call.args[0])
    steps = re.findall(r'steps\.step\("(\w+)"\)', (ENGINE / "reload.py").read_text())
    assert len(steps) >= 4
    marks = re.findall(r'\("(\w+)", [\w.]+', (TELEMETRY / "turns.py").read_text())
    assert len(marks) >= 4
    return found | set(steps) | set(marks)


def link_kinds() -> set[str]:
    found: set[str] = set()
    for called, call in _calls(TELEMETRY):
        kind = _keyword(call, "kind")
        if called in ("Link", "evolve") and kind is not None:
            found |= _words(kind)
        elif called == "_of_segment":
            found |= _words(call.args[1])
    return found


def attributes() -> set[str]:
    """`*` stands for what is put in."""
    found: set[str] = set()
    loggers: set[str] = set()
    for path in TELEMETRY.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            text = ""
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger":
                loggers |= _words(node.args[0])
            if isinstance(node, ast.JoinedStr):
                text = "".join(one.value if isinstance(one, ast.Constant) else "*" for one in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            if _ATTRIBUTE.fullmatch(text):
                found.add(text)
    return found - loggers


def decision_kinds() -> set[str]:
    found: set[str] = set()
    for directory in (ENGINE, ROOT / "gpud" / "control"):
        for called, call in _calls(directory):
            kind = _keyword(call, "kind")
            if called in ("Made", "Record", "Decision") and kind is not None:
                found |= _words(kind)
    return (found | {"note"}) - {""}  # what a Record is that says nothing else


def reason_codes() -> set[str]:
    """Of WhyRow and HoldView."""
    found = set(publish.REASONS.values())
    for called, call in _calls(ENGINE):
        code = _keyword(call, "code")
        if (
            called in ("WhyRow", "HoldView")
            and code is not None
            and not ast.unparse(code).startswith("publish.REASONS")
        ):
            found |= _words(code)
    return found
