"""Where an expression stands, and what names mean there.

`expressions.resolve(expr, scope)` asks a `Scope` what a name is; everything else (types, arithmetic, functions,
constants) is the same everywhere. The scope of policies is `reading.PolicyScope`. A test resolves the same way with a
subclass of it: `reading.scope_of(ir, findings, plugins)` is a scope with all names of a resolved policy, in place RULE,
and what only a test may read is added by overriding `read` (for `world.x`, tenants' names, `missing`) and `read_knob`
(for `C.knob`, `C.held`, `C.passed`), which return an `ir.Observed`, or `Const(None, type)` for `missing`:

    class TestScope(PolicyScope):
        def read_knob(self, ref, job_class, knob):        # instead of GP402
            return Observed("knob", job_class, knob.name, knob.type, ref.span)
        def read(self, ref, want=None):
            if ref.parts[0].text == "world": …
            if ref.text == "missing": return Const(None, want or Type.NUMBER, ref.span)
            return super().read(ref, want)
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from gpud.policies import ast
from gpud.policies.ir import IrExpr
from gpud.policies.plugins.declare import Plugin
from gpud.policies.resolve.findings import Findings
from gpud.policies.types import Type


class Place(NamedTuple):
    """What may be read where an expression stands."""

    kind: str
    """`match`, `limit`, `rule`, `fixed`; `step` of a test."""
    what: str
    """In messages: "`match`", "a condition", "`resume_after`"."""
    live: bool = False
    """Signals, lets and hours: what changes while a policy runs."""
    facts: bool = False
    """Labels and other facts of one tenant."""
    operators: bool = False
    """Functions that keep a state."""


MATCH = Place("match", "`match`", facts=True)
LIMIT = Place("limit", "`limit`", facts=True)
CONDITION = Place("rule", "a condition", live=True)
VALUE = Place("rule", "a rule", live=True, operators=True)
"""Of a `let` or a binding."""


def fixed(what: str) -> Place:
    """A value that is fixed when the policy is loaded: settings, params, times."""
    return Place("fixed", what)


class Scope(Protocol):
    """What an expression needs to know of its surroundings. All report what is wrong to `findings`, once, and return
    None then: a value of unknown type, about which nothing more is said."""

    findings: Findings
    place: Place

    def read(self, ref: ast.Ref, want: Type | None = None) -> IrExpr | None:
        """What a name is worth here. `want`: the type that is expected, where that is known."""

    def at(self, place: Place) -> "Scope":
        """The same names, elsewhere."""

    def names(self) -> Iterable[str]:
        """All that could have been meant by a single name, for "did you mean"."""

    def plugin(self, name: ast.Name) -> Plugin | None:
        """A plugin that the file uses."""

    def identity(self, operator: str) -> str:
        """A new identity for a stateful operator that stands here."""

    @property
    def plugins(self) -> Mapping[str, Any]:
        """Those that are installed."""
