"""Several policies on one device: at most one that arbitrates, any number that only tighten.

Each has its own classes, so a tenant stands in one class of each. What they say of it is met; a policy that merely has
the built-in value of a knob says nothing, unless it is the one that arbitrates.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from attrs import Factory, frozen

from gpud.policies.combine import combine_of, is_tighter
from gpud.policies.explain import explain_tenant_knob, explain_value
from gpud.policies.ir import KnobRef, SignalRef
from gpud.policies.plugins.declare import Plugins
from gpud.policies.program import Explanation, Knobs, Now, Program
from gpud.policies.schema import KNOBS
from gpud.policies.tenants import TenantFacts

Classes = tuple[str | None, ...]
"""Of one tenant: its class in each policy; None: none takes it."""
_CLOCK_SET_NS = 1_000_000
"""A wall clock that moves by more than this against the monotonic one was set."""


class Wanted(NamedTuple):
    """A signal that somebody reads."""

    policy: int | None
    """Whose class it is about; None: of the device or the host."""
    signal: SignalRef


class Ran(NamedTuple):
    """One policy after its last tick."""

    state: Any
    knobs: Knobs
    snapshot: tuple[Any, ...]
    tenants: Mapping[int, tuple[Any, ...]]
    due_ns: int | None
    """When it could decide otherwise with the same snapshot."""
    wall_offset_ns: int


class Met(NamedTuple):
    """What holds for a tenant."""

    value: Any
    policy: int | None
    """Whose word it is; None: nobody's, it is built in."""
    site: int
    """Index into its `Program.sites`."""
    own: bool = False
    """An `each` says it of this very tenant."""


class _Word(NamedTuple):
    """Where a policy has a knob of a class."""

    policy: int
    knob: int
    """Into `Program.knobs`."""
    tenant_knob: int | None
    """Into `Program.tenant_knobs`."""
    arbitrates: bool


States = tuple[Ran | None, ...]


