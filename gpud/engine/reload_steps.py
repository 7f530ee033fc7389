"""What one reload did, step by step, for whoever shows where its time went."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field, frozen

from gpud.engine.loading import Rejected


@frozen(kw_only=True)
class Step:
    """`parse`, `check`, `plan`, `test` or `apply`. Times are monotonic."""

    name: str
    began_ns: int
    ended_ns: int
    error: str = ""
    """Why the set was rejected here; "": it was not."""


@frozen(kw_only=True)
class Where:
    """Of the first error."""

    code: str
    file: str
    line: int
    column: int


@define(kw_only=True)
class Steps:
    """Of one reload that is under way or over. `how`: `files`, `hangup`, `asked`, `rollback`, `start`."""

    how: str
    now: Callable[[], int]
    digest: str = ""
    """Of the set; "": it could not be read."""
    done: list[Step] = field(factory=list)
    errors: int = 0
    """Findings that are errors."""
    where: Where | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """What is done inside is this step, and fails with Rejected."""
        began, error = self.now(), ""
        try:
            yield
        except Rejected as rejected:
            error = rejected.summary or "rejected"
            self._look(rejected)
            raise
        finally:
            self.done.append(Step(name=name, began_ns=began, ended_ns=self.now(), error=error))

    def took(self, name: str) -> int:
        """Nanoseconds; 0: it was not done."""
        return sum(one.ended_ns - one.began_ns for one in self.done if one.name == name)

    @property
    def rejected(self) -> str:
        """Why; "": it was not."""
        return next((one.error for one in self.done if one.error), "")

    def _look(self, rejected: Rejected) -> None:
        errors = [finding for finding in rejected.findings if not finding.is_warning]
        self.errors = len(errors)
        if errors:
            first = errors[0]
            source = first.primary.source
            line, column = source.position(first.primary.span.start)
            self.where = Where(code=first.code, file=source.name, line=line, column=column)
