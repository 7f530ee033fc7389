"""What names mean in a test: all that rules may read, and knobs, the gate, attached tenants and the world besides."""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field

from gpud.policies import ast
from gpud.policies.ir import Const, IrExpr, IrPolicy, Observed, Read
from gpud.policies.plugins.declare import Actuator, Plugin
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.resolve.nearest import did_you_mean
from gpud.policies.resolve.reading import PolicyScope, scope_of
from gpud.policies.schema import KNOBS, SIGNALS, Knob
from gpud.policies.simulate.worlds.kind import WorldKind
from gpud.policies.types import Type

GATE = {"held": Type.BOOL, "passed": Type.NUMBER}
"""Would a launch be held now; launches let through by `max_pause` so far."""


@define
class TestScope(PolicyScope):
    """Names of the policy that a test runs."""

    __test__ = False  # no test of pytest's

    mode: str = field(default="", kw_only=True)
    """Its arbiter."""
    tenants: Mapping[str, str] = field(factory=dict, kw_only=True)
    """Attached ones → their classes."""
    world: WorldKind | None = field(default=None, kw_only=True)
    world_names: Mapping[str, Type] = field(factory=dict, kw_only=True)
    """What `world.x` may be."""

    @classmethod
    def of(cls, policy: IrPolicy, findings: Findings, plugins: Mapping[str, Plugin]) -> "TestScope":
        scope = scope_of(policy, findings, plugins)
        return cls(findings, scope.place, scope.known, plugins, scope.uses, scope.missing, mode=policy.mode)

    def names(self) -> Iterator[str]:
        yield from self.tenants
        yield from super().names()

    def read(self, ref: ast.Ref, want: Type | None = None) -> IrExpr | None:
        first = ref.parts[0].text
        if ref.text == "missing":
            return self._missing(ref, want)
        if first == "world":
            return self._world(ref)
        if first in self.tenants:
            return self._tenant(ref)
        if len(ref.parts) == 1 and first in self.known.visible("class"):
            return Const(first, Type.CLASS, ref.span)
        if len(ref.parts) == 2 and first in self.known.visible("class") and ref.parts[1].text in GATE:
            return self._gate(ref)
        return super().read(ref, want)

    def _missing(self, ref: ast.Ref, want: Type | None) -> IrExpr | None:
        if not self.place.live:
            return Const(None, want or Type.NUMBER, ref.span)
        self.findings.add(
            "GP701", ref.span, "what is missing is not known: nothing is equal to it",
            helps=("look at what the policy does then: `at 2s expect low.pause`, for example",),
        )  # fmt: skip
        return None

    def _world(self, ref: ast.Ref) -> IrExpr | None:
        if self.world is None:
            self.findings.add(
                "GP701", ref.span, "this test simulates no world", helps=("add a line like `simulate contention(…)`",)
            )
        elif len(ref.parts) != 2 or ref.parts[1].text not in self.world_names:
            word = ref.parts[1].text if len(ref.parts) > 1 else ""
            known = did_you_mean(word, self.world_names) or (f"it has {alternatives(self.world_names, 'and')}",)
            self.findings.add("GP201", ref.span, f"the world `{self.world.name}` has no `{word}`", helps=known)
        else:
            name = ref.parts[1].text
            return Observed("world", "", name, self.world_names[name], ref.span)
        return None

    def _tenant(self, ref: ast.Ref) -> IrExpr | None:
        tenant = ref.parts[0].text
        if len(ref.parts) == 1:
            self.findings.add(
                "GP202", ref.span, f"`{tenant}` is a tenant, not a value", "a tenant",
                helps=(f"name its class, or one of its signals: `{tenant}.class`, `{tenant}.active`",),
            )  # fmt: skip
            return None
        name = ref.parts[1].text
        if len(ref.parts) == 2 and name == "class":
            return Observed("class", tenant, "class", Type.CLASS, ref.span)
        if len(ref.parts) == 2 and name in GATE:
            return self._gate(ref)
        if len(ref.parts) == 2 and name in KNOBS:
            return self.read_knob(ref, self.tenants[tenant], KNOBS[name])
        signal = SIGNALS.get(("class", name)) if len(ref.parts) == 2 else None
        if signal is not None and signal.of_tenant:
            return Observed("signal", tenant, name, signal.type, ref.span)
        if signal is not None:
            self.findings.add(
                "GP405", ref.span, f"`{name}` is measured of a class, not of one tenant", "not known of one tenant",
                helps=(f"write `{self.tenants[tenant]}.{name}`",),
            )  # fmt: skip
            return None
        words = ["class", *GATE, *KNOBS, *(row.name for row in SIGNALS.values() if row.of_tenant)]
        self.findings.add(
            "GP201", ref.parts[1].span, f"`{tenant}` has no signal `{name}`", helps=did_you_mean(name, words)
        )
        return None

    def _gate(self, ref: ast.Ref) -> IrExpr | None:
        owner, name = ref.parts[0].text, ref.parts[1].text
        if self.mode not in ("", "open", "preempt") or (name == "passed" and self.mode != "preempt"):
            self.findings.add(
                "GP701", ref.span, f"`{name}` says nothing under this arbiter", "of the gate before each launch",
                helps=(f"look at a knob: `{owner}.pause`",),
            )  # fmt: skip
            return None
        return Observed("gate", owner, name, GATE[name], ref.span)

    def read_knob(self, ref: ast.Ref, job_class: str, knob: Knob) -> IrExpr | None:
        owner = ref.parts[0].text
        if knob.name == "share" and not self.mode:
            why = "a policy without `arbitrate` sets no shares"
        elif self.mode and self.mode not in knob.modes:
            why = f"`{knob.name}` has no effect under `arbitrate {self.mode}`"
        else:
            return Observed("knob", owner, knob.name, knob.type, ref.span)
        self.findings.add("GP701", ref.span, why)
        return None

    def read_actuator(self, ref: ast.Ref, plugin: Plugin, actuator: Actuator) -> IrExpr | None:
        return Observed("knob", ref.parts[0].text, f"{plugin.name}.{actuator.name}", actuator.type, ref.span)


def shown(reading: Any) -> str:
    """A reading as the test writes it."""
    if isinstance(reading, Read):
        return reading.signal.text
    if isinstance(reading, Observed):
        return f"{reading.of or 'world'}.{reading.name}"
    return str(getattr(reading, "name", "hours"))
