"""In which order jobs stand."""

from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen

from gpud.model.live_views import JobRow
from gpud.tui.columns import BY_KEY, Column
from gpud.tui.model import NodeModel


@frozen
class Sort:
    """By one column; jobs that are alike there stand by their number."""

    key: str = "id"
    down: bool = False
    """The largest first."""

    def by(self, key: str) -> "Sort":
        """As after a click on that column: the same one again turns it round."""
        if key == self.key:
            return self.turned()
        return Sort(key, BY_KEY[key].down)

    def turned(self) -> "Sort":
        return evolve(self, down=not self.down)

    def beside(self, shown: list[Column], step: int) -> "Sort":
        """By the column `step` to the right of this one, of those that are shown."""
        keys = [column.key for column in shown]
        at = keys.index(self.key) if self.key in keys else -1 if step > 0 else 0
        key = keys[(at + step) % len(keys)]
        return Sort(key, BY_KEY[key].down)

    def order(self, jobs: Iterable[JobRow], model: NodeModel) -> list[JobRow]:
        """What has no value there comes last, in either direction."""
        of = BY_KEY[self.key].order
        known: list[tuple[Any, JobRow]] = []  # all numbers, or all texts
        unknown: list[JobRow] = []
        for job in sorted(jobs, key=lambda job: job.id):
            value = of(job, model)
            if value is None:
                unknown.append(job)
            else:
                known.append((value, job))
        known.sort(key=lambda pair: pair[0], reverse=self.down)
        return [*(job for _, job in known), *unknown]
