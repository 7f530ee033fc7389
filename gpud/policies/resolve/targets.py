"""What a binding writes: knobs of classes, and whether they can be set where it stands."""

from typing import NamedTuple

from gpud.policies import ast
from gpud.policies.ir import Const, KnobRef
from gpud.policies.plugins.declare import Plugin
from gpud.policies.resolve.classes import report_share
from gpud.policies.resolve.findings import alternatives
from gpud.policies.resolve.nearest import nearest
from gpud.policies.resolve.phases import report_signal_set
from gpud.policies.resolve.reading import PolicyScope, unknown_owner
from gpud.policies.schema import BLOCKS, KNOBS, SIGNALS, Range
from gpud.policies.types import CAPS, Type
from gpud.policies.values import RESIDENCIES


class Surroundings(NamedTuple):
    """Of a binding."""

    mode: str | None
    """The policy's arbiter: "" for none, None for one that is not right."""
    in_guard: bool = False
    alias: str = ""
    """Of the enclosing `each`."""


class Target(NamedTuple):
    """A knob that can be set."""

    ref: KnobRef
    type: Type
    combine: str
    range: Range
    wrong: bool = False
    """It cannot be set here, which is reported; its value is looked at all the same."""

    @property
    def unlimited(self) -> bool:
        return self.type in CAPS and self.combine == "min"

    def loosens(self, value: Const) -> bool:
        """Is that value the loosest there is? A guard with it does nothing."""
        loosest = {"any": False, "all": True, "min": float("inf"), "furthest": RESIDENCIES[0]}.get(self.combine)
        return loosest is not None and value.value == loosest


def read_target(ref: ast.Ref, scope: PolicyScope, around: Surroundings) -> Target | None:
    """None: reported."""
    first = ref.parts[0]
    if len(ref.parts) == 1:
        _report_word(ref, scope, around)
        return None
    if first.text in ("gpu", "host"):
        if first.text not in scope.known.refused:
            _report_device(ref, scope)
        return None
    entry = scope.known.use(first.text)
    if entry is None:
        unknown_owner(scope, first)
        return None
    if entry.kind not in ("class", "alias"):
        scope.findings.add(
            "GP201", ref.span, f"`{first.text}` is no class; only classes have knobs",
            helps=scope.findings.did_you_mean(first.text, scope.known.visible("class", "alias")),
        )  # fmt: skip
        return None
    if not entry.job_class:
        return None
    if len(ref.parts) > 2:
        return _actuator(ref, entry.job_class, scope, around)
    knob = KNOBS.get(ref.parts[1].text)
    if knob is None:
        _report_no_knob(ref, scope)
        return None
    found = Target(KnobRef(entry.job_class, knob.name), knob.type, knob.combine, knob.range)
    if around.alias and not _fits_each(ref, entry.kind, knob.in_each, knob.holds, scope, around):
        return found._replace(wrong=True)
    return found if _has_effect(ref, scope, around) else found._replace(wrong=True)


def _has_effect(ref: ast.Ref, scope: PolicyScope, around: Surroundings) -> bool:
    knob = KNOBS[ref.parts[1].text]
    if knob.name == "share" and around.mode == "":
        report_share(scope, ref)
        return False
    if knob.name == "share" and around.in_guard:
        scope.findings.add(
            "GP308", ref.span, "a guard cannot set `share`: which of two shares is tighter has no answer",
            helps=("set `max_compute` or `pause` in the guard, and `share` in a `when` rule",),
        )  # fmt: skip
        return False
    if around.mode and around.mode not in knob.modes:
        modes = (f"arbitrate {mode}" for mode in sorted(knob.modes))
        scope.findings.add(
            "GP403", ref.span, f"`{knob.name}` has no effect under `arbitrate {around.mode}`", "without effect",
            helps=(f"it acts under {alternatives(modes, 'and')}", _instead_of(knob.name, around.mode, ref)),
        )  # fmt: skip
        return False
    return True


def _instead_of(knob: str, mode: str, ref: ast.Ref) -> str:
    owner = ref.parts[0].text
    if knob == "share":
        return f"to cap it here, set `{owner}.max_compute`"
    if knob == "max_hold":
        return f"to hold it here, set `{owner}.pause`"
    return ""


def _fits_each(ref: ast.Ref, kind: str, in_each: bool, holds: str, scope: PolicyScope, around: Surroundings) -> bool:
    """In `each`, only knobs of the one tenant are set."""
    name = ref.parts[-1].text
    if kind != "alias":
        scope.findings.add(
            "GP405", ref.span, f"a rule about one tenant sets knobs of `{around.alias}` only",
            helps=(f"set `{ref.text}` in a rule outside of `each`",),
        )  # fmt: skip
    elif not in_each:
        per = {"class": "a whole class", "unit": "what shares together", "new": "tenants to come"}.get(holds, holds)
        tenant_knobs = [f"{around.alias}.{knob.name}" for knob in KNOBS.values() if knob.in_each]
        scope.findings.add(
            "GP405", ref.span, f"`{name}` holds for {per}, not for one tenant",
            helps=(f"in `each` you can set {alternatives(tenant_knobs, 'and')}",),
        )  # fmt: skip
    else:
        return True
    return False


# ----------------------------------------------------------------------------------------------- what is no knob


