"""`apply` lines → which policies each device has."""

import re
from collections.abc import Mapping, Sequence

from gpud.policies import ast
from gpud.policies.check.effect import never_tightened
from gpud.policies.check.walk import all_writers, head_of
from gpud.policies.claimed import Claims
from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.ir import IrPolicy
from gpud.policies.library import Library, names_of
from gpud.policies.placement import NOTHING, Applied, DeviceFacts, Placement, Stack
from gpud.policies.plugins.declare import Plugins
from gpud.policies.resolve import resolve_policy
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.resolve.nearest import did_you_mean
from gpud.policies.schema import KNOBS, MODES
from gpud.policies.source import Source, Span

BUILT_IN = "preempt-mix"
"""What every device has where nothing says what to apply."""
FLAG = "--policy"


def place(
    library: Library,
    devices: Sequence[DeviceFacts] | None,
    plugins: Plugins,
    default: str | None = None,
    known: Mapping[str, IrPolicy] | None = None,
    flag: str = FLAG,
) -> tuple[Placement, list[Diagnostic]]:
    """What the `apply` lines say; where there are none, BUILT_IN on every device, if the library has it. `devices`: in
    PCI order; None: not known, so that nothing is said about absent ones. `default`: what `gpud serve --policy` names,
    `preempt-mix(quiet = 1ms), quotas`: for every device, in place of the lines; `flag`: what findings call it.
    `known`: policies that have been resolved, without arguments, and what is wrong with them been said."""
    found: list[Diagnostic] = []
    if default is not None:
        source, applies = _of_flag(default, flag, found)
        lines = [(apply, source) for apply in applies]
    else:
        lines = [(apply, file.source) for apply, file in library.applies]
    if not lines:
        every = _built_in(library, plugins, known or {}, found) if default is None else NOTHING
        return Placement(every=every, devices=tuple(devices or ())), found
    claims = Claims(devices)
    for apply, source in lines:
        findings = Findings(source)
        stack = _stack(library, apply, plugins, known or {}, findings)
        claims.add(apply, stack, findings)
        found += findings.found
    placement = claims.placement()
    return placement, found + _under_mps(placement)


def _under_mps(placement: Placement) -> list[Diagnostic]:
    """Turns on devices that are used through MPS."""
    found: list[Diagnostic] = []
    for device, stack in placement.stacks:
        policy = stack.arbiter.policy if stack.arbiter is not None else None
        if device.mps and policy is not None and policy.arbiter is not None and policy.mode == "exclusive":
            label = Label(policy.source, head_of(policy.source, policy.arbiter.span), "no turns there")
            message = f"`{policy.name}` takes turns on device {device.index} ({device.uuid}), which is used through MPS"
            helps = (
                "end the MPS server first: echo quit | nvidia-cuda-mps-control",
                "or apply a policy with another arbiter to this device",
            )
            found.append(Diagnostic("GP315", message, label, helps=helps))
    return found


def nowhere(library: Library) -> list[Diagnostic]:
    """Of a set without errors that no line applies, and that lacks BUILT_IN. A daemon without FLAG rejects it."""
    for file in library.files:
        for policy in file.policies:
            helps = (
                f'write a file site.gpol: `gpol 1`, then a line `apply "{policy.name.text}" to gpu *`',
                f"or start the daemon with {FLAG} {policy.name.text}",
            )
            label = Label(file.source, policy.name.span, "this one, for example")
            return [Diagnostic("GP314", "no `apply` line says on which devices policies run", label, helps=helps)]
    return []


def _built_in(library: Library, plugins: Plugins, known: Mapping[str, IrPolicy], found: list[Diagnostic]) -> Stack:
    """What is wrong with it is said where it stands."""
    if BUILT_IN not in library.policies:
        return NOTHING
    resolved, problems = known.get(BUILT_IN), list[Diagnostic]()
    if resolved is None:
        resolved, problems = resolve_policy(*library.policies[BUILT_IN], (), plugins)
    found += problems
    return Stack((Applied(resolved),)) if resolved is not None else NOTHING


