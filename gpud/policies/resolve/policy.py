"""A policy as a whole: its members in text order."""

from collections.abc import Sequence

from attrs import define, field

from gpud.policies import ast
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.ir import (
    HoursRead,
    IrBinding,
    IrBlock,
    IrBody,
    IrClass,
    IrEach,
    IrHours,
    IrParam,
    IrPolicy,
    IrRule,
    KnobRef,
)
from gpud.policies.plugins.declare import Plugins
from gpud.policies.resolve.blocks import POLICY_BLOCKS, check_together, mode_of, read_block, unknown_block
from gpud.policies.resolve.classes import read_class
from gpud.policies.resolve.findings import Findings
from gpud.policies.resolve.hours import read_hours, read_timezone
from gpud.policies.resolve.names import Entry, Names, may_be_called
from gpud.policies.resolve.params import Arguments, read_param
from gpud.policies.resolve.plugins import check_uses
from gpud.policies.resolve.reading import PolicyScope
from gpud.policies.resolve.rules import Rules
from gpud.policies.resolve.scope import VALUE
from gpud.policies.resolve.targets import Surroundings
from gpud.policies.source import Source, Span


def resolve_policy(
    policy: ast.Policy,
    file: ast.File,
    arguments: Sequence[ast.Arg] = (),
    plugins: Plugins | None = None,
    *,
    argument_source: Source | None = None,
) -> tuple[IrPolicy | None, list[Diagnostic]]:
    """The policy with these arguments, and what is wrong with either, in the order of the text. With errors the IR has
    what could be resolved. Never raises for a tree that `parse` made."""
    findings = Findings(file.source)
    if not policy.name.text.strip():
        findings.add("GP101", policy.name.span, "a policy needs a name", helps=('for example policy "preempt-mix"',))
    of_arguments = Findings(argument_source or file.source)
    uses, missing = check_uses(file, plugins or {}, findings)
    scope = PolicyScope(findings, VALUE, Names(), plugins or {}, uses, missing)
    reader = _Reader(policy, scope, Arguments(policy, arguments, of_arguments))
    ir = reader.read(file)
    ordered = sorted(findings.found, key=lambda diagnostic: diagnostic.place)
    return ir, [*of_arguments.found, *ordered]


