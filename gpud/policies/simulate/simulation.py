"""A program, its signals, its gate and its world, run together through simulated time.

Ticks are 5 ms apart, and come at once when somebody becomes active or idle. Where nothing can change, they are skipped:
the next stop is the earliest of what is scheduled, of `Program.next_change`, of the world, of the gate, and of an
`idle_for` that reaches a value it is compared with. Before a tick that follows skipped ones, the last of those is made
up for, so that programs see the same as if none had been skipped. At each stop: changes, then the world, then the tick,
then the gate.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any

from attrs import define, field

from gpud.policies.ir import HoursRead, LetRead, Observed, Read
from gpud.policies.program import TENANT_CLASS, Knobs, Now, Program
from gpud.policies.schema import KNOBS
from gpud.policies.simulate.counting import Counting, counting_of
from gpud.policies.simulate.evaluate import Reading
from gpud.policies.simulate.gate_clock import GateClock
from gpud.policies.simulate.grains import TICK_NS, ceil_to
from gpud.policies.simulate.signals import Signals
from gpud.policies.simulate.worlds.kind import World

BEGIN_NS = 1_000_000_000_000
"""Monotonic time of a simulation's beginning: not zero, which often says "never"."""
MOST_STOPS = 1_000_000
"""Stops and ticks of one simulation."""


class Unfinished(Exception):
    """The budget is used up."""


