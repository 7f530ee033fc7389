"""What a policy decides, worked out from its tree on every tick in the plainest way: the generated code must agree.

Only the operators and `held.step` are the real ones.
"""

from typing import Any

from gpud.policies import held
from gpud.policies.combine import meet
from gpud.policies.held import OFF, ON, RESET, Held
from gpud.policies.hours import HoursClock
from gpud.policies.ir import (
    Const,
    HoursRead,
    IrBinding,
    IrBody,
    IrExpr,
    IrPolicy,
    IrRule,
    KnobRef,
    LetRead,
    Op,
    OperatorCall,
    PureCall,
    Read,
)
from gpud.policies.operators import BUILT_IN
from gpud.policies.rounding import round_knob
from gpud.policies.schema import KNOBS
from gpud.policies.types import Type

CONTROLLERS = ("aimd", "tgs")


class Reference:
    """One policy; `tick` returns the values of its bound knobs by name."""

    def __init__(self, ir: IrPolicy) -> None:
        self.ir = ir
        self.states: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.beaten: dict[str, int] = {}
        self.rules: dict[int, Held] = {}
        self.last: dict[int, tuple[Any, int | None]] = {}
        self.clocks = [HoursClock(hours, ir.timezone) for hours in ir.hours]

    def tick(self, now: int, wall: int, signals: dict[str, Any]) -> dict[str, Any]:
        self.now, self.wall, self.signals = now, wall, signals
        self.lets: list[Any] = []
        self.warm: dict[int, Any] = {}
        for let in self.ir.lets:
            self.lets.append(self.value(let.value))
        for body in (self.ir.body, *(guard.body for guard in self.ir.guards)):
            self.warm_up(body)
        self.active: dict[int, bool | None] = {}
        for rule in self.ir.body.rules:
            self.update(rule, False)
        for rule in self.ir.guards:
            self.update(rule, True)
        self.ran: set[str] = set()
        self.used: set[int] = set()
        self.decided: dict[KnobRef, Any] = {}
        knobs = sorted(self.knobs(), key=lambda knob: knob.name != "pause")
        for knob in knobs:
            self.decided[knob] = self.decide(knob)
        for identity in self.controllers():
            if identity not in self.ran:
                self.beaten.setdefault(identity, now)
        self.last = {key: value for key, value in self.last.items() if key in self.used}
        return {knob.text: self.decided[knob] for knob in knobs}

    # ------------------------------------------------------------------------------------------------------- rules

    def update(self, rule: IrRule, guard: bool) -> None:
        key = id(rule)
        if rule.hours is not None:
            self.active[key] = self.clocks[rule.hours].active(self.wall, rule.early_ns)[0]
        else:
            assert rule.condition is not None
            until = rule.until
            state = held.step(
                self.rules.get(key, RESET),
                self.now,
                self.value(rule.condition.condition),
                self.value(until.condition) if until else None,
                dwell_ns=rule.condition.for_ns,
                release_ns=until.for_ns if until else 0,
                has_until=until is not None,
                guard=guard,
            )
            self.rules[key] = state
            self.active[key] = {ON: True, OFF: False}.get(state.mode)
        for body, wanted in ((rule.body, True), (rule.otherwise, False)):
            for inner in body.rules if body else ():
                if self.active[key] is wanted:
                    self.update(inner, False)
                else:
                    self.reset(inner)

    def reset(self, rule: IrRule) -> None:
        self.rules.pop(id(rule), None)
        self.active[id(rule)] = None
        for body in (rule.body, rule.otherwise):
            for inner in body.rules if body else ():
                self.reset(inner)

    # ------------------------------------------------------------------------------------------------------- knobs

    def knobs(self) -> list[KnobRef]:
        found: dict[KnobRef, None] = {}

        def look(body: IrBody) -> None:
            for binding in body.bindings:
                found[binding.knob] = None
            for rule in body.rules:
                look(rule.body)
                if rule.otherwise:
                    look(rule.otherwise)

        for body in (self.ir.body, *(guard.body for guard in self.ir.guards)):
            look(body)
        return list(found)

    def decide(self, knob: KnobRef) -> Any:
        combine = KNOBS[knob.name].combine
        guarded = None
        for guard in self.ir.guards:
            if self.active[id(guard)]:
                said = self.said(guard.body, knob, (), True)
                if said is not None:
                    guarded = said if guarded is None else meet(combine, guarded, said)
        own = self.said(self.ir.body, knob, () if guarded is None else (guarded,), False)
        own = KNOBS[knob.name].default if own is None else own
        return own if guarded is None else meet(combine, own, guarded)

    def said(self, body: IrBody, knob: KnobRef, others: tuple[Any, ...], guard: bool) -> Any:
        """None: nothing."""
        combine, found = KNOBS[knob.name].combine, None
        for rule in sorted(body.rules, key=lambda rule: self.has_controller(rule, knob)):
            chosen = {True: rule.body, False: rule.otherwise}.get(self.active[id(rule)])  # type: ignore[call-overload]
            if chosen is not None:
                said = self.said(chosen, knob, others if found is None else (*others, found), guard)
                if said is not None:
                    found = said if found is None else meet(combine, found, said)
        if found is None:
            for binding in body.bindings:
                if binding.knob == knob:
                    return self.bound(binding, others, guard)
        return found

    def bound(self, binding: IrBinding, others: tuple[Any, ...], guard: bool) -> Any:
        for call in self.calls(binding.value):
            if call.operator in CONTROLLERS:
                self.control(call, binding, others)
        value = self.value(binding.value)
        key = id(binding)
        self.used.add(key)
        if value is not None:
            rounded = round_knob(binding.knob.name, value)
            self.last[key] = rounded, None
            return rounded
        last, since = self.last.get(key, (None, None))
        since = self.now if since is None else since
        self.last[key] = last, since
        return None if not guard and self.now - since >= held.GRACE_NS else last

    def control(self, call: OperatorCall, binding: IrBinding, others: tuple[Any, ...]) -> None:
        identity, knob = call.identity, binding.knob
        held_value = self.values.get(identity)
        if held_value is not None:
            if knob.name != "pause" and self.decided.get(KnobRef(knob.job_class, "pause")):
                return
            rounded = round_knob(knob.name, held_value)
            if binding.value is call and any(
                other != rounded and meet(KNOBS[knob.name].combine, rounded, other) == other for other in others
            ):
                return
        arguments = [self.value(value) for _, value in call.args]
        built = BUILT_IN[call.operator]
        state = self.states.get(identity, built.initial)
        if identity in self.beaten:
            assert built.resume is not None
            state = built.resume(state, self.beaten.pop(identity), self.now, *arguments)
        self.states[identity], self.values[identity] = built.step(state, self.now, *arguments)
        self.ran.add(identity)

    def controllers(self) -> list[str]:
        found: list[str] = []

        def look(body: IrBody) -> None:
            for binding in body.bindings:
                found.extend(call.identity for call in self.calls(binding.value) if call.operator in CONTROLLERS)
            for rule in body.rules:
                look(rule.body)
                if rule.otherwise:
                    look(rule.otherwise)

        for body in (self.ir.body, *(guard.body for guard in self.ir.guards)):
            look(body)
        return found

    def has_controller(self, rule: IrRule, knob: KnobRef) -> bool:
        for body in (rule.body, rule.otherwise):
            for binding in body.bindings if body else ():
                if binding.knob == knob and any(call.operator in CONTROLLERS for call in self.calls(binding.value)):
                    return True
            if any(self.has_controller(inner, knob) for inner in (body.rules if body else ())):
                return True
        return False

    # ------------------------------------------------------------------------------------------------- expressions

    def calls(self, expr: IrExpr) -> list[OperatorCall]:
        if isinstance(expr, Op | PureCall):
            return [call for arg in expr.args for call in self.calls(arg)]
        if isinstance(expr, OperatorCall):
            return [*(call for _, arg in expr.args for call in self.calls(arg)), expr]
        return []

    def warm_up(self, body: IrBody) -> None:
        for binding in body.bindings:
            for call in self.calls(binding.value):
                if not any(inner.operator in CONTROLLERS for inner in self.calls(call)):
                    self.warm[id(call)] = self.value(call)
        for rule in body.rules:
            self.warm_up(rule.body)
            if rule.otherwise:
                self.warm_up(rule.otherwise)

    def value(self, expr: IrExpr) -> Any:
        match expr:
            case Const():
                return expr.value
            case Read():
                return self.signals[expr.signal.text]
            case LetRead():
                return self.lets[expr.index]
            case HoursRead():
                return self.clocks[expr.index].active(self.wall)[0]
            case OperatorCall():
                if id(expr) in self.warm:
                    return self.warm[id(expr)]
                if expr.operator in CONTROLLERS and expr.identity in self.values:
                    return self.values[expr.identity]
                arguments = [self.value(value) for _, value in expr.args]
                built = BUILT_IN[expr.operator]
                state = self.states.get(expr.identity, built.initial)
                self.states[expr.identity], value = built.step(state, self.now, *arguments)
                return value
        assert isinstance(expr, Op | PureCall)
        values = [self.value(arg) for arg in expr.args]
        name = expr.op if isinstance(expr, Op) else expr.function
        if name == "and":
            return False if False in values else None if None in values else True
        if name == "or":
            return True if True in values else None if None in values else False
        if None in values:
            return None
        if name == "not":
            return not values[0]
        found = _apply(name, values, [arg.type for arg in expr.args])
        return None if found != found else found


def _apply(name: str, values: list[Any], types: list[Type]) -> Any:
    a, b = values[0], values[1]
    timed = {Type.DURATION} < set(types) and bool({Type.RATE, Type.BANDWIDTH} & set(types))
    match name:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return 1.0 * a * b / 1e9 if timed else 1.0 * a * b
        case "/":
            return a / b if b else None
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "==":
            return a == b
        case "<":
            return a < b
        case ">":
            return a > b
        case "<=":
            return a <= b
        case ">=":
            return a >= b
    raise AssertionError(name)
