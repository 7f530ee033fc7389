"""docs/policy-language.md says what is so: its policies have no findings, its tests pass, its list is complete."""

import re
from pathlib import Path

import pytest

from gpud.policies.check.whole import check_library
from gpud.policies.enforce import THIS_VERSION
from gpud.policies.library import from_texts
from gpud.policies.render import human
from gpud.policies.schema import BLOCKS, KNOBS, MODES, SIGNALS, TENANT_FIELDS
from gpud.policies.simulate.results import PASSED
from gpud.policies.simulate.runner import run_test
from gpud.policies.simulate.trace import read_trace

TEXT = (Path(__file__).parent.parent.parent / "docs" / "policy-language.md").read_text()
FENCES = re.findall(r"^```gpol\n((?:.*\n)*?)```$", TEXT, re.MULTILINE)
RECORDINGS = re.findall(r"^```\n(\{(?:.*\n)*?)```$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("number", range(len(FENCES)))
def test_every_policy_is_right(number: int) -> None:
    library = from_texts({"policy-language.md": FENCES[number]})
    found = check_library(library, {})
    assert not found, human(found)
    for test, file in library.tests:
        result = run_test(test, file, library, {})
        assert result.outcome == PASSED, human(result.diagnostics)


def test_the_recording_is_one() -> None:
    (recording,) = RECORDINGS
    header, records = read_trace(recording.splitlines(), "policy-language.md")
    assert header.start_ns == 1_772_408_400 * 10**9, "23:40 on the day before, in UTC"
    assert [(record.t_ns, len(record.values)) for record in records] == [(0, 3), (10**8, 2), (2 * 10**8, 1)]


def test_there_are_examples_of_everything() -> None:
    assert len(FENCES) >= 4
    for word in ("apply", "test", "param", "guard", "during", "each", "limit", *MODES):
        assert re.search(rf"\b{word}\b", TEXT), word


def test_the_list_of_what_is_enforced() -> None:
    part = TEXT[TEXT.index("<!-- enforced -->") : TEXT.index("<!-- /enforced -->")]
    named = set(re.findall(r"`([^`]+)`", part))
    settings = {name for names in THIS_VERSION.settings.values() for name in names if name != "daemon_lost"}
    words = {word for words in THIS_VERSION.words.values() for word in words}
    signals = {name if scope == "class" else f"{scope}.{name}" for scope, name in THIS_VERSION.signals}
    kinds = {kind for kind, mode in THIS_VERSION.settings if not mode}
    fields = THIS_VERSION.tenant_fields
    assert named == THIS_VERSION.arbiters | THIS_VERSION.knobs | settings | words | signals | kinds | fields
    known = (
        set(MODES) | set(KNOBS) | {row.name for rows in BLOCKS.values() for row in rows} | {"failsafe", "open", "hold"}
    )
    assert named <= known | set(TENANT_FIELDS) | {
        name if scope == "class" else f"{scope}.{name}" for scope, name in SIGNALS
    }