@define
class Simulation:
    """A run under way. Its times are nanoseconds from the beginning."""

    program: Program
    wall_ns: int
    """Unix time of the beginning."""
    signals: Signals
    world: World | None = None
    use_gate: bool = False
    dense: bool = False
    """Skips nothing, for comparison."""
    most: int = MOST_STOPS
    stop: Callable[[], bool] = field(default=lambda: False)
    """Asked now and then: is it enough?"""

    now_ns: int = -1
    ticks: int = 0
    stops: int = 0
    state: Any = None
    knobs: Knobs = field(init=False)
    gate: GateClock | None = None
    watch_closely: bool = False
    """No tick is skipped for now: something is looked at that moves between decisions."""
    on_stop: Callable[["Simulation"], None] | None = None

    _last_tick: int = -TICK_NS
    _pending: bool = True
    """Something has changed since the last tick."""
    _events: list[tuple[int, int, Callable[[], None], Iterator[tuple[int, Callable[[], None]]]]] = field(factory=list)
    _order: int = 0
    _flipped: bool = False
    _readers: list[Callable[[int], Any]] = field(factory=list)
    _tenant_readers: list[tuple[int, list[Callable[[int], Any]]]] = field(factory=list)
    _knob_at: dict[tuple[str, str], int] = field(factory=dict)
    _tenant_knob_at: dict[tuple[str, str], int] = field(factory=dict)
    _numbers: dict[str, int] = field(factory=dict)
    _counting: Counting = field(init=False)

    def __attrs_post_init__(self) -> None:
        program = self.program
        self.state = program.initial
        self.knobs = Knobs((), ())
        self._knob_at = {(knob.job_class, knob.name): index for index, knob in enumerate(program.knobs)}
        self._tenant_knob_at = {(knob.job_class, knob.name): index for index, knob in enumerate(program.tenant_knobs)}
        self._readers = [self.signals.reader(signal.text) for signal in program.signals]
        self._numbers = {name: number for number, name in enumerate(self.signals.members)}
        each = {entry.job_class for entry in program.ir.eaches}
        for name, job_class in self.signals.members.items():
            if job_class in each:
                self._tenant_readers.append((self._numbers[name], self._readers_of(name, job_class)))
        self._counting = counting_of(program, self.signals)
        if self.use_gate:
            self.gate = GateClock.begin(program.ir, self.signals, self.knob, BEGIN_NS)

    def _readers_of(self, tenant: str, job_class: str) -> list[Callable[[int], Any]]:
        readers: list[Callable[[int], Any]] = []
        for signal in self.program.tenant_signals:
            if signal == TENANT_CLASS:
                readers.append(lambda now: job_class)
            elif signal.job_class == job_class:
                readers.append(self.signals.reader(f"{tenant}.{signal.name}"))
            else:
                readers.append(lambda now: None)
        return readers

    # ----------------------------------------------------------------------------------------------------- looking

    def knob(self, owner: str, name: str) -> Any:
        """The value in force for a class or an attached tenant."""
        job_class = self.signals.members.get(owner)
        if job_class is not None:
            index = self._tenant_knob_at.get((job_class, name))
            if index is not None:
                for number, values, _ in self.knobs.tenants:
                    if number == self._numbers[owner] and values[index] is not None:
                        return values[index]
        index = self._knob_at.get((job_class or owner, name))
        if index is None or not self.knobs.values:
            return KNOBS[name].default if name in KNOBS else None
        return self.knobs.values[index]

    def site(self, owner: str, name: str) -> int | None:
        """Where that value comes from: index into `Program.sites`."""
        job_class = self.signals.members.get(owner)
        if job_class is not None:
            index = self._tenant_knob_at.get((job_class, name))
            if index is not None:
                for number, values, sites in self.knobs.tenants:
                    if number == self._numbers[owner] and values[index] is not None:
                        return sites[index]
        index = self._knob_at.get((job_class or owner, name))
        return self.knobs.sites[index] if index is not None and self.knobs.sites else None

    def look(self, reading: Reading) -> Any:
        """What a test reads, now."""
        match reading:
            case Read(signal=signal):
                return self.signals.read(signal.text, self.mono_ns)
            case LetRead(index=index):
                return self.program.let_values(self.state)[index]
            case HoursRead(index=index):
                return self._hours(index)
            case Observed(kind="knob"):
                return self.knob(reading.of, reading.name)
            case Observed(kind="signal"):
                return self.signals.read(f"{reading.of}.{reading.name}", self.mono_ns)
            case Observed(kind="class"):
                return self.signals.members[reading.of]
            case Observed(kind="world"):
                assert self.world is not None
                return self.world.reading(reading.name, self.mono_ns)
            case Observed(kind="gate"):
                return self._gate(reading)
        raise AssertionError(reading)

    def _hours(self, index: int) -> bool:
        from gpud.policies.hours import HoursClock

        ir = self.program.ir
        return HoursClock(ir.hours[index], ir.timezone).active(self.wall_ns + self.now_ns)[0]

    def _gate(self, reading: Observed) -> Any:
        assert self.gate is not None
        own = [g for g in self.gate.launchers.values() if reading.of in (g.name, g.job_class)]
        if reading.name == "held":
            return bool(own) and all(launcher.held for launcher in own)
        return sum(launcher.passed for launcher in own)

    def snapshot(self) -> tuple[Any, ...]:
        """What the program reads, now."""
        mono = self.mono_ns
        return tuple(reader(mono) for reader in self._readers)

    def lets(self) -> Mapping[str, Any]:
        return dict(zip(self.program.lets, self.program.let_values(self.state), strict=True))

    # ---------------------------------------------------------------------------------------------------- changing

    def set(self, key: str, value: Any) -> None:
        """A signal, from this moment on."""
        self._pending = True
        if self.signals.set(key, value, self.mono_ns):
            self._flipped = True

    def set_world(self, name: str, value: Any) -> None:
        assert self.world is not None
        self._pending = True
        self.world.set(name, value, self.mono_ns)

    def schedule(self, moments: Iterator[tuple[int, Callable[[], None]]]) -> None:
        """Things to do at moments that do not go back; what is scheduled first is done first."""
        self._order += 1
        self._push(self._order, moments)

    def _push(self, order: int, moments: Iterator[tuple[int, Callable[[], None]]]) -> None:
        following = next(moments, None)
        if following is not None:
            heappush(self._events, (following[0], order, following[1], moments))

    @property
    def next_event_ns(self) -> int | None:
        """When something scheduled happens next."""
        return self._events[0][0] if self._events else None

    # ------------------------------------------------------------------------------------------------------- running

    @property
    def mono_ns(self) -> int:
        """Monotonic time of now."""
        return BEGIN_NS + self.now_ns

    def advance(self, limit_ns: int) -> None:
        """To the next stop, at `limit_ns` at the latest. Raises Unfinished."""
        self.stops += 1
        if self.stops + self.ticks > self.most or (self.stops % 256 == 0 and self.stop()):
            raise Unfinished
        following = min(limit_ns, self._next_ns()) if self.now_ns >= 0 else 0
        before = (following - 1) // TICK_NS * TICK_NS
        if self._last_tick < before:
            self.now_ns = before
            self._tick()
        self.now_ns = following
        while self._events and self._events[0][0] <= following:
            _, order, action, moments = heappop(self._events)
            action()
            self._push(order, moments)
        self._look_at_world()
        if following % TICK_NS == 0 or self._flipped:
            self._tick()
        if self.gate is not None:
            self.gate.look(self.mono_ns)
        if self.on_stop is not None:
            self.on_stop(self)

    def _look_at_world(self) -> None:
        if self.world is None:
            return
        mono = self.mono_ns
        for key, value in self.world.signals(mono):
            if self.signals.set(key, value, mono):
                self._flipped = True

    def _tick(self) -> None:
        self.ticks += 1
        mono = self.mono_ns
        tenants = {number: tuple(read(mono) for read in readers) for number, readers in self._tenant_readers}
        snapshot = tuple([reader(mono) for reader in self._readers])
        before = self.knobs
        self.state, self.knobs = self.program.tick(self.state, snapshot, Now(mono, self.wall_ns + self.now_ns), tenants)
        self._last_tick = self.now_ns
        self._pending = self._flipped = False
        if self.world is not None and self.knobs != before:
            self.world.decided(self.knob, mono)
            self._pending = True

    def _next_ns(self) -> int:
        """The next stop by itself."""
        now, mono = self.now_ns, self.mono_ns
        grid = (now // TICK_NS + 1) * TICK_NS
        following: int | None = None
        if self.dense or self.watch_closely or self._pending or self._counting.always(mono):
            following = grid
        else:
            for due in (
                self.program.next_change(self.state, Now(mono, self.wall_ns + now)),
                self.world.next_ns(mono) if self.world is not None else None,
                self._counting.next_ns(mono),
            ):
                if due is not None:
                    tick = max(ceil_to(due - BEGIN_NS, TICK_NS), grid)
                    following = tick if following is None else min(following, tick)
        if self._events:
            following = self._events[0][0] if following is None else min(following, self._events[0][0])
        if self.gate is not None:
            due = self.gate.next_ns(mono)
            if due is not None:
                following = due - BEGIN_NS if following is None else min(following, due - BEGIN_NS)
        return following if following is not None else 1 << 62
