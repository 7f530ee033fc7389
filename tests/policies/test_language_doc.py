"""docs/policy-language.md says what is so: its policies have no findings, its tests pass, its list is complete."""

import re
from pathlib import Path

import pytest

from gpud.policies.check.whole import check_library
from gpud.policies.enforce import THIS_VERSION
from gpud.policies.library import from_texts
from gpud.policies.render import human
from gpud.policies.schema import BLOCKS, CLASS_SETTINGS, KNOBS, MODES, SIGNALS, TENANT_FIELDS
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


def test_the_list_of_what_is_not_enforced() -> None:
    part = TEXT[TEXT.index("<!-- not enforced -->") : TEXT.index("<!-- /not enforced -->")]
    named = set(re.findall(r"`([^`]+)`", part))
    arbiters = set(MODES) - THIS_VERSION.arbiters
    settings = {
        (kind, row.name)
        for (kind, mode), rows in BLOCKS.items()
        for row in rows
        if mode not in arbiters and kind != "swap" and row.name not in THIS_VERSION.settings[kind, mode]
    }
    blocks = {kind for kind, _ in BLOCKS} - {kind for kind, _ in THIS_VERSION.settings}
    signals = {name if scope == "class" else f"{scope}.{name}" for scope, name in set(SIGNALS) - THIS_VERSION.signals}
    missing = arbiters | blocks | (set(KNOBS) - THIS_VERSION.knobs) | signals
    missing |= set(TENANT_FIELDS) - THIS_VERSION.tenant_fields
    assert not settings
    ((where, words),) = THIS_VERSION.words.items()
    assert named == missing | {*where, "match", "per"} | {"fail", "wait", "spill"} - words
    assert THIS_VERSION.each
    assert THIS_VERSION.class_settings == {row.name for row in CLASS_SETTINGS}
    of_tenants = {name for (_, name), row in SIGNALS.items() if row.of_tenant}
    assert of_tenants == THIS_VERSION.tenant_signals
