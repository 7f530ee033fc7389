"""Reading and checking a policy, whatever its text: random and mutated texts, none of which may raise or take long."""

import random
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import define, field

from bench.report import Row, arguments, emit
from gpud.policies import ast
from gpud.policies.check.whole import check_library
from gpud.policies.library import from_texts
from gpud.policies.parse import parse
from gpud.policies.render import human
from gpud.policies.schema import RESERVED
from gpud.policies.source import Source
from gpud.policies.syntax.tokens import scan

ROOT = Path(__file__).parent.parent
ODD = "\0\r\x07\x7f\u00a0\u200b\u2028\ud800\ufeff“”‘’≤≥−–…é٣😀\t\\'`;:!&|^$@%?"
PIECES = (
    *RESERVED,
    *(
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "=",
        ",",
        ".",
        "..",
        "+",
        "-",
        "*",
        "/",
        "==",
        "!=",
        "<",
        ">=",
        "~",
        "#",
        '"',
        '""',
    ),
    *(
        "0",
        "1",
        "99999999999999999999",
        "0.0000000001",
        "1_0",
        "1e5",
        "5ms",
        "0s",
        "20GB",
        "999999TiB",
        "150%",
        "2000/s",
    ),
    *(
        "2GiB/s",
        "08:00",
        "25:61",
        '"x"',
        "gpu",
        "host",
        "any",
        "high",
        "low",
        "min",
        "max",
        "aimd",
        "ewma",
        "peak",
        "level",
        "fixed",
    ),
    *("weight", "burst", "label", "gpu.busy", "high.active", "low.pause", "arbitrate", "limit", "swap", "daily", "mon"),
)


def seeds() -> list[str]:
    """What gpud comes with and what the specification has: each policy, and each test with its policy, as a file."""
    policies: dict[str, str] = {}
    tests: list[tuple[str, str]] = []
    for directory in (ROOT / "tests" / "policies" / "spec", ROOT / "policies", ROOT / "policies" / "tests"):
        for path in sorted(directory.glob("*.gpol")):
            text = path.read_text()
            file, _ = parse(Source(path.name, text))
            assert file is not None, path
            for policy in file.policies:
                policies[policy.name.text] = text[slice(*policy.span)]
            for test in file.tests:
                used = [step.applied.policy.text for step in test.steps if isinstance(step, ast.UsePolicy)]
                tests.append(("".join(used[:1]), text[slice(*test.span)]))
    lines = (
        'apply "preempt-mix"(quiet = 5ms), "quotas" to gpu 0..3\napply "aimd" to gpu "GPU-5f", 4\napply "tgs" to gpu *'
    )
    texts = [
        *policies.values(),
        lines + policies["quotas"],
        *(policies.get(name, "") + "\n" + test for name, test in tests),
    ]
    return [f"gpol 1\n{text}\n" for text in texts]


