"""What came of a test, and how that is told."""

from collections.abc import Sequence

from attrs import frozen

from gpud.policies.diagnostics import Diagnostic
from gpud.policies.quantities import show_value
from gpud.policies.source import Source, Span
from gpud.policies.types import Type

PASSED, FAILED, UNFINISHED, INVALID = "passed", "failed", "unfinished", "invalid"
_WORDS = {PASSED: "PASS", FAILED: "FAIL", UNFINISHED: "STOP", INVALID: "FAIL"}


@frozen(kw_only=True)
class TestResult:
    """Of one `test` block."""

    __test__ = False  # no test of pytest's

    name: str
    source: Source
    span: Span
    """Of its name."""
    outcome: str
    """`passed`; `failed`: an expectation is not met; `unfinished`: its budget is used up; `invalid`: cannot be run."""
    checks: int = 0
    """Expectations."""
    passed: int = 0
    """Those that are met."""
    simulated_ns: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    """The expectation that failed, with what was there instead (GP702); why it did not finish (GP703); why it cannot be
    run."""
    ticks: int = 0

    def line(self, seconds: float) -> str:
        """`PASS nobody waiting, nobody hurried  (3 checks, 14s simulated in 0.21s)`"""
        done = f"{self.checks} checks" if self.outcome == PASSED else f"{self.passed} of {self.checks} checks"
        simulated = self.simulated_ns // 1_000_000_000
        if self.outcome == INVALID:
            return f"{_WORDS[self.outcome]} {self.name}  (cannot be run)"
        return f"{_WORDS[self.outcome]} {self.name}  ({done}, {simulated}s simulated in {seconds:.2f}s)"


def summary(results: Sequence[TestResult]) -> str:
    """`13 passed, 0 failed`"""
    counts = {word: sum(result.outcome == word for result in results) for word in _WORDS}
    parts = [f"{counts[PASSED]} passed", f"{counts[FAILED] + counts[INVALID]} failed"]
    if counts[UNFINISHED]:
        parts.append(f"{counts[UNFINISHED]} not finished")
    return ", ".join(parts)


def at_time(t_ns: int) -> str:
    """`at 4s`, `at 2min 500ms`."""
    minutes, rest = divmod(t_ns, 60_000_000_000)
    if not minutes or not rest:
        return f"at {show_value(t_ns, Type.DURATION)}"
    return f"at {show_value(minutes * 60_000_000_000, Type.DURATION)} {show_value(rest, Type.DURATION)}"
