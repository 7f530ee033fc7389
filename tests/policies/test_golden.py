"""Every finding, byte for byte; golden/README.md says how the files are named."""

from pathlib import Path

import pytest

from gpud.policies.codes import CODES
from tests.policies.goldens import CODE, GOLDEN, Golden, goldens, rendered

CASES = goldens()
PAGES = Path(__file__).parent.parent.parent / "docs" / "errors"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_findings_are_worded_as_expected(case: Golden) -> None:
    assert case.expected.exists(), f"write it: python -m tests.policies.goldens {case.name} --write"
    assert rendered(case) == case.expected.read_text()


def test_no_expectation_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.expected")} == {case.name for case in CASES}


def test_every_code_has_a_golden_file() -> None:
    seen = {code for path in GOLDEN.glob("*.expected") for code in CODE.findall(path.read_text())}
    assert seen - set(CODES) == set(), "no such code in codes.py"
    assert set(CODES) - seen == set(), "no golden file shows it"


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {path.stem for path in PAGES.glob("GP*.md")} == set(CODES)
