"""The pages about findings: each example gives its finding, and put right gives none."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from gpud.policies.codes import CODES
from gpud.policies.render import human
from tests.policies.goldens import found_in

PAGES = Path(__file__).parent.parent.parent / "docs" / "errors"
FENCE = re.compile(r"^```gpol (wrong|right)(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
NEXT_FILE = re.compile(r"^# ---- (\S+)\n", re.MULTILINE)
NO_EXAMPLE = {
    "GP106": "what is no text cannot be shown in one",
    "GP602": "it takes a broken plugin; the golden file has one",
}


class Example(NamedTuple):
    """One fence."""

    kind: str
    options: dict[str, str]
    files: dict[str, str | bytes]


def examples(code: str) -> list[Example]:
    text = (PAGES / f"{code}.md").read_text()
    found = []
    for kind, words, body in FENCE.findall(text):
        options = {word.partition("=")[0]: word.partition("=")[2] for word in words.split()}
        first, *rest = NEXT_FILE.split(body)
        names = iter(rest)
        files: dict[str, str | bytes] = {"policies.gpol": first} | dict(zip(names, names, strict=True))
        found.append(Example(kind, options, files))
    return found


@pytest.mark.parametrize("code", CODES)
def test_page(code: str) -> None:
    text = (PAGES / f"{code}.md").read_text()
    assert text.startswith(f"# {code}: {CODES[code].title}\n\n")
    assert "\nWhy: " in text
    assert "\nRight" in text
    assert len(text.splitlines()) <= 60
    if code not in NO_EXAMPLE:
        assert [example.kind for example in examples(code)] == ["wrong", "right"]


@pytest.mark.parametrize(("code", "kind"), [(code, kind) for code in CODES for kind in ("wrong", "right")])
def test_examples(code: str, kind: str) -> None:
    for example in examples(code):
        if example.kind != kind:
            continue
        found = found_in(
            example.files,
            devices=example.options["devices"].split(",") if "devices" in example.options else None,
            enforced="enforced" in example.options,
            tests="test" in example.options,
            whole="whole" in example.options,
            mps="mps" in example.options,
            claims=example.options["claims"].split(",") if "claims" in example.options else None,
        )
        expected = {code} if kind == "wrong" else set()
        assert {diagnostic.code for diagnostic in found} == expected, human(found)
