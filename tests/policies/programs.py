"""Programs from text, and something that ticks them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpud.policies.compile import compile_policy
from gpud.policies.diagnostics import has_errors
from gpud.policies.ir import IrPolicy, SignalRef
from gpud.policies.parse import parse
from gpud.policies.plugins.declare import Plugins
from gpud.policies.program import TENANT_CLASS, Knobs, Now, Program
from gpud.policies.resolve.policy import resolve_policy
from gpud.policies.source import Source

SPEC = Path(__file__).parent / "spec"
MS = 1_000_000
S = 1_000 * MS
TICK = 5 * MS
MONDAY = 1_772_409_600 * S
"""2026-03-02 00:00 UTC."""


def resolved(text: str, name: str | None = None, plugins: Plugins = {}) -> IrPolicy:  # noqa: B006 never changed
    """The (only, or the named) policy of a text; `gpol 1` is put in front if it is missing."""
    source = Source("test.gpol", text if text.lstrip().startswith("gpol") else f"gpol 1\n{text}")
    file, found = parse(source)
    assert file is not None, found
    policies = [policy for policy in file.policies if name in (None, policy.name.text)]
    assert len(policies) == 1, [policy.name.text for policy in policies]
    ir, more = resolve_policy(policies[0], file, (), plugins)
    found = [one for one in [*found, *more] if one.code != "GP307"]  # a guard may say what cannot tighten
    assert not has_errors(found), [(d.code, d.message, d.primary.span) for d in found]
    assert ir is not None
    return ir


def program(text: str, name: str | None = None, plugins: Plugins = {}) -> Program:  # noqa: B006 never changed
    return compile_policy(resolved(text, name, plugins), (), plugins)


def body(members: str, plugins: Plugins = {}, head: str = "") -> Program:  # noqa: B006 never changed
    """Of a policy with the classes high and low."""
    classes = 'class high { match label("tier") == "online" } class low { match any }'
    return program(f'gpol 1 {head} policy "p" {{ {classes} {members} }}', None, plugins)


def spec(file: str, name: str | None = None) -> Program:
    return program((SPEC / f"{file}.gpol").read_text(), name)


class Run:
    """A program on a device, ticked by hand. Signals are set by name: `high.launch_rate`."""

    def __init__(self, program: Program, wall: int = MONDAY) -> None:
        self.program, self.state, self.wall = program, program.initial, wall
        self.now = 0
        self.values: dict[str, Any] = {}
        self.tenants: dict[int, tuple[str, dict[str, Any]]] = {}
        """Number → (class, signals by name alone)."""
        self.knobs: Knobs | None = None
        self.ticks = 0

    def snapshot(self) -> tuple[Any, ...]:
        return tuple(self.values.get(signal.text) for signal in self.program.signals)

    def tick(self, now: int | None = None, **values: Any) -> "Run":
        """`high__busy = 0.5` sets high.busy before it."""
        self.now = self.now if now is None else now
        self.set({name.replace("__", "."): value for name, value in values.items()})
        tenants = {
            number: tuple(self._of_tenant(job_class, given, ref) for ref in self.program.tenant_signals)
            for number, (job_class, given) in self.tenants.items()
        }
        moment = Now(self.now, self.wall + self.now)
        self.state, self.knobs = self.program.tick(self.state, self.snapshot(), moment, tenants)
        self.ticks += 1
        return self

    @staticmethod
    def _of_tenant(job_class: str, given: Mapping[str, Any], ref: SignalRef) -> Any:
        return job_class if ref == TENANT_CLASS else given.get(ref.name)

    def set(self, values: Mapping[str, Any]) -> None:
        known = {signal.text for signal in self.program.signals}
        assert set(values) <= known, set(values) - known
        self.values |= values

    def run(self, until: int, step: int = TICK, look: "Callable[[Run], None] | None" = None) -> "Run":
        """Ticks every `step` after now, up to and with `until`."""
        while self.now + step <= until:
            self.tick(self.now + step)
            if look is not None:
                look(self)
        return self

    def next_change(self) -> int | None:
        return self.program.next_change(self.state, Now(self.now, self.wall + self.now))

    def __getitem__(self, name: str) -> Any:
        """A knob by name, or a let."""
        if name in self.program.lets:
            return self.program.let_values(self.state)[self.program.lets.index(name)]
        assert self.knobs is not None
        return self.knobs.values[self._index(name)]

    def site(self, name: str) -> str:
        """The text of what a knob comes from, `base` of the base."""
        assert self.knobs is not None
        return self.program.sites[self.knobs.sites[self._index(name)]].text

    def of_tenant(self, number: int, name: str) -> Any:
        assert self.knobs is not None
        index = [knob.text for knob in self.program.tenant_knobs].index(name)
        return next((values[index] for tenant, values, _ in self.knobs.tenants if tenant == number), None)

    def _index(self, name: str) -> int:
        return [knob.text for knob in self.program.knobs].index(name)
