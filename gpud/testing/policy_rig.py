"""A policy driven from Python, for property tests: set signals, let time pass, look at knobs.

rig = PolicyRig.of(text, "aimd", steps="simulate contention(capacity = 3_000/s, …)")
rig.set("high.wait_p99", "3ms")
rig.advance(0.2)
assert rig.knob("low.max_inflight") == 1
"""

from collections.abc import Mapping
from typing import Any

from attrs import define

from gpud.policies.compile import compile_policy
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.library import Library, from_texts
from gpud.policies.plugins.declare import Plugins
from gpud.policies.render import human
from gpud.policies.resolve.nearest import did_you_mean
from gpud.policies.simulate.plan import Plan
from gpud.policies.simulate.run import plan_of
from gpud.policies.simulate.runner import begin
from gpud.policies.simulate.simulation import Simulation
from gpud.policies.simulate.trace import value_of

_NOTHING: Mapping[str, Any] = {}


class WrongPolicy(ValueError):
    """The text, or what a rig is to begin with, is wrong. Its message is what `gpud policy check` says."""


@define
class PolicyRig:
    """One policy on one simulated device. Values are as gpud.policies.types says: durations in nanoseconds."""

    plan: Plan
    simulation: Simulation
    _until_ns: int = 0

    @classmethod
    def of(
        cls,
        policies: str | Library,
        name: str,
        *,
        arguments: str = "",
        steps: str = "",
        plugins: Plugins = _NOTHING,
        dense: bool = False,
    ) -> "PolicyRig":
        """The policy `name` of a text or a set, with `arguments` as `apply` has them (`(quiet = 5ms)`) and lines of a
        test to begin with: `attach …`, `simulate …`, `clock …`, `feed …`, `at 1s …`. Raises WrongPolicy."""
        library = from_texts({"policy.gpol": policies}) if isinstance(policies, str) else policies
        _sound(list(library.diagnostics))
        plan, _, found = plan_of(f'"{name}"{arguments}', steps, "1s", library, plugins)
        _sound(found)
        if plan is None:
            from gpud.policies.check.whole import check_library

            raise WrongPolicy(human(check_library(library, plugins)))
        program = compile_policy(plan.policy, plugins=plugins)
        rig = cls(plan, begin(plan, program, use_gate=plan.policy.mode in ("", "open", "preempt"), dense=dense))
        rig.simulation.advance(0)
        return rig

    @property
    def now_ns(self) -> int:
        """Since the beginning."""
        return self.simulation.now_ns

    def set(self, signal: str, value: Any) -> None:
        """`high.active`, `gpu.busy`, a tenant's `a.active`, `world.high_demand`. Texts are read as policies write them
        (`"3ms"`), numbers as recordings have them (seconds, 1 for 100 %), None is missing. It counts from now on."""
        owner, _, name = signal.partition(".")
        if owner == "world":
            self.simulation.set_world(name, value)
        elif signal in self.plan.fed:
            self.simulation.set(signal, value_of(value, self.plan.fed[signal], signal))
        else:
            raise WrongPolicy(" ".join((f"no signal is called `{signal}`", *did_you_mean(signal, self.plan.fed))))

    def advance(self, seconds: float) -> None:
        """Lets time pass, and looks at all that is due meanwhile and at its end."""
        self._until_ns += round(seconds * 1e9)
        while True:
            self.simulation.advance(self._until_ns)
            if self.simulation.now_ns >= self._until_ns:
                return

    def knob(self, name: str) -> Any:
        """`low.max_inflight`, of a class or an attached tenant."""
        owner, _, knob = name.partition(".")
        return self.simulation.knob(owner, knob)

    def knobs(self) -> dict[str, Any]:
        """All of the policy's classes."""
        program = self.simulation.program
        return {knob.text: self.simulation.knob(knob.job_class, knob.name) for knob in program.knobs}

    def let(self, name: str) -> Any:
        """A `let`'s value at the last tick; None: not known."""
        return self.simulation.lets()[name]

    def signal(self, name: str) -> Any:
        """What is measured now."""
        return self.simulation.signals.read(name, self.simulation.mono_ns)

    def held(self, owner: str) -> bool:
        """Would the gate hold a launch of this class or attached tenant now?"""
        assert self.simulation.gate is not None, "under this arbiter it is not the gate that holds"
        own = [g for g in self.simulation.gate.launchers.values() if owner in (g.name, g.job_class)]
        return bool(own) and all(launcher.held for launcher in own)


def _sound(found: list[Diagnostic]) -> None:
    if found:
        raise WrongPolicy(human(found))
