"""What happens, counted and timed for Prometheus: from events and the state after them. Pure.

A turn is waited for from when its job asked to when it has the device, and had from when its memory is in (at once,
where none is swapped) until its last process has given the device back.
"""

from collections.abc import Callable, Sequence

from attrs import define

from gpud.engine.classify import UNCLASSIFIED
from gpud.engine.lock_queue import Turn
from gpud.engine.publish import CHARGES
from gpud.engine.reload_steps import Steps
from gpud.engine.standing import arbiter_on, class_text, standing
from gpud.engine.state import State, Tenant
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId, Slot
from gpud.telemetry.gpu_time import GpuTime
from gpud.telemetry.metric_values import ClassLabels, Counts, Histograms

WAITS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
HOLDS = (0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
SWAPS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MOST_REMEMBERED = 8192
"""Of jobs that asked for something and have not got it: more than can be there."""
_DONE, _FAILED = 1, 2
"""`code` of Swapped; 0: it goes on."""

_COUNTED = frozenset({do.Record, do.SendWelcome, do.SendSlots, do.SwapOut, do.StruckOut})
"""Effects that say something; there may be hundreds of others at each tick."""

TraceOf = Callable[[JobId], str]


@define(eq=False)
class _Had:
    """A turn that goes on."""

    turn: Turn
    job_class: str
    swaps: bool
    asked_back: bool = False


class Tally:
    """Implements ports.ObserverPort. `trace_of`: the id of a job's trace, "" if it has none."""

    def __init__(self, state: State, trace_of: TraceOf, now: int) -> None:
        self._state, self._trace_of = state, trace_of
        self.waits, self.holds, self.swaps = Histograms(WAITS), Histograms(HOLDS), Histograms(SWAPS)
        self.swapped, self.preemptions, self.evictions, self.reloads = Counts(), Counts(), Counts(), Counts()
        for result in ("applied", "rejected", "struck_out"):
            self.reloads.add((result,), 0)
        self._classes, self._generation = ClassLabels(), 0
        self.gpu_time = GpuTime(state, self._class_of_job)
        self._asked: dict[tuple[JobId, Slot], int] = {}
        """Who waits for its turn, since when."""
        self._queued: dict[int, int] = {one.tenant.id: one.since_ns for one in state.waiting}
        self._had: dict[Slot, _Had] = {}
        self._in: dict[tuple[ClientId, Slot], tuple[int, int]] = {}
        """Memory that has come in: by which grant, and how much of that is counted."""
        self._outs: dict[tuple[ClientId, Slot, int], tuple[int, JobId]] = {}
        """Who was asked to let memory go, by which request: since when, whose it is."""
        self._begin_set()
        for request in state.locks.requests:
            for slot in request.slots:
                self._asked[request.job, slot] = min(self._asked.get((request.job, slot), now), request.since_ns)
        self._look_at_turns(now)

    def saw(self, event: ev.Event, effects: Sequence[Effect], now: int) -> None:
        """After an event, its effects carried out."""
        kind = type(event)
        if kind is ev.LockAsked:
            self._asks(event, now)  # type: ignore[arg-type]
        elif kind is ev.LockBack and event.asks is not None:  # type: ignore[union-attr]
            self._asks(event.asks, now)  # type: ignore[union-attr]
        elif kind is ev.Swapped:
            self._let_go(event, now)  # type: ignore[arg-type]
        elif kind is ev.Detached:
            self._goes(event, now)  # type: ignore[arg-type]
        for effect in effects:
            if type(effect) in _COUNTED:
                self._did(effect, kind is ev.AttachAsked and not event.again, now)  # type: ignore[union-attr]
        if self._state.board_generation != self._generation:
            self._begin_set()
        if self._had or self._state.locks.lines:
            self._look_at_turns(now)
        if kind is ev.LockIsIn:
            self._came_in(event, now)  # type: ignore[arg-type]

    def _did(self, effect: Effect, is_new: bool, now: int) -> None:
        """`is_new`: by an attach of a process that was not there before."""
        match effect:
            case do.Record():
                self._recorded(effect, is_new, now)
            case do.SendWelcome():
                if effect.adopt:
                    self.gpu_time.adopts(effect.client)
            case do.SendSlots():
                self.gpu_time.comes(effect.client)
            case do.SwapOut():
                self._leaves(effect, now)
            case do.StruckOut():
                self.reloads.add(("struck_out",))

    def reloaded(self, steps: Steps) -> None:
        """A change of the policies was made, or rejected."""
        self.reloads.add(("rejected" if steps.rejected else "applied",))

    # ---------------------------------------------------------------------------------------------------- classes

    def label(self, job_class: str) -> str:
        """Of a class, by its name; "": nobody arbitrates."""
        return self._classes.of(job_class)

    def class_on(self, tenant: Tenant, slot: Slot) -> str:
        """Label of a job's class on one device."""
        job_class = standing(self._state, tenant, slot).job_class
        if job_class is None and arbiter_on(self._state, slot) is not None:
            job_class = UNCLASSIFIED
        return self._classes.of(job_class or "")

    def classes_on(self, slot: Slot) -> tuple[str, ...]:
        """Those that its policy has, whether or not somebody is in them."""
        applied = arbiter_on(self._state, slot)
        names = [one.name for one in applied.program.ir.classes] if applied is not None else []
        return tuple(dict.fromkeys(self._classes.of(name) for name in names))

    def begin(self) -> None:
        """What may happen to the classes and devices of now stands at zero before it does."""
        for slot in self._state.runs:
            gpu, turns = str(slot), slot in self._state.locks.lines
            for job_class in self.classes_on(slot):
                self.waits.begin((job_class, "admission"))
                for counts in (self.gpu_time.held, self.preemptions, self.evictions):
                    counts.add((gpu, job_class), 0)
                if turns:
                    self.waits.begin((job_class, "turn"))
                    self.holds.begin((job_class,))
            for client in self._state.clients_on(slot):
                words = client.words.get(slot)
                if words is not None and words.gate & CHARGES:  # else nobody knows, and it is not zero
                    self.gpu_time.busy_ns.add((gpu, self.class_on(self._state.tenants[client.job], slot)), 0)
            for direction in ("in", "out") if slot in self._state.moves.devices else ():
                self.swaps.begin((gpu, direction))
                self.swapped.add((gpu, direction), 0)

    def _class_of_job(self, job: JobId, slot: Slot) -> str | None:
        tenant = self._state.tenants.get(job)
        return self.class_on(tenant, slot) if tenant is not None else None

    def _begin_set(self) -> None:
        """There is another set of policies: what was counted of classes that it has not is forgotten."""
        self._generation = self._state.board_generation
        names = [one.name for applied in self._state.board.arbiters for one in applied.program.ir.classes]
        kept = self._classes.begin([*names, UNCLASSIFIED])
        self.waits.keep(kept, 0)
        self.holds.keep(kept, 0)
        for counts in (self.preemptions, self.evictions):
            counts.keep(kept, 1)
        self.gpu_time.keep(kept)

    # ----------------------------------------------------------------------------------------- the line to be let in

    def _recorded(self, effect: do.Record, is_new: bool, now: int) -> None:
        job = effect.job
        if job is None or effect.kind not in ("queue", "admit", "attach", "refuse"):
            return
        if effect.kind == "queue":
            if len(self._queued) < MOST_REMEMBERED:
                self._queued.setdefault(job, now)
            return
        since = self._queued.pop(job, None)
        tenant = self._state.tenants.get(JobId(job))
        if tenant is None or effect.kind == "refuse":
            return
        by_itself = not tenant.launcher and len(tenant.clients) == 1
        if effect.kind == "admit" or (by_itself and (is_new or since is not None)):
            took = now - since if since is not None else 0
            self._time(self.waits, (self.label(class_text(self._state, tenant)), "admission"), took, JobId(job), now)

    def _time(self, histograms: Histograms, labels: tuple[str, ...], took: int, job: JobId, now: int) -> None:
        histograms.add(labels, max(took, 0), self._trace_of(job), now + self._state.wall_offset_ns)

    # ------------------------------------------------------------------------------------------------------ turns

    def _asks(self, event: ev.LockAsked, now: int) -> None:
        client = self._state.clients.get(event.client)
        if client is None:
            return
        if len(self._asked) >= MOST_REMEMBERED:
            self._asked = {key: at for key, at in self._asked.items() if key[0] in self._state.tenants}
        its = [one for one in self._state.locks.requests if one.job == client.job]
        for slot in event.slots & client.slots():
            self._asked[client.job, slot] = min((one.since_ns for one in its if slot in one.slots), default=now)

    def _look_at_turns(self, now: int) -> None:
        """Turns that have begun, were asked back, or are over."""
        lines = self._state.locks.lines
        for slot, line in lines.items():
            turn, had = line.turn, self._had.get(slot)
            if had is not None and had.turn is not turn:
                del self._had[slot]
                self._is_over(had, now)
                had = None
            if turn is None:
                continue
            if had is None:
                had = self._had[slot] = self._begins(slot, turn)
            asked_back = turn.revoked_ns is not None
            if asked_back and not had.asked_back:
                self.preemptions.add((str(slot), had.job_class))
            had.asked_back = asked_back
        for slot in [slot for slot in self._had if slot not in lines]:  # there are no turns there any more
            self._is_over(self._had.pop(slot), now)

    def _begins(self, slot: Slot, turn: Turn) -> _Had:
        tenant = self._state.tenants.get(turn.job)
        job_class = self.class_on(tenant, slot) if tenant is not None else self._classes.of("")
        since = self._asked.pop((turn.job, slot), None)
        if since is not None:
            self._time(self.waits, (job_class, "turn"), turn.since_ns - since, turn.job, turn.since_ns)
        return _Had(turn, job_class, slot in self._state.moves.devices, turn.revoked_ns is not None)

    def _is_over(self, had: _Had, now: int) -> None:
        turn = had.turn
        began = turn.in_ns if had.swaps else turn.since_ns
        if began is not None:  # else it never came in
            self._time(self.holds, (had.job_class,), now - max(began, turn.since_ns), turn.job, now)

    # ------------------------------------------------------------------------------------------------------ memory

    def _came_in(self, event: ev.LockIsIn, now: int) -> None:
        """What a process says counts, as far as it can be: of a turn that it has, and no more than the device holds."""
        state = self._state
        for slot in event.slots & state.moves.devices.keys():
            had = self._had.get(slot)
            if had is None or had.turn.epoch != event.epoch or event.client not in had.turn.clients:
                continue
            before, counted = self._in.get((event.client, slot), (0, 0))
            counted = counted if before == event.epoch else 0
            count = min(event.bytes, state.devices[slot].total_bytes)
            self._in[event.client, slot] = event.epoch, max(count, counted)
            if count > counted:
                self.swapped.add((str(slot), "in"), count - counted)
            if count and not event.short:
                took = min(event.took_ns, now - had.turn.since_ns)
                self._time(self.swaps, (str(slot), "in"), took, had.turn.job, now)

    def _leaves(self, effect: do.SwapOut, now: int) -> None:
        client = self._state.clients.get(effect.client)
        if client is None:
            return
        self._outs[effect.client, effect.slot, effect.request] = now, client.job
        self.evictions.add((str(effect.slot), self._class_of_job(client.job, effect.slot) or self._classes.of("")))

    def _let_go(self, event: ev.Swapped, now: int) -> None:
        out = self._outs.get((event.client, event.slot, event.request))
        if out is None or event.code not in (_DONE, _FAILED):
            return
        del self._outs[event.client, event.slot, event.request]
        count = min(event.bytes, self._state.devices[event.slot].total_bytes)
        if count:
            self.swapped.add((str(event.slot), "out"), count)
            self._time(self.swaps, (str(event.slot), "out"), now - out[0], out[1], now)

    def _goes(self, event: ev.Detached, now: int) -> None:
        if event.client in self._state.clients:
            return  # it has a newer session
        self.gpu_time.goes(event.client, event.held or {}, now)
        self._in = {key: one for key, one in self._in.items() if key[0] != event.client}
        self._outs = {key: one for key, one in self._outs.items() if key[0] != event.client}
