"""Thousands of random and mutated texts: diagnostics, and nothing else. `bench/fuzz_policy.py` tries a million."""

import re
import time
from itertools import islice

from bench.fuzz_policy import Mutants, judge, seeds
from gpud.policies.codes import CODES
from gpud.policies.format import format_text
from gpud.policies.parse import parse
from gpud.policies.source import Source

MACHINERY = re.compile(r"\b[A-Z]{4,}\b|\$|[Tt]oken|lark|\bNone\b|__|Error\b|object at")


def test_no_text_makes_the_parser_raise_or_dawdle_or_speak_of_itself() -> None:
    broken = 0
    for text in islice(Mutants(seeds(), seed=1), 3_000):
        begin = time.process_time()
        file, found = parse(Source("t.gpol", text))
        assert time.process_time() - begin < 20, text
        broken += bool(found)
        for diagnostic in found:
            assert diagnostic.code in CODES
            for label in (diagnostic.primary, *diagnostic.labels):
                assert 0 <= label.span.start <= label.span.end <= len(label.source.text), text
            said = " ".join((diagnostic.message, diagnostic.primary.text, *diagnostic.helps))
            plain = re.sub(r"`[^`]*`+", "", said).replace("UUID", "")
            assert not MACHINERY.search(plain), (said, text)
            assert len(said) < 500
            said.encode()
        assert file is not None or found
    assert 1_000 < broken < 2_500, "both kinds of text are tried"


def test_what_parses_survives_the_formatter() -> None:
    formatted = 0
    for text in islice(Mutants(seeds(), seed=2), 800):
        file, found = parse(Source("t.gpol", text))
        if found:
            continue
        once = format_text(Source("t.gpol", text))
        assert parse(Source("t.gpol", once)) == (file, []), text
        assert format_text(Source("t.gpol", once)) == once, text
        formatted += 1
    assert formatted > 150


def test_no_text_makes_the_checks_raise_or_dawdle() -> None:
    judged = judge(iter(Mutants(seeds(), seed=3)), 2_000)
    assert judged.raised == []
    assert judged.slowest_ms < 20_000, judged.slowest
    assert 100 < judged.clean < 1_000, "both kinds of text are tried"