@frozen(eq=False)
class Stack:
    """Raises ValueError if more than one arbitrates. Without one nobody holds anybody, as with the built-in `open`."""

    programs: tuple[Program, ...]
    plugins: Plugins = Factory(dict)
    wanted: tuple[Wanted, ...] = Factory(lambda self: _union(self.programs), takes_self=True)
    """In the order of `tick`'s values; each once."""
    _splits: tuple[Callable[[Sequence[Any]], tuple[Any, ...]], ...] = Factory(
        lambda self: tuple(_split(self.wanted, number, program) for number, program in enumerate(self.programs)),
        takes_self=True,
    )
    _words: dict[tuple[Classes, str], tuple[_Word, ...]] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        arbiters = [program.name for program in self.programs if program.ir.arbiter is not None]
        if len(arbiters) > 1:
            raise ValueError(f"only one policy may arbitrate, but {' and '.join(arbiters)} do")

    @property
    def initial(self) -> States:
        return (None,) * len(self.programs)

    @property
    def mode(self) -> str:
        """Of its arbiter."""
        return next((program.ir.mode for program in self.programs if program.ir.arbiter is not None), "open")

    def classify(self, facts: TenantFacts) -> Classes:
        """Raises BadLabel."""
        found = [program.classify(facts) for program in self.programs]
        return tuple(job_class.name if job_class is not None else None for job_class in found)

    def tick(
        self, states: States, values: Sequence[Any], now: Now, tenants: Sequence[Mapping[int, tuple[Any, ...]]]
    ) -> States:
        """`values` of `wanted`; `tenants` as of `Program.tick`, of each policy. A policy is only asked if what it sees
        has changed, or its time has come."""
        after: list[Ran | None] = []
        offset = now.wall_ns - now.mono_ns
        for program, split, before, seen in zip(self.programs, self._splits, states, tenants, strict=True):
            snapshot = split(values)
            if before is not None and (
                snapshot == before.snapshot
                and (before.due_ns is None or now.mono_ns < before.due_ns)
                and seen == before.tenants
                and -_CLOCK_SET_NS < offset - before.wall_offset_ns < _CLOCK_SET_NS
            ):
                after.append(before)
                continue
            old = program.initial if before is None else before.state
            state, knobs = program.tick(old, snapshot, now, dict(seen))
            after.append(Ran(state, knobs, snapshot, seen, program.next_change(state, now), offset))
        return tuple(after)

    def next_change(self, states: States) -> int | None:
        """When the earliest of them could decide otherwise; None: never."""
        return min((ran.due_ns for ran in states if ran is not None and ran.due_ns is not None), default=None)

    def met(self, states: States, classes: Classes, knob: str, tenant: int | None = None) -> Met:
        """What holds of a knob for a tenant in these classes; of those who say the same, the first says it."""
        words = self._words.get((classes, knob))
        if words is None:
            words = self._words[classes, knob] = tuple(self._find(classes, knob))
        combine = combine_of(knob, self.plugins)
        found: Met | None = None
        for word in words:
            said = _said(word, states[word.policy], tenant)
            if said is not None and (found is None or is_tighter(combine, said.value, found.value)):
                found = said
        return found or Met(KNOBS[knob].default if knob in KNOBS else None, None, 0)

    def explain(self, states: States, classes: Classes, knob: str, tenant: int | None = None) -> Explanation | None:
        """Why; None: it is built in and no policy has a word about it."""
        met = self.met(states, classes, knob, tenant)
        ran = states[met.policy] if met.policy is not None else None
        if met.policy is None or ran is None:
            return None
        program, job_class = self.programs[met.policy], classes[met.policy]
        assert job_class is not None
        ref = KnobRef(job_class, knob)
        if met.own and tenant is not None:
            index, seen = program.tenant_knobs.index(ref), ran.tenants[tenant]
            return explain_tenant_knob(program, tenant, index, ran.knobs, ran.snapshot, seen, ran.state)
        return explain_value(program, ref, met.site, met.value, ran.snapshot, ran.state)

    def carry(self, states: States, old: "Stack") -> tuple[States, tuple[str, ...]]:
        """Takes over what the same policies remembered in another stack; and what starts anew. Needs a tick then."""
        before = {program.name: (program, ran) for program, ran in zip(old.programs, states, strict=True)}
        after: list[Ran | None] = []
        anew: list[str] = []
        for program in self.programs:
            known, ran = before.get(program.name, (program, None))
            if ran is None:
                after.append(None)
                continue
            state, labels = program.carry(ran.state, known, program.initial)
            anew += labels
            after.append(Ran(state, Knobs((), ()), (), {}, 0, ran.wall_offset_ns))
        return tuple(after), tuple(anew)

    def _find(self, classes: Classes, knob: str) -> list[_Word]:
        words = []
        for number, (program, job_class) in enumerate(zip(self.programs, classes, strict=True)):
            ref = KnobRef(job_class or "", knob)
            if ref in program.knobs:
                own = program.tenant_knobs.index(ref) if ref in program.tenant_knobs else None
                words.append(_Word(number, program.knobs.index(ref), own, program.ir.arbiter is not None))
        return words


def _said(word: _Word, ran: Ran | None, tenant: int | None) -> Met | None:
    """What one policy says; None: nothing."""
    if ran is None or not ran.knobs.values:
        return None
    if tenant is not None and word.tenant_knob is not None:
        for number, values, sites in ran.knobs.tenants:
            if number == tenant and values[word.tenant_knob] is not None:
                return Met(values[word.tenant_knob], word.policy, sites[word.tenant_knob], True)
    site = ran.knobs.sites[word.knob]
    return Met(ran.knobs.values[word.knob], word.policy, site) if site or word.arbitrates else None


def _union(programs: tuple[Program, ...]) -> tuple[Wanted, ...]:
    return tuple(
        dict.fromkeys(_wanted(number, signal) for number, program in enumerate(programs) for signal in program.signals)
    )


def _wanted(number: int, signal: SignalRef) -> Wanted:
    return Wanted(number if signal.scope == "class" else None, signal)


def _split(wanted: tuple[Wanted, ...], number: int, program: Program) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    at = [wanted.index(_wanted(number, signal)) for signal in program.signals]
    if not at:
        return lambda values: ()
    if len(at) == 1:
        return lambda values: (values[at[0]],)
    pick = itemgetter(*at)
    return lambda values: pick(values)
