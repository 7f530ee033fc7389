"""The grammar for editors knows the words of the language, all of them and no others."""

import json
import re
from pathlib import Path
from typing import Any

from gpud.policies.quantities import UNITS
from gpud.policies.schema import RESERVED

EDITORS = Path(__file__).parent.parent.parent / "editors" / "vscode"
GRAMMAR: dict[str, Any] = json.loads((EDITORS / "gpol.tmLanguage.json").read_text())
PARTS: dict[str, Any] = GRAMMAR["repository"]


def words(*parts: str) -> list[str]:
    found = []
    for part in parts:
        alternatives = re.fullmatch(r"\\b\((.*)\)\\b", PARTS[part]["match"])
        assert alternatives
        found += alternatives[1].split("|")
    return found


def test_keywords_are_those_of_the_language() -> None:
    assert sorted(words("keyword", "constant", "word")) == sorted(RESERVED)


def test_units_are_those_of_the_language() -> None:
    quantity = re.compile(PARTS["quantity"]["match"])
    for unit in UNITS:
        found = quantity.match(f"1_000.5{unit} ")
        assert found, unit
        assert (found[2] or "") == unit
    for wrong in ("20GB", "3S", "5msec", "1.5.5"):
        assert quantity.match(wrong) is None, "what is no unit stands out"
    assert quantity.match("0..3")


def test_every_part_is_used_and_every_pattern_works() -> None:
    assert [pattern["include"] for pattern in GRAMMAR["patterns"]] == [f"#{name}" for name in PARTS]
    for part in PARTS.values():
        for key in ("match", "begin", "end"):
            if key in part:
                re.compile(part[key])


def test_the_editor_finds_it() -> None:
    contributes = json.loads((EDITORS / "package.json").read_text())["contributes"]
    (grammar,), (language,) = contributes["grammars"], contributes["languages"]
    assert (EDITORS / grammar["path"]).is_file()
    assert grammar["scopeName"] == GRAMMAR["scopeName"]
    assert (EDITORS / language["configuration"]).is_file()
    assert language["extensions"] == [".gpol"]