@define
class _Reader:
    policy: ast.Policy
    scope: PolicyScope
    arguments: Arguments
    mode: str | None = ""
    arbiter: ast.Block | None = None
    """The one that counts."""
    params: list[IrParam] = field(factory=list)
    hours: list[IrHours] = field(factory=list)
    classes: list[IrClass] = field(factory=list)
    blocks: dict[str, IrBlock] = field(factory=dict)
    bindings: list[IrBinding] = field(factory=list)
    rules: list[IrRule] = field(factory=list)
    guards: list[IrRule] = field(factory=list)
    eaches: list[IrEach] = field(factory=list)
    firsts: dict[str, Span] = field(factory=dict)
    """Of what may stand once."""

    def read(self, file: ast.File) -> IrPolicy:
        """Classes, hours and the arbiter can be named above where they stand; params and lets cannot."""
        self._foresee()
        ir = IrPolicy(
            name=self.policy.name.text, source=file.source, span=self.policy.span, name_span=self.policy.name.span
        )
        rules = Rules(self.scope, Surroundings(self.mode))
        seen: dict[KnobRef, Span] = {}
        for member in self.policy.members:
            match member:
                case ast.Doc():
                    if self._once("doc", member.span):
                        ir.doc = member.text.text
                case ast.Timezone():
                    if self._once("timezone", member.span):
                        ir.timezone = read_timezone(member, self.scope.findings)
                case ast.Param():
                    param = read_param(member, self.arguments, self.scope)
                    if param is not None:
                        self.params.append(param)
                case ast.Let():
                    rules.let(member)
                case ast.Block():
                    self._block(member)
                case ast.Class():
                    self._class(member)
                case ast.Binding():
                    binding = rules.binding(member, seen)
                    if binding is not None:
                        self.bindings.append(binding)
                case ast.During() | ast.When():
                    self.rules.append(rules.rule(member))
                case ast.Guard():
                    self.guards.append(rules.rule(member))
                case ast.Each():
                    each = rules.each(member)
                    if each is not None:
                        self.eaches.append(each)
                case ast.Hours():
                    pass  # foreseen
        ir.params, ir.hours, ir.classes = tuple(self.params), tuple(self.hours), tuple(self.classes)
        ir.lets = tuple(rules.lets)
        ir.body = IrBody(tuple(self.bindings), tuple(self.rules), self.policy.span)
        ir.guards, ir.eaches, ir.uses = tuple(self.guards), tuple(self.eaches), self.scope.uses
        ir.arbiter, ir.swap = self.blocks.get("arbitrate"), self.blocks.get("swap")
        ir.admit, ir.failsafe = self.blocks.get("admit"), self.blocks.get("failsafe")
        ir.used_names = frozenset(self.scope.known.used)
        return ir

    def _foresee(self) -> None:
        """Names of classes and hours, the arbiter's mode, and what is defined further below."""
        known, findings = self.scope.known, self.scope.findings
        for member in self.policy.members:
            if isinstance(member, ast.Class):
                if may_be_called(member.name, "class", known, self.scope.uses, findings):
                    name = member.name.text
                    known.define(Entry("class", name, member.name.span, None, name))
            elif isinstance(member, ast.Hours):
                if may_be_called(member.name, "hours", known, self.scope.uses, findings):
                    hours = read_hours(member, findings)
                    read = HoursRead(len(self.hours)) if hours is not None else None
                    self.hours += [hours] if hours is not None else []
                    known.define(Entry("hours", member.name.text, member.name.span, read))
            elif isinstance(member, ast.Block) and member.kind.text == "arbitrate" and self.arbiter is None:
                self.arbiter, self.mode = member, mode_of(member, findings)
        for member in self.policy.members:
            if isinstance(member, ast.Param | ast.Let) and known.get(member.name.text) is None:
                known.later.setdefault(member.name.text, member.name.span)

    def _once(self, word: str, span: Span) -> bool:
        """Is it the first of its kind? Reports otherwise."""
        if word not in self.firsts:
            self.firsts[word] = span
            return True
        self.scope.findings.add(
            "GP305", span, f"a policy has one `{word}` at most", "again", also=((self.firsts[word], "first here"),),
            helps=("leave one of them out",),
        )  # fmt: skip
        return False

    def _block(self, block: ast.Block) -> None:
        kind, findings = block.kind.text, self.scope.findings
        if kind not in POLICY_BLOCKS:
            if kind in self.scope.known.visible("class"):
                knob = block.settings[0].name.text if block.settings else "pause"
                helps = (f"set its knobs one by one: `{kind}.{knob} = …`",)
                findings.add("GP204", block.kind.span, f"`{kind}` is a class, not a block", helps=helps)
            else:
                unknown_block(block, False, findings)
            return
        if not self._once(kind, block.kind.span):
            return
        mode = self.mode if block is self.arbiter else mode_of(block, findings)
        if mode is None:
            return
        self.blocks[kind] = read_block(block, mode, self.scope)
        if kind == "failsafe" and self.mode == "":
            findings.add(
                "GP403", block.kind.span, "`failsafe` has no effect in a policy without `arbitrate`",
                helps=("put it into the policy that arbitrates",),
            )  # fmt: skip
        if self.mode is not None:
            check_together(self.blocks[kind], self.mode, findings)

    def _class(self, job_class: ast.Class) -> None:
        found = read_class(job_class, self.scope, self.mode)
        entry = self.scope.known.get(job_class.name.text)
        if entry is not None and entry.span == job_class.name.span:
            self.classes.append(found)