def _report_word(ref: ast.Ref, scope: PolicyScope, around: Surroundings) -> None:
    """`quiet = 5ms`, `max_pause = 2s`, `pause = true`."""
    word = ref.text
    entry = scope.known.get(word)
    homes = [f"{kind} {mode}".strip() for (kind, mode), rows in BLOCKS.items() if any(row.name == word for row in rows)]
    if entry is not None and entry.kind in ("let", "param", "hours"):
        helps: tuple[str, ...] = ("give the second value another name",)
        if entry.kind == "param":
            helps = ("`apply` can set it; here, define a `let`",)
        scope.findings.add(
            "GP205", ref.span, f"`{word}` has a value already", "set again", also=((entry.span, "defined here"),),
            helps=helps,
        )  # fmt: skip
        return
    if word in scope.known.refused:
        return
    if entry is not None:
        helps = (f"write `{word}.max_compute = …`, for example",)
        scope.findings.add("GP201", ref.span, f"`{word}` is a class, not a knob", helps=helps)
        return
    owner = around.alias or next(scope.known.visible("class"), "class")
    if word in KNOBS:
        helps = (f"say of which class: `{owner}.{word} = …`",)
        if homes:
            helps += (f"or put it into {alternatives(homes)}",)
    elif homes:
        helps = (f"`{word}` is a setting of {alternatives(homes, 'and')}: put it there",)
    elif any(name == word for _, name in SIGNALS):
        report_signal_set(scope.findings, ref, word, owner)
        return
    else:
        guess = nearest(word, KNOBS)
        helps = (f"did you mean `{owner}.{guess}`?",) if guess else (f"to give a value a name, write `let {word} = …`",)
    scope.findings.add("GP201", ref.span, f"nothing is called `{word}` here", helps=helps)


def _report_device(ref: ast.Ref, scope: PolicyScope) -> None:
    """`gpu.busy = …`, `gpu.pause = …`."""
    first, name = ref.parts[0], ref.parts[1]
    if (first.text, name.text) in SIGNALS:
        report_signal_set(scope.findings, ref, name.text, "")
        return
    owner = next(scope.known.visible("class"), "class")
    helps = (f"knobs belong to classes: `{owner}.{name.text if name.text in KNOBS else 'max_compute'} = …`",)
    scope.findings.add("GP201", name.span, f"`{first.text}` has no knob `{name.text}`", helps=helps)


def _report_no_knob(ref: ast.Ref, scope: PolicyScope) -> None:
    owner, name = ref.parts
    if ("class", name.text) in SIGNALS:
        report_signal_set(scope.findings, ref, name.text, owner.text)
        return
    helps = scope.findings.did_you_mean(name.text, KNOBS)
    if not helps and name.text in scope.uses:
        knobs = [f"{owner.text}.{name.text}.{actuator.name}" for actuator in scope.plugins[name.text].actuators]
        helps = (f"its knobs are {alternatives(knobs, 'and')}",) if knobs else ("this plugin has no knobs",)
    elif not helps:
        homes = [
            f"{kind} {mode}".strip() for (kind, mode), rows in BLOCKS.items() if any(r.name == name.text for r in rows)
        ]
        if homes:
            helps = (f"`{name.text}` is a setting of {alternatives(homes, 'and')}",)
        elif f"max_{name.text}" in KNOBS:
            helps = (f"the knob is `{owner.text}.max_{name.text}`",)
        else:
            helps = (f"knobs are {alternatives(KNOBS, 'and')}",)
    scope.findings.add("GP201", name.span, f"`{owner.text}` has no knob `{name.text}`", helps=helps)


def _actuator(ref: ast.Ref, job_class: str, scope: PolicyScope, around: Surroundings) -> Target | None:
    """`training.vllm.batch = 4`"""
    plugin_name, name = ref.parts[1], ref.parts[2]
    if plugin_name.text in KNOBS or ("class", plugin_name.text) in SIGNALS:
        owner = ref.parts[0].text
        scope.findings.add(
            "GP201", name.span, f"`{owner}.{plugin_name.text}` has no parts",
            helps=(f"write `{owner}.{plugin_name.text}`",) if plugin_name.text in KNOBS else (),
        )  # fmt: skip
        return None
    if scope.known.get(plugin_name.text) is not None:
        rest = ".".join(part.text for part in ref.parts[1:])
        message = f"`{plugin_name.text}` does not belong to `{ref.parts[0].text}`"
        scope.findings.add("GP201", plugin_name.span, message, helps=(f"write `{rest}`",))
        return None
    plugin = scope.plugin(plugin_name)
    if plugin is None:
        return None
    actuator = next((actuator for actuator in plugin.actuators if actuator.name == name.text), None)
    if actuator is None or len(ref.parts) > 3:
        _report_no_actuator(ref, plugin, scope)
        return None
    found = Target(
        KnobRef(job_class, f"{plugin.name}.{name.text}"), actuator.type, actuator.combine, Range(-float("inf"))
    )
    if around.alias:
        _fits_each(ref, "alias" if ref.parts[0].text == around.alias else "class", False, "class", scope, around)
        return found._replace(wrong=True)
    return found


def _report_no_actuator(ref: ast.Ref, plugin: Plugin, scope: PolicyScope) -> None:
    name = ref.parts[2]
    if any(signal.name == name.text for signal in plugin.signals):
        report_signal_set(scope.findings, ref, name.text, "")
        return
    knobs = [actuator.name for actuator in plugin.actuators]
    there = (f"it has {alternatives(knobs, 'and')}",) if knobs else ("it has none",)
    helps = scope.findings.did_you_mean(name.text, knobs) or there
    scope.findings.add("GP201", name.span, f"`{plugin.name}` has no knob `{name.text}`", helps=helps)
