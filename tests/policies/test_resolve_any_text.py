"""Whatever can be read can be resolved: findings, never an exception, always the same, and soon."""

import random
import re
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpud.policies import ast
from gpud.policies.codes import CODES
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.ir import IrPolicy
from gpud.policies.parse import parse
from gpud.policies.printer import print_file
from gpud.policies.resolve import resolve_policy
from gpud.policies.source import Source
from tests.policies.goldens import VLLM
from tests.policies.trees import files

SPEC = {path.name: path.read_text() for path in sorted((Path(__file__).parent / "spec").glob("*.gpol"))}
TOKEN = re.compile(r'#[^\n]*|"[^"\n]*"|\d[\w:.%/]*|[a-z_][\w]*|\s+|\.\.|[<>=!]=|.', re.DOTALL)
POOL = [token for text in SPEC.values() for token in TOKEN.findall(text) if not token.isspace() and token[0] != "#"]
ODD = [
    "0",
    "0s",
    "unlimited",
    "20GB",
    "-",
    "missing",
    "x",
    '""',
    "25:00",
    "1e9",
    "999999999999999999999",
    "0.1ns",
    "[]",
]


def resolve_all(text: str) -> list[tuple[IrPolicy | None, list[Diagnostic]]]:
    file, _ = parse(Source("p.gpol", text))
    if file is None:
        return []
    arguments = [arg for apply in file.applies for applied in apply.policies for arg in applied.args]
    return [
        resolve_policy(policy, file, given, {"vllm": VLLM})
        for policy in file.policies
        for given in ((), arguments, arguments[:1])
    ]


def check(text: str) -> None:
    first, second = resolve_all(text), resolve_all(text)
    for (ir, found), (again, found_again) in zip(first, second, strict=True):
        assert [str(diagnostic) for diagnostic in found] == [str(diagnostic) for diagnostic in found_again]
        assert (ir is None) == (again is None)
        for diagnostic in found:
            assert diagnostic.code in CODES
            assert diagnostic.message
            assert not diagnostic.message.endswith(".")
            for label in (diagnostic.primary, *diagnostic.labels):
                assert 0 <= label.span.start <= label.span.end <= len(label.source.text)


def test_the_specification_resolves_without_a_finding() -> None:
    found = [pair for text in SPEC.values() for pair in resolve_all(text)]
    assert sum(not problems for _, problems in found[::3]) == len(found[::3]) >= 8


@given(st.sampled_from(sorted(SPEC)), st.integers(0, 2**32), st.integers(1, 6))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_mutations_of_the_specification(name: str, seed: int, mutations: int) -> None:
    chance = random.Random(seed)
    tokens = TOKEN.findall(SPEC[name])
    for _ in range(mutations):
        at = chance.randrange(len(tokens))
        match chance.randrange(5):
            case 0:
                tokens[at] = chance.choice(POOL)
            case 1:
                tokens[at] = chance.choice(ODD)
            case 2:
                del tokens[at]
            case 3:
                tokens.insert(at, f" {chance.choice(POOL)} ")
            case 4:
                other = chance.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
    check("".join(tokens))


@given(st.sampled_from(sorted(SPEC)), st.integers(0, 2**32), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_words_and_values_in_the_place_of_others(name: str, seed: int, mutations: int) -> None:
    """As above, but what can be read stays readable: each value by one of its kind."""
    chance = random.Random(seed)
    tokens = TOKEN.findall(SPEC[name])
    kinds = [re.compile(r"[a-z_]\w*\Z"), re.compile(r"\d"), re.compile('"')]
    for _ in range(mutations):
        kind = chance.choice(kinds)
        places = [at for at, token in enumerate(tokens) if kind.match(token)]
        if places:
            tokens[chance.choice(places)] = chance.choice([token for token in POOL if kind.match(token)])
    check("".join(tokens))


@given(files)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_tree(file: ast.File) -> None:
    check(print_file(file))
