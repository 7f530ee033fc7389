"""Reads what a step left: the end of its log, a bench's last line, pytest's XML."""

import contextlib
import json
import re
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

TAIL_CHARACTERS = 3000
MESSAGE_CHARACTERS = 600


def tail_of(log: Path, characters: int = TAIL_CHARACTERS) -> str:
    """The last characters of a log, without terminal codes, from the start of a line where one is near."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - 8 * characters, 0))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text).rstrip()
    if len(text) <= characters:
        return text
    text = text[-characters:]
    start = text.find("\n") + 1
    return "…\n" + (text[start:] if start < characters // 2 else text)


def bench_of(log: Path) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The device and the rows of the last line that is an object of JSON: what a bench prints when it is done. What it
    says on standard error may come after it. Raises ValueError with a sentence when that is not what it is."""
    result: Any = None
    for line in reversed(tail_of(log, 200_000).splitlines()):
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                result = json.loads(line)
                break
    if result is None:
        raise ValueError("it printed no line of JSON")
    rows = result.get("rows")
    if not isinstance(rows, list) or not rows:
        raise ValueError("its line of JSON has no rows")
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise ValueError("a row has no name")
        if not isinstance(row.get("value"), int | float):
            raise ValueError(f"the value of {row['name']} is no number")
    return str(result.get("device", "")), tuple(rows)


def tests_of(path: Path) -> dict[str, Any]:
    """pytest's counts: {"passed": n, "failed": {name: message}, "skipped": {name: reason}}. Raises ValueError."""
    try:
        root = xml.parse(path).getroot()
    except (OSError, xml.ParseError):
        raise ValueError("pytest wrote no report") from None
    passed = 0
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name', '')}"
        bad = [part for tag in ("failure", "error") for part in case.findall(tag)]
        left_out = case.find("skipped")
        if bad:
            failed[name] = (bad[0].get("message") or bad[0].text or "")[:MESSAGE_CHARACTERS]
        elif left_out is not None:
            skipped[name] = (left_out.get("message") or "")[:MESSAGE_CHARACTERS]
        else:
            passed += 1
    return {"passed": passed, "failed": failed, "skipped": skipped}
