"""Rules → lines that keep their state: held.py written out, with what cannot happen left out."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from attrs import frozen

from gpud.policies.compile.context import Context, Value
from gpud.policies.compile.expressions import name_of, value_of
from gpud.policies.held import GRACE_NS, LOST, OFF, ON, OUT
from gpud.policies.ir import IrHeld, IrRule
from gpud.policies.wording import quoted


class Flags(dict[int, tuple[str, str]]):
    """By id of a rule: (it holds, its `else` holds) as Python text. Right only where the rules around it are active."""


def write_rules(context: Context, rules: tuple[IrRule, ...], flags: Flags, guard: bool = False) -> None:
    """Brings the state of these rules, and of those inside, to this tick."""
    for rule in rules:
        if rule.hours is not None:
            flag = context.hours[rule.hours, rule.early_ns]
            flags[id(rule)] = flag, f"not {flag}"
        else:
            _write_held(context, rule, flags, guard)
        _write_inside(context, rule, flags)


def _write_inside(context: Context, rule: IrRule, flags: Flags) -> None:
    """Rules inside it: asleep, and reset, while their body is not in force."""
    for flag, body in zip(flags[id(rule)], (rule.body, rule.otherwise), strict=True):
        if body is None or not body.rules:
            continue
        before = len(context.slots)
        with context.code.block(f"if {flag}"):
            write_rules(context, body.rules, flags)
        if len(context.slots) > before:
            with context.code.block("else"):
                for initial in (OFF, None):
                    names = [slot.name for slot in context.slots[before:] if slot.initial is initial]
                    if names:
                        context.code.line(f"{' = '.join(names)} = {initial}")


def _write_held(context: Context, rule: IrRule, flags: Flags, guard: bool) -> None:
    assert rule.condition is not None
    context.code.line(f"# {quoted(context.ir, rule.head)}")
    condition = _value(context, rule.condition)
    until = _value(context, rule.until) if rule.until is not None else None
    names = (rule.kind, rule.identity)
    mode = context.slot("m", OFF, "mode", *names)
    lasting = rule.condition.for_ns > 0 or (rule.until is not None and rule.until.for_ns > 0)
    since = context.slot("s", None, "since", *names) if lasting else ""
    doubtful = condition.maybe_unknown or (until is not None and until.maybe_unknown)
    unknown = context.slot("u", None, "unknown", *names) if doubtful else ""
    held = _Held(
        context=context,
        guard=guard,
        dwell=rule.condition.for_ns,
        release=rule.until.for_ns if rule.until is not None else 0,
        mode=mode,
        since=since,
        unknown=unknown,
    )
    if until is None:
        held.write(condition)
    else:
        held.write_with_until(condition, until)
    held.write_timers()
    flags[id(rule)] = f"{mode} == {ON}", f"{mode} == {OFF}"


def _value(context: Context, held: IrHeld) -> Value:
    value = value_of(context, held.condition)
    return Value(name_of(context, value), value.maybe_unknown, True)


@frozen(kw_only=True)
class _Held:
    """One rule while it is written: `mode`, `since` and `unknown` are its slots, "" where it needs none."""

    context: Context
    guard: bool
    dwell: int
    release: int
    mode: str
    since: str
    unknown: str

    def write(self, condition: Value) -> None:
        """Without `until`: on while the condition holds."""
        word = self._write_if_unknown("if", condition, self._forget)
        with self._block(f"{word} {condition.code}"):
            self._known()
            if not self.dwell:
                self._set(self.mode, ON)
            else:
                with self._block(f"if {self.mode} != {ON}"):
                    self._write_wait(self.dwell)
                    with self._block("else"):
                        self._set(self.mode, OFF)
        with self._block("else"):
            self._known()
            self._set(self.mode, OFF)
            self._forget()

    def write_with_until(self, condition: Value, until: Value) -> None:
        self._write_on(until)
        with self._block(f"if not {self.mode} & 1"):  # it is off, perhaps since just now
            self._write_off(condition, until)

    def _write_on(self, until: Value) -> None:
        with self._block(f"if {self.mode} & 1"):
            word = self._write_if_unknown("if", until, self._forget, LOST)
            if until.maybe_unknown and not self.guard:
                with self._block(f"{word} {self.mode} == {LOST}"):
                    self._known()
                    self._set(self.mode, OFF)
            with self._block(f"{word} {until.code}"):
                self._known()
                self._write_wait(self.release, OFF)
            with self._block("else"):
                self._known()
                self._forget()

    def _write_off(self, condition: Value, until: Value) -> None:
        word = self._write_if_unknown("if", condition, self._forget)
        with self._block(f"{word} {condition.code}"):
            if self.dwell:
                self._set(self.since, f"t if {self.since} is None else {self.since}")
                with self._block(f"if t - {self.since} < {self._number(self.dwell)}"):
                    self._known()
                    self._set(self.mode, OFF)
            word = self._write_if_unknown("elif" if self.dwell else "if", until, None)
            with self._block(f"{word} {until.code}"):
                self._known()
                self._set(self.mode, OFF)
            with self._block("else"):
                self._known()
                self._set(self.mode, ON)
                self._forget()
        with self._block("else"):
            self._known()
            self._set(self.mode, OFF)
            self._forget()

    def write_timers(self) -> None:
        lines = self.context.timers
        if self.since:
            last = self._number(self.dwell)
            if self.release != self.dwell:
                last = f"({self._number(self.release)} if {self.mode} == {ON} else {last})"
            lines += [f"if {self.since} is not None:", *_indented(self.context.timer(f"{self.since} + {last}"))]
        if self.unknown:
            lines += [
                f"if {self.unknown} is not None:",
                *_indented(self.context.timer(f"{self.unknown} + {GRACE_NS}")),
            ]

    def _write_if_unknown(self, word: str, value: Value, forget: Callable[[], None] | None, out: int = OUT) -> str:
        """A branch for when this value is unknown; returns the word that the next one begins with."""
        if not value.maybe_unknown:
            return word
        with self._block(f"{word} {value.code} is None"):
            self._set(self.unknown, f"t if {self.unknown} is None else {self.unknown}")
            if not self.guard or (forget is not None and self.since):
                with self._block(f"if t - {self.unknown} >= {GRACE_NS}"):
                    if not self.guard:
                        self._set(self.mode, out)
                    if forget is not None:
                        forget()
        return "elif"

    def _write_wait(self, duration: int, then: int = ON) -> None:
        """Changes the mode once this branch has been taken for so long; an `else` may follow."""
        if not duration:
            self._set(self.mode, then)
            self._forget()
            return
        self._set(self.since, f"t if {self.since} is None else {self.since}")
        with self._block(f"if t - {self.since} >= {self._number(duration)}"):
            self._set(self.mode, then)
            self._forget()

    def _known(self) -> None:
        self._set(self.unknown, None)

    def _forget(self) -> None:
        self._set(self.since, None)

    def _set(self, slot: str, value: object) -> None:
        if slot:
            self.context.code.line(f"{slot} = {value}")

    def _block(self, head: str) -> AbstractContextManager[None]:
        return self.context.code.block(head)

    def _number(self, duration: int) -> str:
        return self.context.code.constant(duration)


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
