"""What one kind of watcher may see of the node: others' jobs are not there, and nothing that is there names them."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from attrs import evolve

from gpud.control.sight import Sight
from gpud.engine.decisions import Made
from gpud.engine.journal import Numbered, may_read
from gpud.engine.live import Rows
from gpud.model.live_views import Decision, DeviceRow, JobRow

_Key = TypeVar("_Key", int, str)
_Row = TypeVar("_Row", JobRow, DeviceRow)


class View:
    """`uid`: whose jobs it shows; None: all. `sight`: what that user may see now. Remembers what it has made: what has
    not changed is the same object."""

    def __init__(self, uid: int | None, sight: Callable[[], Sight]) -> None:
        self._uid = uid
        self._sight = sight
        self._jobs: dict[int, tuple[JobRow, JobRow]] = {}
        self._devices: dict[str, tuple[DeviceRow, DeviceRow]] = {}

    @property
    def whole(self) -> bool:
        """It hides nothing."""
        return self._uid is None

    def of(self, rows: Rows) -> Rows:
        if self.whole:
            return rows
        shown = {job: row for job, row in rows.jobs.items() if row.uid == self._uid}
        sight = self._sight_of(shown)
        self._jobs = _made(shown, self._jobs, sight)
        self._devices = _made(rows.devices, self._devices, sight)
        return evolve(
            rows,
            jobs={job: made for job, (_, made) in self._jobs.items()},
            devices={uuid: made for uuid, (_, made) in self._devices.items()},
        )

    def may_read(self, made: Made) -> bool:
        return self._uid is None or may_read(made, self._uid)

    def told(self, found: Iterable[Numbered], offset: int) -> tuple[Decision, ...]:
        """Those of these that it shows."""
        shown = [one for one in found if self.may_read(one.made)]
        decisions = (one.told(offset) for one in shown)
        if self.whole:
            return tuple(decisions)
        sight = self._sight_of(one.made.job for one in shown if one.made.job is not None)
        return tuple(evolve(one, text=sight.text(one.text)) for one in decisions)

    def _sight_of(self, jobs: Iterable[int]) -> Sight:
        """Also of those that have ended."""
        sight = self._sight()
        sight.own |= frozenset(jobs)
        return sight


def _made(
    rows: Mapping[_Key, _Row], before: Mapping[_Key, tuple[_Row, _Row]], sight: Sight
) -> dict[_Key, tuple[_Row, _Row]]:
    """Row → as it is shown. Made of the same row as before: the same object."""
    found: dict[_Key, tuple[_Row, _Row]] = {}
    for key, row in rows.items():
        known = before.get(key)
        found[key] = known if known is not None and known[0] is row else (row, sight.seen(row))
    return found
