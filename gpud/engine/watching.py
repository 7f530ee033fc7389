"""Who looks at the engine from outside: rows for live screens, and the journal. Made anew at most a few times a second,
whoever asks; while no client is attached and nobody watches, nothing is.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from gpud.engine import hookless_memory
from gpud.engine.decisions import Decisions
from gpud.engine.in_words import Levels
from gpud.engine.journal import Journal
from gpud.engine.live import Facts, Live, Rows
from gpud.engine.ports import KeeperPort
from gpud.engine.service import Engine
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.policy_views import SetView
from gpud.model.units import MILLISECOND

log = logging.getLogger("gpud.engine")
_MISSING = "an error in gpud: something is missing in the journal"
"""Nothing about screens and the journal may end the daemon, or keep a job from its turn."""

TOGETHER_NS = 45 * MILLISECOND
"""Rows so old are as good as new: who looks at about the same time sees the same."""
PART_OF_CPU = 50
"""Where many jobs make rows dear, who wants them gets them so seldom that they take a fiftieth of a core …"""
PART_FOR_ALL = 10
"""… and however many come at all times, a tenth."""


class Watching:
    """Implements ports.WatchPort: hears of each event. Belongs to the engine's task, as all that reads its state."""

    def __init__(
        self,
        engine: Engine,
        facts: Facts,
        *,
        driver: Callable[[], str],
        policy_set: Callable[[], SetView],
        trace_of: Callable[[JobId], str] = lambda job: "",
        keeper: KeeperPort | None = None,
    ) -> None:
        self.engine = engine
        self.journal = Journal(engine.now())
        self._live = Live(facts, trace_of)
        self._decisions = Decisions()
        self._keeper = keeper
        self._driver, self._policy_set = driver, policy_set
        self._rows: Rows | None = None
        self._shape: tuple[int, ...] = ()
        self._cost_ns = 0
        self._known_levels: Levels = {}
        self._levels_as_of: tuple[object, ...] = ()
        engine.watching = self

    @property
    def offset(self) -> int:
        """Unix time less the monotonic clock."""
        return self._live.keep_offset(self.engine.wall_offset())

    def rows(self) -> Rows:
        """Of now, or of a moment ago."""
        rows = self._rows
        if rows is None or self.engine.now() - rows.mono_ns >= max(TOGETHER_NS, self._cost_ns * PART_FOR_ALL):
            rows = self._look(None)
        return rows

    def spacing_ns(self, wanted_ns: int) -> int:
        """Between two looks of somebody who wants them so far apart."""
        return max(wanted_ns, self._cost_ns * PART_OF_CPU)

    def decided(self, effects: Sequence[Effect], now: int) -> None:
        """They have just been carried out, and were decided at `now`."""
        state = self.engine.state
        if effects or state.locks.lines:
            try:
                noted = self.journal.note(self._decisions.of(state, effects, now))
                if noted and self._keeper is not None:
                    self._keeper.decided(noted, self.engine.wall_offset(), self._name_of)
            except Exception:
                log.exception("%s", _MISSING)

    def happened(self, counters: Mapping[tuple[ClientId, Slot], Counters] | None) -> None:
        """After an event and all that came of it. `counters`: what it has brought of them, of just now."""
        try:
            self._keep(counters)
        except Exception:
            log.exception("%s", _MISSING)

    def _keep(self, counters: Mapping[tuple[ClientId, Slot], Counters] | None) -> None:
        state = self.engine.state
        if state.clients:
            self._shape = ()
            if self.journal.is_due(self.engine.now()):
                self._look(counters)
            return
        shape = (len(state.tenants), len(state.waiting), len(state.devices), state.board_generation)
        if shape != self._shape and (self.journal.is_due(self.engine.now()) or not (state.tenants or state.waiting)):
            self._shape = shape  # without clients no time passes: what is now stays until something happens
            self._look(counters)

    def _name_of(self, job: int) -> str:
        """Of one that is there, or waits to be let in."""
        state = self.engine.state
        tenant = state.tenants.get(JobId(job))
        if tenant is None:
            tenant = next((one.tenant for one in state.waiting if one.tenant.id == job), None)
        return tenant.name if tenant is not None else ""

    def _levels(self) -> Levels:
        """While they move; else those of the last look."""
        state = self.engine.state
        as_of = (state.stepped_ns, *state.divisions.values())
        if state.levels_due_ns is not None or as_of != self._levels_as_of:
            self._levels_as_of, self._known_levels = as_of, self.engine.levels()
        return self._known_levels

    def _look(self, counters: Mapping[tuple[ClientId, Slot], Counters] | None) -> Rows:
        engine, now = self.engine, self.engine.now()
        began = engine.state.cpu_ns()
        sums = hookless_memory.amended(engine.state, engine.pages.counters() if counters is None else counters)
        wanted = self._live.wanted(sums, now)
        rows = self._rows = self._live.look(
            engine.state,
            sums,
            self._levels(),
            now,
            offset=engine.wall_offset(),
            driver=self._driver(),
            policy_set=self._policy_set(),
            histograms=engine.pages.histograms(wanted) if wanted else None,
        )
        if self.journal.is_due(now) or not engine.state.clients:
            self.journal.keep(rows)
            if self._keeper is not None:
                self._keeper.looked(rows, engine.wall_offset())
        self._cost_ns += (max(engine.state.cpu_ns() - began, 0) - self._cost_ns) // 8
        return rows
