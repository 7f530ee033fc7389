"""The node as rows: what a live screen shows, and what the journal keeps. Made at most a few times a second, once for
all who look. Pure.

Times leave here as Unix time by an offset to the monotonic clock that stays the same until somebody sets the clock:
else every row would be another one at every look.
"""

from collections.abc import Callable, Mapping

from attrs import evolve, field, frozen

from gpud.engine import live_devices, report
from gpud.engine.held import Sums
from gpud.engine.in_words import Levels
from gpud.engine.live_classes import ClassRows, Histograms
from gpud.engine.live_jobs import JobRows, Look
from gpud.engine.live_lines import lines
from gpud.engine.live_still import cut
from gpud.engine.state import State
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.live_views import ClassRow, Decision, DeviceRow, Feed, JobRow, NodeRow
from gpud.model.policy_views import SetView
from gpud.model.units import SECOND

SET_NS = SECOND // 2
"""The clock was set when it is further off than this."""
NODE_NS = 2 * SECOND
"""Between two looks at what changes seldom."""
PROBATION_STEP_NS = 10 * SECOND
FINDINGS = 200_000
"""Characters of what is said of a rejected set."""


@frozen(kw_only=True)
class Facts:
    """Of the daemon, as far as its state does not say them."""

    host: str = ""
    version: str = ""
    pid: int = 0
    simulated: str | None = None


@frozen(kw_only=True, eq=False)
class Rows:
    """All of the node at one moment."""

    mono_ns: int
    offset: int
    node: NodeRow
    devices: Mapping[str, DeviceRow] = field(factory=dict)
    jobs: Mapping[int, JobRow] = field(factory=dict)
    classes: tuple[ClassRow, ...] = ()

    @property
    def at_ns(self) -> int:
        """Unix time."""
        return self.mono_ns + self.offset


class Live:
    """Makes rows, and remembers them. One task owns it."""

    def __init__(self, facts: Facts, trace_of: Callable[[JobId], str] = lambda job: "") -> None:
        """`trace_of`: as JobRows has it."""
        self._facts = facts
        self._jobs, self._classes = JobRows(trace_of), ClassRows()
        self._made_for: tuple[int, tuple[Slot, ...]] = (0, ())
        self._node: tuple[int, NodeRow] | None = None
        self.offset = 0
        self._last: Rows | None = None

    def wanted(self, sums: Sums, now: int) -> list[tuple[ClientId, Slot]]:
        """Whose histograms of holds shall come with the next look."""
        return self._classes.wanted(sums, now)

    def keep_offset(self, offset: int) -> int:
        """As it is now → as rows have it."""
        if abs(offset - self.offset) > SET_NS:
            self.offset = offset
        return self.offset

    def look(
        self,
        state: State,
        sums: Sums,
        levels: Levels,
        now: int,
        *,
        offset: int,
        driver: str,
        policy_set: SetView,
        histograms: Histograms | None = None,
    ) -> Rows:
        """`sums`: of all clients on their devices; `offset`: Unix time less `now`; `driver`: `ok`, else a sentence;
        `histograms`: as `wanted`."""
        before, offset = self._last, self.keep_offset(offset)
        made_for = state.board_generation, tuple(state.runs)
        anew = made_for != self._made_for
        self._made_for = made_for
        self._classes.begin(state, anew)
        if anew:
            self._jobs.forget_classes()
        look = Look(sums=sums, levels=levels, lines=lines(state, now), now=now, offset=offset)
        jobs = self._jobs.look(state, look, self._classes.on)
        self._classes.hear(state, sums, histograms or {}, now)
        self._last = Rows(
            mono_ns=now,
            offset=offset,
            node=self._look_at_node(state, now, driver, policy_set, anew),
            devices=live_devices.rows(state, look, self._jobs.busy_ns, before.devices if before else {}),
            jobs=jobs,
            classes=self._classes.rows(state, before.classes if before else ()),
        )
        return self._last

    def _look_at_node(self, state: State, now: int, driver: str, policy_set: SetView, anew: bool) -> NodeRow:
        when, before = self._node or (0, None)
        if before is not None and not anew and now - when < NODE_NS and before.driver == driver:
            return before
        left = policy_set.probation_ns
        row = NodeRow(
            host=self._facts.host,
            version=self._facts.version,
            pid=self._facts.pid,
            simulated=self._facts.simulated,
            driver=cut(driver, 1000),
            generation=state.board_generation,
            policy_set=_short(evolve(policy_set, probation_ns=-(-left // PROBATION_STEP_NS) * PROBATION_STEP_NS)),
            policies=report.policies(state),
        )
        row = before if before == row else row
        self._node = now, row
        return row


def _short(running: SetView) -> SetView:
    """So that it fits into a frame."""
    said = running.rejected
    if said is None or len(said.text) + sum(len(str(one)) for one in said.findings) <= FINDINGS:
        return running
    return evolve(running, rejected=evolve(said, text=said.text[:FINDINGS], findings=()))


def step(before: Rows | None, after: Rows, number: int, decisions: tuple[Decision, ...] = ()) -> Feed:
    """What changed; everything where there is nothing before, or a device is gone."""
    if before is None or any(uuid not in after.devices for uuid in before.devices):
        return Feed(
            number=number,
            at_ns=after.at_ns,
            full=True,
            node=after.node,
            devices=tuple(after.devices.values()),
            jobs=tuple(after.jobs.values()),
            classes=after.classes,
            decisions=decisions,
        )
    jobs, devices = before.jobs, before.devices
    return Feed(
        number=number,
        at_ns=after.at_ns,
        full=False,
        node=None if after.node is before.node else after.node,
        devices=tuple(row for uuid, row in after.devices.items() if row is not devices.get(uuid)),
        jobs=tuple(row for job, row in after.jobs.items() if row is not (old := jobs.get(job)) and row != old),
        gone=tuple(job for job in jobs if job not in after.jobs),
        classes=None if after.classes is before.classes else after.classes,
        decisions=decisions,
    )
