"""pytest runs `test` blocks: each one in a directory `tests` of policies is an item. `-p gpud.testing.gpol_plugin`."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gpud.policies import ast
    from gpud.policies.diagnostics import Diagnostic
    from gpud.policies.library import Library
    from gpud.policies.simulate.resolve_test import Resolved

MOST_CPU_S = 60
"""A test that takes longer has not finished, which is a failure here."""
_LIBRARIES = pytest.StashKey[dict[Path, tuple["Library", "Resolved"]]]()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "PolicyFile | None":
    from gpud.policies.library import TESTS, is_policy_file

    if is_policy_file(file_path.name) and file_path.parent.name == TESTS:
        return PolicyFile.from_parent(parent, path=file_path)
    return None


class Wrong(Exception):
    """What is wrong with a file or a test, in diagnostics."""

    def __init__(self, diagnostics: "list[Diagnostic]") -> None:
        super().__init__(diagnostics)
        self.diagnostics = diagnostics


class PolicyFile(pytest.File):
    """One file of tests; its policies are in the directory above."""

    def collect(self) -> Iterator[pytest.Item]:
        from gpud.policies.diagnostics import has_errors

        library, resolved = self._library()
        own = [found for found in library.diagnostics if Path(found.primary.source.name) == self.path]
        if has_errors(own):
            raise Wrong(own)
        for test, file in library.tests:
            if Path(file.source.name) == self.path:
                yield PolicyTest.from_parent(self, name=test.name.text, run=(test, file, library, resolved))

    def _library(self) -> "tuple[Library, Resolved]":
        from gpud.policies.library import read_directory

        libraries = self.session.stash.setdefault(_LIBRARIES, {})
        top = self.path.parent.parent
        if top not in libraries:
            libraries[top] = (read_directory(top), {})
        return libraries[top]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return _shown(excinfo) or super().repr_failure(excinfo)


class PolicyTest(pytest.Item):
    """One `test` block."""

    def __init__(self, *, run: "tuple[ast.Test, ast.File, Library, Resolved]", **more: Any) -> None:
        super().__init__(**more)
        self.run = run
        self.obj = self.runtest  # other plugins look there whether it is a coroutine

    def runtest(self) -> None:
        from gpud.policies.plugins.installed import InstalledPlugins
        from gpud.policies.simulate.results import PASSED
        from gpud.policies.simulate.runner import run_test

        test, file, library, resolved = self.run
        result = run_test(test, file, library, InstalledPlugins(), resolved=resolved, stop=cpu_budget(MOST_CPU_S))
        if result.outcome != PASSED:
            raise Wrong(list(result.diagnostics))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return _shown(excinfo) or super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        test, file, _, _ = self.run
        return self.path, file.source.position(test.span.start)[0] - 1, self.name


def _shown(excinfo: pytest.ExceptionInfo[BaseException]) -> str | None:
    from gpud.policies.render import human

    return human(excinfo.value.diagnostics) if isinstance(excinfo.value, Wrong) else None


def cpu_budget(seconds: float) -> Callable[[], bool]:
    """Is it used up? The time is this thread's, so that a busy machine fails nobody."""
    end = time.thread_time() + seconds
    return lambda: time.thread_time() > end
