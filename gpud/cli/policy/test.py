"""`gpud policy test`: runs the tests that stand in policies."""

import time
from typing import Any

import click

from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.cli.helped import Verb
from gpud.cli.policy import texts
from gpud.cli.policy.output import colour, write
from gpud.policies.plugins.installed import InstalledPlugins
from gpud.policies.render import counted, human
from gpud.policies.simulate.resolve_test import Resolved
from gpud.policies.simulate.results import PASSED, TestResult, summary
from gpud.policies.simulate.runner import run_test


@click.command(
    "test",
    cls=Verb,
    epilog="Exit codes: 0 all passed, 1 one did not or there was none, 2 wrong usage.",
    examples=[
        ("gpud policy test policies", "all tests"),
        ("gpud policy test -k patience policies", "those about patience"),
    ],
)
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option(
    "-k",
    "words",
    multiple=True,
    metavar="WORD",
    help="Only tests with it in their name or policy's; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def command(paths: tuple[str, ...], words: tuple[str, ...], as_json: bool) -> int:
    """Runs the tests in policies, in simulated time.

    PATHs are files and directories, together one set; without any, the directory that the daemon reads.
    """
    library = texts.read(paths)
    plugins = InstalledPlugins()
    wrong = [diagnostic for diagnostic in library.diagnostics if not diagnostic.is_warning]
    if wrong and not as_json:
        write(f"{human(wrong, colour=colour())}\n")
    chosen = [(test, file) for test, file in library.tests if not words or _is_meant(test, words)]
    if not chosen and words:
        there = f"these files have {counted(len(library.tests), 'test')}"
        raise Failure(f"no test has {' or '.join(map(repr, words))} in its name", there, code=EXIT_USAGE)
    resolved: Resolved = {}
    results: list[tuple[TestResult, float]] = []
    for test, file in chosen:
        begin = time.perf_counter()
        result = run_test(test, file, library, plugins, resolved=resolved)
        results.append((result, time.perf_counter() - begin))
        if not as_json:
            _tell(*results[-1])
    passed = sum(result.outcome == PASSED for result, _ in results)
    if as_json:
        _tell_all(results, wrong)
    else:
        write(f"{summary([result for result, _ in results])}\n" if results else "no tests in these files\n")
    return int(bool(wrong) or not results or passed < len(results))


def _is_meant(test: Any, words: tuple[str, ...]) -> bool:
    from gpud.policies import ast

    policies = [step.applied.policy.text for step in test.steps if isinstance(step, ast.UsePolicy)]
    return any(word.casefold() in " ".join([test.name.text, *policies]).casefold() for word in words)


def _tell(result: TestResult, seconds: float) -> None:
    line = result.line(seconds)
    if colour():
        word, _, rest = line.partition(" ")
        line = f"\x1b[{'32' if result.outcome == PASSED else '1;31'}m{word}\x1b[0m {rest}"
    found = human(result.diagnostics, colour=colour())
    write(f"{line}\n\n{found}\n" if found else f"{line}\n")


def _tell_all(results: list[tuple[TestResult, float]], wrong: list[Any]) -> None:
    import json

    from gpud.policies.formats import as_data

    tests = [
        {
            "name": result.name,
            "file": result.source.name,
            "line": result.source.position(result.span.start)[0],
            "outcome": result.outcome,
            "checks": result.checks,
            "passed": result.passed,
            "simulated_s": result.simulated_ns / 1e9,
            "seconds": round(seconds, 3),
            "findings": [as_data(diagnostic) for diagnostic in result.diagnostics],
        }
        for result, seconds in results
    ]
    outcomes = [result.outcome for result, _ in results]
    document = {
        "passed": outcomes.count(PASSED),
        "failed": len(outcomes) - outcomes.count(PASSED),
        "findings": [as_data(diagnostic) for diagnostic in wrong],
        "tests": tests,
    }
    write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
