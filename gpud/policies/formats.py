"""Findings for machines: JSON, annotations of GitHub Actions, SARIF 2.1.0. The text for people is in render.py."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from gpud.policies.codes import CODES
from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.render import one_line, severity


def _place(label: Label) -> dict[str, Any]:
    """Lines and columns from 1, columns in characters; the end is exclusive."""
    line, column = label.source.position(label.span.start)
    end_line, end_column = label.source.position(max(label.span.start, min(label.span.end, len(label.source.text))))
    return {
        "file": label.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "text": label.text,
    }


def as_data(diagnostic: Diagnostic, *, strict: bool = False) -> dict[str, Any]:
    """One finding as JSON has it."""
    return {
        "code": diagnostic.code,
        "severity": severity(diagnostic, strict=strict),
        "message": diagnostic.message,
        **_place(diagnostic.primary),
        "labels": [_place(label) for label in diagnostic.labels],
        "helps": list(diagnostic.helps),
    }


def as_json(found: Sequence[Diagnostic], *, strict: bool = False) -> str:
    """`{"errors": 1, "warnings": 0, "findings": [{"code": …, "file": …, "line": …, …}]}`, all of them."""
    findings = [as_data(diagnostic, strict=strict) for diagnostic in found]
    errors = sum(finding["severity"] == "error" for finding in findings)
    document = {"errors": errors, "warnings": len(findings) - errors, "findings": findings}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_github(found: Sequence[Diagnostic], *, strict: bool = False) -> str:
    """A workflow command each: `::error file=a.gpol,line=3,col=5,endColumn=9,title=GP103::unknown unit…`."""
    lines = []
    for diagnostic in found:
        place = _place(diagnostic.primary)
        properties = {
            "file": place["file"],
            "line": place["line"],
            "endLine": place["end_line"],
            "col": place["column"],
        }
        if place["end_line"] == place["line"]:  # the service ignores columns that end on another line
            properties["endColumn"] = max(place["end_column"], place["column"] + 1)
        properties["title"] = diagnostic.code
        written = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items())
        text = "\n".join([one_line(diagnostic.message), *(f"help: {one_line(text)}" for text in diagnostic.helps)])
        lines.append(f"::{severity(diagnostic, strict=strict)} {written}::{_escaped(text)}\n")
    return "".join(lines)


def _escaped(text: str, more: str = "") -> str:
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def as_sarif(found: Sequence[Diagnostic], *, strict: bool = False) -> str:
    """One run of SARIF 2.1.0; its rules are the codes that occur."""
    from gpud import __version__

    codes = sorted({diagnostic.code for diagnostic in found})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].title},
            "defaultConfiguration": {"level": "warning" if CODES[code].warning else "error"},
            "help": {"text": f"gpud policy why {code}"},
        }
        for code in codes
    ]
    results = []
    for diagnostic in found:
        text = "\n".join([diagnostic.message, *(f"help: {text}" for text in diagnostic.helps)])
        result: dict[str, Any] = {
            "ruleId": diagnostic.code,
            "ruleIndex": codes.index(diagnostic.code),
            "level": severity(diagnostic, strict=strict),
            "message": {"text": text},
            "locations": [_location(diagnostic.primary)],
        }
        if diagnostic.labels:
            result["relatedLocations"] = [
                {"id": number, **_location(label), "message": {"text": label.text or "here"}}
                for number, label in enumerate(diagnostic.labels, 1)
            ]
        results.append(result)
    driver = {"name": "gpud policy check", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _location(label: Label) -> dict[str, Any]:
    from urllib.parse import quote

    place = _place(label)
    region = {
        "startLine": place["line"],
        "startColumn": place["column"],
        "endLine": place["end_line"],
        "endColumn": place["end_column"],
    }
    return {"physicalLocation": {"artifactLocation": {"uri": quote(place["file"])}, "region": region}}


FORMATS: dict[str, Callable[..., str]] = {"json": as_json, "github": as_github, "sarif": as_sarif}
"""Name of `--format` → function of (findings, strict=…)."""