def _stack(
    library: Library, apply: ast.Apply, plugins: Plugins, known: Mapping[str, IrPolicy], findings: Findings
) -> Stack:
    """The policies of one line that could be made out."""
    applied: list[Applied] = []
    names: dict[str, Span] = {}
    arbiter: ast.Applied | None = None
    complete = True
    for item in apply.policies:
        name = item.policy.text
        if name not in library.policies:
            if name not in library.broken:
                helps = did_you_mean(name, library.policies) or names_of(library)
                findings.add("GP201", item.policy.span, f"no policy is called `{name}`", helps=helps)
            complete = False
            continue
        resolved = known.get(name) if not item.args else None
        if resolved is None:
            policy, file = library.policies[name]
            resolved, problems = resolve_policy(policy, file, item.args, plugins, argument_source=findings.source)
            findings.found += problems
        if name in names:
            findings.add(
                "GP310", item.policy.span, f"`{name}` is applied twice to the same devices", "again",
                also=[(names[name], "here already")], helps=["leave one of the two out"],
            )  # fmt: skip
            continue
        names[name] = item.policy.span
        if resolved is None:
            complete = False
            continue
        if resolved.arbiter is not None and arbiter is not None:
            _two_arbiters(findings, arbiter, item)
            complete = False
            continue
        arbiter = item if resolved.arbiter is not None else arbiter
        applied.append(Applied(resolved, _arguments(resolved, item)))
    stack = Stack(tuple(applied))
    if complete:
        _check_effect(stack, names, findings)
    return stack


def _check_effect(stack: Stack, names: Mapping[str, Span], findings: Findings) -> None:
    """A policy that only tightens does not know beside which arbiter it will stand; here it is known."""
    mode = stack.arbiter.policy.mode if stack.arbiter is not None else "open"
    for one in stack.policies:
        if one is stack.arbiter:
            continue
        said = set(never_tightened(one.policy))  # check_effect has said it of those
        for writer in all_writers(one.policy):
            knob = writer.binding.knob
            if knob.name not in KNOBS or mode in KNOBS[knob.name].modes or knob.text in said:
                continue
            said.add(knob.text)
            modes = alternatives((f"arbitrate {word}" for word in MODES if word in KNOBS[knob.name].modes), "and")
            label = Label(findings.source, names[one.policy.name], "applied here")
            there = Label(one.policy.source, writer.binding.target_span, "without effect")
            message = f"`{knob.text}` of `{one.policy.name}` has no effect under `arbitrate {mode}`"
            helps = (f"`{knob.name}` acts under {modes}",)
            findings.found.append(Diagnostic("GP403", message, label, labels=(there,), helps=helps))


def _two_arbiters(findings: Findings, first: ast.Applied, item: ast.Applied) -> None:
    findings.add(
        "GP310",
        item.policy.span,
        f"both `{first.policy.text}` and `{item.policy.text}` arbitrate",
        "the second arbiter",
        also=[(first.policy.span, "the first")],
        helps=["a device has one policy with `arbitrate`: apply the other one to other devices"],
    )


def _arguments(policy: IrPolicy, item: ast.Applied) -> tuple[tuple[str, object], ...]:
    given = {arg.name.text for arg in item.args if arg.name is not None}
    return tuple(sorted((param.name, param.value) for param in policy.params if param.name in given))


# -------------------------------------------------------------------------------------------------------- of the flag

_NAME = re.compile(r"^\s*([A-Za-z_][\w-]*)")


def _of_flag(text: str, flag: str, found: list[Diagnostic]) -> tuple[Source, tuple[ast.Apply, ...]]:
    """Reads `preempt-mix(quiet = 1ms), quotas` as a line `apply … to gpu *`, which is what findings show."""
    from gpud.policies.parse import parse

    source = Source(flag, f"gpol 1\napply {quoted(text)} to gpu *\n")
    if not text.strip():
        label = Label(source, Span(7, 12))
        found.append(Diagnostic("GP101", f"`{flag}` names no policy", label, helps=(f"write {flag} {BUILT_IN}",)))
        return source, ()
    file, problems = parse(source)
    found += problems
    return source, file.applies if file is not None else ()


def quoted(text: str) -> str:
    """Names of policies in quotes: at the beginning, and after each comma outside parentheses."""
    parts, depth, start, inside = list[str](), 0, 0, False
    for at, char in enumerate(text):
        if char == '"':
            inside = not inside
        elif not inside:
            depth += (char in "([") - (char in ")]")
            if char == "," and depth == 0:
                parts.append(text[start:at])
                start = at + 1
    parts.append(text[start:])
    return ", ".join(_NAME.sub(r'"\1"', part, count=1) for part in parts)
