"""A watcher as tests have it: applies steps to what it knows."""

from gpud.engine.live import Rows
from gpud.model.live_views import ClassRow, Decision, DeviceRow, Feed, JobRow, NodeRow


class Model:
    """What a screen knows after the steps so far."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.fulls = 0
        self.gaps = 0
        self.node: NodeRow | None = None
        self.devices: dict[str, DeviceRow] = {}
        self.jobs: dict[int, JobRow] = {}
        self.classes: tuple[ClassRow, ...] = ()
        self.decisions: dict[int, Decision] = {}

    def apply(self, feed: Feed) -> None:
        """Raises AssertionError for a step that does not follow on the one before."""
        follows = self.number is not None and feed.number == self.number + 1
        assert follows or feed.full
        self.gaps += self.number is not None and not follows
        self.number = feed.number
        if feed.full:
            self.fulls += 1
            self.devices, self.jobs, self.classes = {}, {}, ()
        self.node = feed.node or self.node
        self.devices |= {row.uuid: row for row in feed.devices}
        self.jobs |= {row.id: row for row in feed.jobs}
        for job in feed.gone:
            del self.jobs[job]
        self.classes = self.classes if feed.classes is None else feed.classes
        self.decisions |= {one.number: one for one in feed.decisions}

    def shows(self, rows: Rows) -> bool:
        """All of them, and nothing else."""
        return (self.node, self.devices, self.jobs, self.classes) == (
            rows.node,
            dict(rows.devices),
            dict(rows.jobs),
            rows.classes,
        )
