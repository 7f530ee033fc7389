"""`hours` in a tick: what the calendar says is kept until it may say something else."""

from gpud.policies.check.walk import expressions, parts, rules
from gpud.policies.compile.context import Context
from gpud.policies.hours import HoursClock
from gpud.policies.ir import HoursRead, IrPolicy


def write_hours(context: Context) -> None:
    """For each of the hours that are used, with each `early`: a variable that says whether they hold."""
    for index, early in _used(context.ir):
        hours = context.ir.hours[index]
        name = context.slot("h", False)
        begin, end = context.slot("hb", 1), context.slot("he", 0)
        context.hours[index, early] = name
        active = context.code.use(f"active_{name}", HoursClock(hours, context.ir.timezone).active)
        with context.code.block(f"if not {begin} <= w < {end}"):
            context.code.line(f"{name}, {end} = {active}(w, {early})")
            context.code.line(f"{begin} = w")
        context.timers += context.timer(f"{end} - now[1] + t", unless_past=False)


def _used(ir: IrPolicy) -> list[tuple[int, int]]:
    by_rules = {(found.rule.hours, found.rule.early_ns) for found in rules(ir) if found.rule.hours is not None}
    read = {(part.index, 0) for expr, _ in expressions(ir) for part in parts(expr) if isinstance(part, HoursRead)}
    return sorted(by_rules | read)
