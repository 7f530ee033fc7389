"""What is shown of the model: filter, sort, focus. One for all screens."""

from attrs import define, field

from gpud.model.live_views import ClassRow, DeviceRow, JobRow
from gpud.tui.filter import Filter
from gpud.tui.model import NodeModel
from gpud.tui.sort import Sort


@define
class View:
    """State of the screen that is not the node's."""

    model: NodeModel
    filter: Filter = field(factory=Filter)
    sort: Sort = field(factory=Sort)
    user: str | None = None
    """From the command line, likewise the next two: they hold beside the filter."""
    job_class: str | None = None
    gpu: str | None = None
    focus: int | None = None
    """The slot of the one device that is looked at; None: all."""
    tags: set[int] = field(factory=set)
    tree: bool = False
    """Processes stand below their jobs."""
    classed: bool | None = None
    """Classes are shown; None: where there is room."""
    cursor: int | None = None
    """The job that a key acts on."""
    readonly: str = ""
    """Why nothing may be changed; "": it may."""
    frozen: bool = False
    """The screen stands still; what comes is kept for later."""
    replay: str = ""
    """The file that is played; "": none."""
    recording: str = ""
    """The file that is written; "": none."""

    def jobs(self) -> list[JobRow]:
        """Those that are shown, in their order; jobs that ended lately among them. The one under the cursor stays,
        whatever becomes of it, so that no key meets another one in its place."""
        model = self.model
        known = [*model.jobs.values(), *(ended.row for ended in model.ended.values())]
        return self.sort.order((job for job in known if job.id == self.cursor or self._takes(job)), model)

    def filter_by(self, wanted: Filter) -> None:
        self.filter = wanted
        self._let_go()

    def _let_go(self) -> None:
        """What is shown has been chosen anew: the cursor stays only on what belongs to it."""
        job = self.model.job(self.cursor) if self.cursor is not None else None
        if job is None or not self._takes(job):
            self.cursor = None

    def devices(self) -> list[DeviceRow]:
        return [row for row in self.model.devices.values() if self._has(row) and self.focus in (None, row.slot)]

    def classes(self) -> list[ClassRow]:
        """By device, then by rank."""
        slots = {row.slot for row in self.devices()}
        rows = (row for row in self.model.classes if row.device in slots)
        return sorted(rows, key=lambda row: (row.device, row.policy, row.rank, row.job_class))

    def next_focus(self) -> None:
        """All devices, then one after the other."""
        slots = [None, *(row.slot for row in self.model.devices.values() if self._has(row) and row.slot is not None)]
        at = slots.index(self.focus) if self.focus in slots else 0
        self.focus = slots[(at + 1) % len(slots)]
        self._let_go()

    def _takes(self, job: JobRow) -> bool:
        if self.user is not None and job.user != self.user:
            return False
        if self.job_class is not None and job.job_class != self.job_class:
            return False
        if self.focus is not None and self.focus not in job.devices:
            return False
        if self.gpu is not None:
            wanted = {row.slot for row in self.model.devices.values() if self._has(row)}
            if not wanted.intersection(job.devices):
                return False
        return self.filter.takes(job, self.model)

    def _has(self, device: DeviceRow) -> bool:
        """Whether `gpu` names it."""
        if self.gpu is None:
            return True
        if self.gpu.isdigit() and len(self.gpu) < 3:
            return device.slot == int(self.gpu)
        return device.uuid.lower().startswith(self.gpu.lower())
