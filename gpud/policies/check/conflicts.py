"""GP301: two rules that may set a knob at the same time, where its values cannot be combined."""

from gpud.policies.check.holding import exclusive
from gpud.policies.check.space import Space
from gpud.policies.check.truth import Budget
from gpud.policies.check.walk import Path, Writer, writers
from gpud.policies.ir import IrPolicy, KnobRef
from gpud.policies.resolve.findings import Findings
from gpud.policies.schema import KNOBS


def check_conflicts(policy: IrPolicy, found: Findings) -> None:
    by_knob: dict[KnobRef, list[Writer]] = {}
    for writer in writers(policy):
        row = KNOBS.get(writer.binding.knob.name)
        if row is not None and row.combine == "none":
            by_knob.setdefault(writer.binding.knob, []).append(writer)
    budget = Budget()
    for knob, list_ in by_knob.items():
        for number, later in enumerate(list_):
            for earlier in list_[:number]:
                if encloses(earlier.path, later.path) or encloses(later.path, earlier.path):
                    continue
                if exclusive(Space(policy, budget), earlier.path, later.path, later.each):
                    continue
                _report(found, knob, earlier, later)
                break


def encloses(outer: Path, inner: Path) -> bool:
    """Does the innermost body of one contain the other's?"""
    return len(outer) <= len(inner) and all(
        one.rule is other.rule and one.otherwise == other.otherwise for one, other in zip(outer, inner, strict=False)
    )


def _report(found: Findings, knob: KnobRef, earlier: Writer, later: Writer) -> None:
    found.add(
        "GP301",
        later.binding.target_span,
        f"two rules may set `{knob.text}` at the same time",
        "and here",
        also=[(earlier.binding.target_span, "set here")],
        helps=[
            f"`{knob.name}` has no natural way to combine two values",
            "put one rule inside the other (the inner one wins), or use `else`",
        ],
    )
