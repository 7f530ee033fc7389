"""GP302: a class that no tenant can ever be in, since classes above it take all, or its `match` contradicts itself."""

from gpud.policies.check.space import Space
from gpud.policies.check.truth import TRUE, Budget
from gpud.policies.ir import Any_, IrClass, IrPolicy
from gpud.policies.resolve.findings import Findings


def check_reach(policy: IrPolicy, found: Findings) -> None:
    budget = Budget()
    for number, one in enumerate(policy.classes):
        above = policy.classes[:number]
        catch_all = next((other for other in above if isinstance(other.match, Any_)), None)
        if catch_all is not None:
            found.add(
                "GP302",
                one.name_span,
                f"class `{one.name}` can never have a member",
                "unreachable",
                also=[(catch_all.match.span, "`match any` above already takes everyone")],
                helps=["classes are tried top to bottom; move the catch-all last"],
            )
        elif _contradicts_itself(Space(policy, budget), one):
            found.add(
                "GP302",
                one.match.span,
                f"class `{one.name}` can never have a member",
                "this can never be true",
                helps=["nothing is two things at once: write `or`, or `in [ … ]`, where one of several will do"],
            )
        else:
            takers = _takers(policy, budget, one, above)
            if takers:
                found.add(
                    "GP302",
                    one.name_span,
                    f"class `{one.name}` can never have a member",
                    "unreachable",
                    also=[(taker.match.span, f"`{taker.name}` above {_takes(takers)}") for taker in takers],
                    helps=["classes are tried top to bottom; move the one that takes fewer up, or delete it"],
                )


def _takes(takers: tuple[IrClass, ...]) -> str:
    return "already takes all that would fit" if len(takers) == 1 else "takes some of all that would fit"


def _contradicts_itself(space: Space, one: IrClass) -> bool:
    match = space.formula(one.match)
    tried = space.cells([match])
    return tried is not None and not any(match.truth(cell) & TRUE for cell in tried)


def _takers(policy: IrPolicy, budget: Budget, one: IrClass, above: tuple[IrClass, ...]) -> tuple[IrClass, ...]:
    """The class, or classes together, that take everybody whom this one would take; none if somebody may be left."""
    for other in above:
        if _covered(Space(policy, budget), one, (other,)):
            return (other,)
    if not _covered(Space(policy, budget), one, above):
        return ()
    needed = above
    for other in above:
        fewer = tuple(taker for taker in needed if taker is not other)
        needed = fewer if _covered(Space(policy, budget), one, fewer) else needed
    return needed


def _covered(space: Space, one: IrClass, others: tuple[IrClass, ...]) -> bool:
    match = space.formula(one.match)
    taken = [space.formula(other.match) for other in others]
    tried = space.cells([match, *taken])
    return tried is not None and all(
        any(formula.truth(cell) == TRUE for formula in taken) for cell in tried if match.truth(cell) & TRUE
    )
