"""Rules, and what stands in their bodies: bindings, lets, rules."""

from typing import Any

from attrs import define, field

from gpud.policies import ast
from gpud.policies.ir import Const, IrBinding, IrBody, IrEach, IrExpr, IrHeld, IrLet, IrRule, KnobRef, LetRead
from gpud.policies.printer import print_expr
from gpud.policies.quantities import kept
from gpud.policies.resolve.arguments import in_range, whole, whole_percent
from gpud.policies.resolve.expressions import constant, resolve_exact, settled
from gpud.policies.resolve.names import Entry, may_be_called
from gpud.policies.resolve.reading import PolicyScope
from gpud.policies.resolve.scope import CONDITION, VALUE, fixed
from gpud.policies.resolve.targets import Surroundings, Target, read_target
from gpud.policies.resolve.wants import Want
from gpud.policies.schema import NOT_NEGATIVE, Range
from gpud.policies.source import Span
from gpud.policies.types import CAPS, Type

_EARLIEST = Range(0, False, 24 * 3600 * 10**9)
_LET_TYPES = CAPS | {Type.BOOL, Type.TEXT, Type.SHARE, Type.RESIDENCY}


@define
class Rules:
    """Resolves rules of one policy in text order, or those of one `each`."""

    scope: PolicyScope
    around: Surroundings
    lets: list[IrLet] = field(factory=list)
    identities: dict[str, int] = field(factory=dict)
    """How many rules so far have one description."""

    # ------------------------------------------------------------------------------------------------------ lets

    def let(self, let: ast.Let, depth: int = 0) -> None:
        """Defines a name, and keeps its value unless that is wrong."""
        scope, name = self.scope, let.name
        free = may_be_called(name, "let", scope.known, scope.uses, scope.findings)
        value = resolve_exact(let.value, scope.owned_by(name.text).at(VALUE))
        if value is not None and value.type not in _LET_TYPES:
            scope.findings.add(
                "GP202", let.value.span, f"a let cannot be {value.type.value}", helps=("write a value, or a condition",)
            )
            value = None
        if not free:
            return
        read = None
        if value is not None:
            read = LetRead(len(self.lets), name.text, value.type, bool(self.around.alias))
            self.lets.append(IrLet(name.text, settled(value), let.span, name.span, depth))
        scope.known.define(Entry("let", name.text, name.span, read))

    # ------------------------------------------------------------------------------------------------------ bodies

    def body(self, body: ast.Body, path: str, depth: int) -> IrBody:
        """`path`: descriptions of the enclosing rules; `depth`: of the body, 1 for a rule of the policy."""
        mark = self.scope.known.enter()
        bindings: list[IrBinding] = []
        rules: list[IrRule] = []
        seen: dict[KnobRef, Span] = {}
        for member in body.members:
            if isinstance(member, ast.Let):
                self.let(member, depth)
            elif isinstance(member, ast.Binding):
                binding = self.binding(member, seen)
                if binding is not None:
                    bindings.append(binding)
            else:
                rules.append(self.rule(member, path, depth))
        self.scope.known.leave(mark)
        return IrBody(tuple(bindings), tuple(rules), body.span)

    def rule(self, rule: ast.During | ast.When | ast.Guard, path: str = "", depth: int = 0) -> IrRule:
        """Any rule. Its IR is there even if its condition is wrong: then that is a Const of None."""
        hours = early_ns = None
        condition = until = None
        because = ""
        if isinstance(rule, ast.During):
            kind, described, head = "during", f"during {rule.hours.text}", rule.hours.span
            hours, early_ns = self._hours(rule.hours), self._early(rule.early)
            if rule.early is not None:
                described += " early #"
        else:
            kind = "when" if isinstance(rule, ast.When) else "guard"
            described, head = f"{kind} {_described(rule.condition)}", rule.condition.span
            condition = self._held(rule.condition, kind)
            if rule.until is not None:
                described += f" until {_described(rule.until)}"
                until = self._held(rule.until, "until")
            because = rule.because.text if rule.because is not None else ""
        outer = self.around
        if kind == "guard":
            self.around = outer._replace(in_guard=True)
        here = f"{path}/{described}" if path else described
        otherwise = None if isinstance(rule, ast.Guard) else rule.otherwise
        number = self.identities[here] = self.identities.get(here, 0) + 1
        identity = here if number == 1 else f"{here} ({number})"
        body = self.body(rule.body, identity, depth + 1)
        other = self.body(otherwise, f"{identity}/else", depth + 1) if otherwise is not None else None
        self.around = outer
        return IrRule(
            kind, hours, early_ns or 0, condition, until, because, body, other, rule.span,
            Span(rule.span.start, head.end), identity,
        )  # fmt: skip

    def _held(self, held: ast.Held, word: str) -> IrHeld:
        scope = self.scope.at(CONDITION)
        found = resolve_exact(held.condition, scope, Want(f"`{word}`", Type.BOOL, help=_sample(self.scope)))
        condition = settled(found) if found is not None else Const(None, Type.BOOL, held.condition.span)
        return IrHeld(condition, self._for(held.duration, word), held.span)

    def _for(self, expr: ast.Expr | None, word: str) -> int:
        """As `_time`. `A for 1s and B` reads as if the time were `1s and B`."""
        if not isinstance(expr, ast.Logic):
            return self._time(expr, "the time after `for`", NOT_NEGATIVE)
        first: ast.Expr = expr
        while isinstance(first, ast.Logic):
            for operand in first.operands[1:]:
                resolve_exact(operand, self.scope.at(CONDITION), Want(f"`{first.op}`", Type.BOOL))
            first = first.operands[0]
        joined = f"write `{word} A {expr.op} B for {print_expr(first)}`, or put one condition into a rule of its own"
        self.scope.findings.add("GP202", expr.span, "`for` ends a condition", "more than a time", helps=(joined,))
        return self._time(first, "the time after `for`", NOT_NEGATIVE)

    def _time(self, expr: ast.Expr | None, what: str, allowed: Range) -> int:
        """Nanoseconds; 0 for none, and for one that is wrong."""
        if expr is None:
            return 0
        found = constant(expr, self.scope.at(fixed(what)), Want(what, Type.DURATION))
        if found is None or not in_range(found, allowed, what, expr.span, self.scope.findings):
            return 0
        return int(kept(found.value, Type.DURATION))

    def _early(self, expr: ast.Expr | None) -> int:
        return self._time(expr, "the time after `early`", _EARLIEST)

    def _hours(self, name: ast.Name) -> int | None:
        known, findings = self.scope.known, self.scope.findings
        entry = known.use(name.text)
        if entry is not None and entry.kind == "hours":
            return getattr(entry.value, "index", None)
        if entry is not None:
            what = {"class": "a class", "alias": "a tenant"}.get(entry.kind, f"a {entry.kind}")
            helps: tuple[str, ...] = ("`during` takes hours; for a condition, write `when`",)
            findings.add("GP202", name.span, f"`during` needs hours, but `{name.text}` is {what}", what, helps=helps)
            return None
        if name.text in known.refused:
            return None
        define = f"define them: `hours {name.text} = mon..fri 08:00..22:00`"
        helps = findings.one_of(name.text, known.visible("hours")) or (define,)
        findings.add("GP201", name.span, f"no hours are called `{name.text}`", helps=helps)
        return None

    # ---------------------------------------------------------------------------------------------------- bindings

    def binding(self, binding: ast.Binding, seen: dict[KnobRef, Span]) -> IrBinding | None:
        """`seen`: knobs that the block has set so far. Of a wrong value, the IR is a Const of None."""
        scope = self.scope
        target = read_target(binding.target, scope, self.around)
        inner = scope.owned_by(target.ref.text if target is not None else binding.target.text).at(VALUE)
        if target is None:
            resolve_exact(binding.value, inner)
            return None
        want = Want(f"`{binding.target.text}`", target.type, target.unlimited)
        value = resolve_exact(binding.value, inner, want)
        if target.wrong:
            return None
        if target.ref in seen:
            scope.findings.add(
                "GP303", binding.target.span, f"`{binding.target.text}` is set twice in one block", "set again",
                also=((seen[target.ref], "first set here"),), helps=("leave one of them out",),
            )  # fmt: skip
            return None
        seen[target.ref] = binding.target.span
        if isinstance(value, Const):
            value = self._judged(value, target, binding)
        kept_value: IrExpr = settled(value) if value is not None else Const(None, target.type, binding.value.span)
        return IrBinding(target.ref, kept_value, binding.span, binding.target.span)

    def _judged(self, value: Const, target: Target, binding: ast.Binding) -> Const | None:
        """A constant in its range, precise, and not without effect."""
        findings, span, what = self.scope.findings, binding.value.span, f"`{binding.target.text}`"
        if value.value is None:
            return value
        if self.around.in_guard and target.loosens(value):
            findings.add(
                "GP307", binding.span, f"a guard can only tighten, and this leaves {what} as it is",
                helps=(_tighter(target, binding.target.text),),
            )  # fmt: skip
            return value
        if not in_range(value, target.range, what, span, findings):
            return None
        if target.ref.name == "max_inflight":
            return whole(value, what, span, findings)
        if target.ref.name == "max_compute" and value.value != float("inf") and value.value > 0:
            return value.but(value=whole_percent(value, span, findings) / 100)
        return value

    # ------------------------------------------------------------------------------------------------------- each

    def each(self, each: ast.Each) -> IrEach | None:
        """Rules about one tenant; None: of which class is unknown."""
        scope = self.scope
        entry = scope.known.use(each.job_class.text)
        job_class = each.job_class.text if entry is not None and entry.kind == "class" else ""
        if not job_class and each.job_class.text not in scope.known.refused:
            helps = scope.findings.one_of(each.job_class.text, scope.known.visible("class"))
            scope.findings.add("GP201", each.job_class.span, f"no class is called `{each.job_class.text}`", helps=helps)
        mark = scope.known.enter()
        free = may_be_called(each.alias, "alias", scope.known, scope.uses, scope.findings)
        if free:
            scope.known.define(Entry("alias", each.alias.text, each.alias.span, None, job_class))
        # Of what a name means that cannot be the tenant's, nothing more is said.
        inner = Rules(scope, self.around._replace(alias=each.alias.text if free else ""), [], self.identities)
        body = inner.body(each.body, f"each {job_class}", 1)
        scope.known.leave(mark)
        if not job_class or not free:
            return None
        return IrEach(job_class, each.alias.text, tuple(inner.lets), body, each.span)


def _described(held: ast.Held) -> str:
    """Without its numbers: rules keep their identity while only numbers change."""
    return print_expr(held.condition, numbers="#") + (" for #" if held.duration is not None else "")


def _sample(scope: PolicyScope) -> str:
    name = next(scope.known.visible("class"), "high")
    return f"compare it: for example `{name}.wait_p99 > 250ms`"


def _tighter(target: Target, text: str) -> str:
    sample: Any = {"any": "true", "all": "false", "furthest": "host"}.get(target.combine)
    return f"write `{text} = {sample}`, or leave it out" if sample else "write a limit, or leave it out"