class Mutants:
    """An endless row of texts, the same for the same seed."""

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        self._texts = texts
        self._tokens: list[list[str]] = []
        self._kinds: list[list[str]] = []
        self._alike: dict[str, list[str]] = {}
        """Kind of token → all that there are, in all texts."""
        self._chance = random.Random(seed)
        for text in texts:
            kinds, starts, ends, _ = scan(text)
            self._kinds.append(kinds[:-1])
            self._tokens.append([text[slice(*at)] for at in zip(starts[:-1], ends[:-1], strict=True)])
            for kind, word in zip(self._kinds[-1], self._tokens[-1], strict=True):
                self._alike.setdefault(kind, []).append(word)
        for piece in PIECES:
            self._alike.setdefault(scan(piece).kinds[0], []).append(piece)

    def __iter__(self) -> Iterator[str]:
        while True:
            yield self._one()

    def _one(self) -> str:
        chance = self._chance
        kind = chance.random()
        if kind < 0.05:
            return "".join(chance.choice(ODD + ' \n{}()="azAZ09#') for _ in range(chance.randrange(60)))
        if kind < 0.15:
            return "gpol 1\n" + " ".join(chance.choice(PIECES) for _ in range(chance.randrange(40)))
        if kind < 0.3:
            return self._characters(chance.choice(self._texts))
        which = chance.randrange(len(self._texts))
        if kind < 0.45:
            return self._changed(list(self._tokens[which]))
        return self._swapped(list(self._tokens[which]), self._kinds[which])

    def _swapped(self, tokens: list[str], kinds: Sequence[str]) -> str:
        """Still a text of the language, mostly; what it says may be nonsense."""
        chance = self._chance
        for _ in range(chance.choice((1, 1, 2, 4, 20))):
            at = chance.randrange(len(tokens))
            tokens[at] = chance.choice(self._alike[kinds[at]])
        return " ".join(tokens)

    def _characters(self, text: str) -> str:
        chance = self._chance
        at = chance.randrange(len(text))
        match chance.randrange(4):
            case 0:
                return text[:at]
            case 1:
                return text[:at] + text[at + chance.randrange(1, 20) :]
            case 2:
                return text[:at] + chance.choice(ODD) * chance.choice((1, 1, 1, 50)) + text[at:]
            case _:
                other = chance.choice(self._texts)
                return text[:at] + other[chance.randrange(len(other)) :]

    def _changed(self, tokens: list[str]) -> str:
        chance = self._chance
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            at = chance.randrange(len(tokens))
            match chance.randrange(6):
                case 0:
                    del tokens[at]
                case 1:
                    tokens[at] = chance.choice(PIECES)
                case 2:
                    tokens.insert(at, chance.choice(PIECES))
                case 3:
                    tokens[at] = chance.choice(tokens)
                case 4:
                    end = min(len(tokens), at + chance.randrange(1, 30))
                    tokens[at:at] = tokens[at:end] * chance.choice((1, 1, 1, 1, 20))
                case _:
                    opened, closed = chance.choice(
                        (("(", ")"), ("[", "]"), ("not", ""), ("when a {", "}"), ("f(", ")"))
                    )
                    depth = chance.choice((1, 2, 100))
                    tokens[at] = f"{(opened + ' ') * depth}{tokens[at]}{(' ' + closed) * depth}"
            if not tokens:
                break
        return " ".join(tokens)


@define
class Judged:
    """What became of many texts."""

    inputs: int = 0
    clean: int = 0
    raised: list[tuple[str, str]] = field(factory=list)
    """(text, exception)"""
    slowest_ms: float = 0
    slowest: str = ""


def judge(texts: Iterator[str], inputs: int) -> Judged:
    """Reads, checks and renders so many texts."""
    judged = Judged()
    for text in texts:
        begin = time.process_time()
        try:
            found = check_library(from_texts({"t.gpol": text}), {})
            human(found).encode()
            judged.clean += not found
        except Exception as error:
            judged.raised.append((text, repr(error)))
        took = (time.process_time() - begin) * 1e3
        if took > judged.slowest_ms:
            judged.slowest_ms, judged.slowest = took, text
        judged.inputs += 1
        if judged.inputs >= inputs:
            break
    return judged


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--inputs", type=int, default=20_000, help="how many texts (a million takes about an hour)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory for the texts that raised, and the slowest")
    options = parser.parse_args()
    judge(iter(Mutants(seeds(), options.seed)), 300)  # what is loaded once is not counted
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    judged = judge(iter(Mutants(seeds(), options.seed)), options.inputs)
    took = time.perf_counter() - begin
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    rows = [
        Row(name="inputs", value=judged.inputs, unit="texts"),
        Row(name="clean", value=judged.clean, unit="texts"),
        Row(name="inputs_per_s", value=judged.inputs / took, unit="1/s", better="higher"),
        Row(name="slowest_ms", value=judged.slowest_ms, unit="ms", target=1000.0),
        Row(name="exceptions", value=len(judged.raised), unit="texts", target=0.0),
        Row(name="memory_grown_mib", value=grown, unit="MiB", target=64.0),
    ]
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / "slowest.gpol").write_text(judged.slowest, encoding="utf-8", errors="surrogatepass")
        for number, (text, error) in enumerate(judged.raised[:100]):
            comment = f"# {error}\n"
            (options.keep / f"{number}.gpol").write_text(comment + text, encoding="utf-8", errors="surrogatepass")
    emit("fuzz_policy", "no device", rows, options.json)


if __name__ == "__main__":
    main()
