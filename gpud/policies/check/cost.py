"""What a tick costs at most, counted before it runs (GP503): each node of the policy is one step, an operator as many
as the schema says, and all of an `each` thirty-two times as much.
"""

from collections.abc import Iterator

from gpud.policies.check.walk import bodies, children, head_of
from gpud.policies.ir import IrBinding, IrBody, IrExpr, IrPolicy, IrRule, OperatorCall, PureCall
from gpud.policies.plugins.declare import Plugins
from gpud.policies.resolve.findings import Findings
from gpud.policies.schema import EACH_COST, MAX_STEPS, OPERATORS
from gpud.policies.source import Span

NO_PLUGINS: Plugins = {}
_UNKNOWN_FUNCTION = 8
"""Of a plugin that is not there; it is a finding of its own."""


def steps(policy: IrPolicy, plugins: Plugins = NO_PLUGINS) -> int:
    """Of one tick, the policy's own body included."""
    return 1 + sum(cost for cost, _, _ in _items(policy, plugins))


def check_cost(policy: IrPolicy, found: Findings, plugins: Plugins = NO_PLUGINS) -> None:
    total = steps(policy, plugins)
    if total <= MAX_STEPS:
        return
    cost, what, span = max(_items(policy, plugins), key=lambda item: item[0])  # the first of equals
    found.add(
        "GP503",
        span,
        f"a tick of this policy would cost {total} steps; {MAX_STEPS} are allowed",
        f"the most expensive: this {what} costs {cost}",
        also=[(policy.name_span, f"{total} steps")],
        helps=[
            "each value, operation, condition, binding and rule is a step, an operator 4 to 12, "
            f"and all of an `each` {EACH_COST} times that",
            "compute what several rules need once, in a `let`, or use fewer rules inside `each`",
        ],
    )


def _items(policy: IrPolicy, plugins: Plugins) -> Iterator[tuple[int, str, Span]]:
    """Cost, kind and place of each let, rule and binding of the outermost bodies."""
    for let in policy.lets:
        yield 1 + _of(let.value, plugins), "let", let.name_span
    yield from _of_members(policy.body, plugins, 1)
    for guard in policy.guards:
        yield _of_rule(guard, plugins), "rule", guard.head
    for each in policy.eaches:
        yield 2 * EACH_COST, "`each`", head_of(policy.source, each.span)
        for let in each.lets:
            yield EACH_COST * (1 + _of(let.value, plugins)), "let", let.name_span
        yield from _of_members(each.body, plugins, EACH_COST)


def _of_members(body: IrBody, plugins: Plugins, times: int) -> Iterator[tuple[int, str, Span]]:
    for binding in body.bindings:
        yield times * _of_binding(binding, plugins), "binding", binding.target_span
    for rule in body.rules:
        yield times * _of_rule(rule, plugins), "rule", rule.head


def _of_rule(rule: IrRule, plugins: Plugins) -> int:
    cost = 1 + (rule.hours is not None)
    for held in (rule.condition, rule.until):
        if held is not None:
            cost += 1 + _of(held.condition, plugins)
    for _, body in bodies(rule):
        cost += 1
        cost += sum(_of_binding(binding, plugins) for binding in body.bindings)
        cost += sum(_of_rule(inner, plugins) for inner in body.rules)
    return cost


def _of_binding(binding: IrBinding, plugins: Plugins) -> int:
    return 1 + _of(binding.value, plugins)


def _of(expr: IrExpr, plugins: Plugins) -> int:
    own = 1
    if isinstance(expr, OperatorCall):
        row = OPERATORS.get(expr.operator)
        own = row.cost if row else _of_plugin(expr.operator, plugins)
    elif isinstance(expr, PureCall) and "." in expr.function:
        own = _of_plugin(expr.function, plugins)
    return own + sum(_of(inner, plugins) for inner in children(expr))


def _of_plugin(name: str, plugins: Plugins) -> int:
    space, _, function = name.partition(".")
    plugin = plugins.get(space)
    costs = [row.cost for row in plugin.functions if row.name == function] if plugin else []
    return costs[0] if costs else _UNKNOWN_FUNCTION
