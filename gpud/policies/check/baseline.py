"""GP907: an `aimd` that is hurt by falling below a peak of finite span. What it does itself keeps the signal below the
true peak, so every span forgets a little of it, and the baseline erodes.
"""

from collections.abc import Iterator

from gpud.policies.check.walk import children, expressions, parts
from gpud.policies.ir import Const, IrEach, IrExpr, IrPolicy, LetRead, OperatorCall
from gpud.policies.resolve.findings import Findings


def check_baseline(policy: IrPolicy, found: Findings) -> None:
    reported: set[str] = set()
    for expr, each in expressions(policy):
        for part in parts(expr):
            if not isinstance(part, OperatorCall) or part.operator != "aimd":
                continue
            for peak in _peaks(policy, dict(part.args)["hurt"], each):
                if peak.identity not in reported:
                    reported.add(peak.identity)
                    found.add(
                        "GP907",
                        peak.span,
                        "the baseline of this controller forgets by age",
                        "a peak of finite `span`",
                        also=[(part.span, "keeps what it is measured by below that peak")],
                        helps=["take what is usual while low stands aside: level(…, over = 2s, forget = shifted(…))"],
                    )


def _peaks(policy: IrPolicy, hurt: IrExpr, each: IrEach | None) -> Iterator[OperatorCall]:
    """Those of finite span on which the value depends, through lets."""
    seen: set[tuple[bool, int]] = set()
    left = [hurt]
    while left:
        expr = left.pop()
        if isinstance(expr, LetRead) and (expr.tenant, expr.index) not in seen:
            seen.add((expr.tenant, expr.index))
            lets = (each.lets if each else ()) if expr.tenant else policy.lets
            left += [let.value for let in lets[expr.index : expr.index + 1]]
        if isinstance(expr, OperatorCall) and expr.operator == "peak":
            span = dict(expr.args).get("span")
            if not (isinstance(span, Const) and span.value in (float("inf"), None)):
                yield expr
        left += reversed(children(expr))
