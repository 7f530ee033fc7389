"""The scope of policies: what a name is worth where it stands."""

from collections.abc import Iterator, Mapping

from attrs import define, evolve, field

from gpud.policies import ast
from gpud.policies.ir import Const, HoursRead, IrExpr, IrPolicy, LetRead, Read, SignalRef, TenantRead
from gpud.policies.plugins.declare import Actuator, Plugin, Plugins
from gpud.policies.resolve import phases
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.resolve.names import Entry, Names
from gpud.policies.resolve.scope import CONDITION, Place
from gpud.policies.schema import CONSTRUCTORS, KNOBS, OPERATORS, PURE_FUNCTIONS, SIGNALS, TENANT_FIELDS, Knob
from gpud.policies.types import Type
from gpud.policies.values import EQUAL, RESIDENCIES


@define
class PolicyScope:
    """Names of one policy, seen from one place of it."""

    findings: Findings
    place: Place
    known: Names
    plugins: Plugins
    uses: tuple[str, ...] = ()
    """Plugins that the file uses and that are there."""
    missing: tuple[str, ...] = ()
    """Those it uses that are not: reported once, at the `use`."""
    owner: str = ""
    """The let or knob whose value this is: operators are identified by it."""
    counts: dict[str, int] = field(factory=dict)
    """Operators so far, by owner and name."""

    def at(self, place: Place) -> "PolicyScope":
        return evolve(self, place=place)

    def owned_by(self, owner: str) -> "PolicyScope":
        return evolve(self, owner=owner)

    def names(self) -> Iterator[str]:
        yield from self.known.visible()
        if self.place.facts:
            yield from TENANT_FIELDS

    def identity(self, operator: str) -> str:
        key = f"{self.owner}/{operator}"
        number = self.counts[key] = self.counts.get(key, 0) + 1
        return f"{key}#{number}"

    # ------------------------------------------------------------------------------------------------ one word

    def read(self, ref: ast.Ref, want: Type | None = None) -> IrExpr | None:
        """What a name is worth; reports otherwise. Knobs go to `read_knob`."""
        first = ref.parts[0]
        if len(ref.parts) > 1:
            return self._read_parts(ref)
        entry = self.known.use(first.text)
        if entry is not None:
            return self._entry(entry, ref)
        refused = first.text in self.known.refused
        if first.text in TENANT_FIELDS:
            if self.place.facts:
                return TenantRead(first.text, "", ref.span)
            if refused:
                return None
            phases.report_fact(self.findings, self.place, ref.span, first.text)
        elif refused and want not in (Type.RESIDENCY, Type.SHARE):
            return None  # whoever chose the name means what it was to stand for
        elif first.text == "equal":
            return Const(EQUAL, Type.SHARE, ref.span)
        elif first.text in RESIDENCIES:
            return Const(first.text, Type.RESIDENCY, ref.span)
        else:
            self._unknown_word(first, want)
        return None

    def _entry(self, entry: Entry, ref: ast.Ref) -> IrExpr | None:
        if entry.kind in ("class", "alias"):
            what = "a class" if entry.kind == "class" else "a tenant"
            self.findings.add(
                "GP202", ref.span, f"`{entry.name}` is {what}, not a value", what,
                helps=(f"name one of its signals: `{entry.name}.active`",),
            )  # fmt: skip
            return None
        if entry.value is None:
            return None  # reported where it is defined
        if entry.kind in ("let", "hours") and not self.place.live:
            phases.report_live(self.findings, self.place, ref)
            return None
        if entry.origin is not None:
            self.findings.origins[ref.span] = entry.origin
        return entry.value.but(span=ref.span)

    def _unknown_word(self, name: ast.Name, want: Type | None) -> None:
        word = name.text
        if defined_elsewhere(self, name):
            return
        helps: tuple[str, ...]
        if want is Type.RESIDENCY:
            helps = (f"write {alternatives(RESIDENCIES)}",)
        elif word in ("gpu", "host", "world"):
            helps = (f"name one of its signals: `{word}.memory_free`",)
        elif word == "any":
            helps = ("`any` stands alone: `match any`",)
        elif any(signal == word for _, signal in SIGNALS) or word in KNOBS:
            classes = [*self.known.visible("alias"), *self.known.visible("class")]
            helps = (f"say of which class: `{classes[0] if classes else 'gpu'}.{word}`",)
        elif word in _BOOLS:
            helps = (f"write {_BOOLS[word]}",)
        elif word in CONSTRUCTORS or word in OPERATORS or word in PURE_FUNCTIONS:
            helps = (f"`{word}` is a function: write {word}(…)",)
        elif self.place.kind == "match" and word in _EVERYBODY:
            helps = ("`match any` takes every job",)
        else:
            helps = self.findings.did_you_mean(word, self.names())
            if want is Type.TEXT and not helps:
                helps = (f'a text stands in quotes: "{word}"',)
            elif self.place.kind == "match" and not helps:
                helps = (f'a label is read with label("{word}")',)
        self.findings.add("GP201", name.span, f"nothing is called `{word}` here", helps=helps)

    # ------------------------------------------------------------------------------------------- words with dots

    def _read_parts(self, ref: ast.Ref) -> IrExpr | None:
        first, name = ref.parts[0], ref.parts[1]
        entry = None
        if first.text in ("gpu", "host"):
            scope = first.text
        else:
            scope, entry = "class", self.known.use(first.text)
            if entry is None and first.text == "label":
                self._label_with_dot(ref)
                return None
            if entry is None:
                unknown_owner(self, first)
                return None
            if entry.kind not in ("class", "alias"):
                self.findings.add(
                    "GP201", name.span, f"`{first.text}` has no parts: it is {_KIND[entry.kind]}",
                    helps=(f"write `{first.text}` alone",),
                )  # fmt: skip
                return None
            if not entry.job_class:
                return None
        of_tenant = entry is not None and entry.kind == "alias"
        job_class = entry.job_class if entry is not None else ""
        if len(ref.parts) > 2:
            return self._plugin_signal(ref, scope, job_class, of_tenant)
        signal = SIGNALS.get((scope, name.text))
        if signal is None:
            if scope == "class" and name.text in KNOBS:
                return self.read_knob(ref, job_class, KNOBS[name.text])
            self._unknown_signal(ref, scope)
            return None
        if not self.place.live:
            phases.report_live(self.findings, self.place, ref)
            return None
        if of_tenant and not signal.of_tenant:
            alone = job_class
            self.findings.add(
                "GP405", ref.span, f"`{name.text}` is measured of a class, not of one tenant",
                "not known of one tenant", helps=(f"write `{alone}.{name.text}`",),
            )  # fmt: skip
            return None
        return Read(SignalRef(scope, job_class, name.text, signal.type, of_tenant), ref.span)

    def _label_with_dot(self, ref: ast.Ref) -> None:
        """`match label.tier == "online"`"""
        key = ".".join(part.text for part in ref.parts[1:])
        if not self.place.facts:
            phases.report_fact(self.findings, self.place, ref.span, "label")
            return
        self.findings.add("GP201", ref.span, "`label` has no parts", helps=(f'write `label("{key}")`',))

    def read_knob(self, ref: ast.Ref, job_class: str, knob: Knob) -> IrExpr | None:
        """A knob where a value is expected: an error in policies, readable in tests."""
        phases.report_knob_read(self.findings, ref, knob.name)
        return None

    def _unknown_signal(self, ref: ast.Ref, scope: str) -> None:
        first, name = ref.parts[0], ref.parts[1]
        if name.text in self.missing:
            return
        if name.text in self.plugins and name.text in self.uses:
            signals = [signal.name for signal in self.plugins[name.text].signals]
            self.findings.add(
                "GP201", name.span, f"`{name.text}` is a plugin, not a signal",
                helps=(f"its signals are {alternatives(signals, 'and')}",) if signals else (),
            )  # fmt: skip
            return
        if scope != "class" and first.text in self.known.refused:
            return
        names = [other for of, other in SIGNALS if of == scope]
        owners = [of for of, other in SIGNALS if other == name.text and of != "class"]
        helps = self.findings.did_you_mean(name.text, [*names, *(KNOBS if scope == "class" else ())])
        if owners and owners[0] != scope:
            helps = (f"did you mean `{owners[0]}.{name.text}`?",)
        elif ref.text == "gpu.memory_used":
            helps = ("write gpu.memory_total - gpu.memory_free",)
        elif ("class", name.text) in SIGNALS or (scope != "class" and name.text in KNOBS):
            helps = (f"a class has it: `{next(self.known.visible('class'), 'class')}.{name.text}`",)
        elif not helps:
            helps = (f"its signals are {alternatives(names, 'and')}",)
        self.findings.add("GP201", name.span, f"`{first.text}` has no signal `{name.text}`", helps=helps)

    # --------------------------------------------------------------------------------------------------- plugins

    def plugin(self, name: ast.Name) -> Plugin | None:
        """A plugin that this file uses; reports otherwise."""
        if name.text in self.missing:
            return None
        if name.text in self.uses:
            return self.plugins[name.text]
        phases.report_plugin(self.findings, name, self.plugins)
        return None

    def _plugin_signal(self, ref: ast.Ref, scope: str, job_class: str, of_tenant: bool) -> IrExpr | None:
        owner, plugin_name, name = ref.parts[0], ref.parts[1], ref.parts[2]
        if (scope, plugin_name.text) in SIGNALS or plugin_name.text in KNOBS:
            self.findings.add(
                "GP201", name.span, f"`{owner.text}.{plugin_name.text}` has no parts",
                helps=(f"write `{owner.text}.{plugin_name.text}`",),
            )  # fmt: skip
            return None
        if plugin_name.text in ("gpu", "host") or self.known.get(plugin_name.text) is not None:
            self.findings.add(
                "GP201", plugin_name.span, f"`{plugin_name.text}` does not belong to `{owner.text}`",
                helps=(f"write `{'.'.join(part.text for part in ref.parts[1:])}`",),
            )  # fmt: skip
            return None
        plugin = self.plugin(plugin_name)
        if plugin is None:
            return None
        if len(ref.parts) > 3:
            self.findings.add(
                "GP201", ref.parts[3].span, f"`{'.'.join(part.text for part in ref.parts[:3])}` has no parts"
            )
            return None
        for signal in plugin.signals:
            if signal.name == name.text and signal.scope == scope:
                break
        else:
            return self._no_plugin_signal(ref, plugin, scope)
        if not self.place.live:
            phases.report_live(self.findings, self.place, ref)
            return None
        if of_tenant:
            self.findings.add(
                "GP405", ref.span, f"`{ref.parts[1].text}` measures classes, not one tenant", "not known of one tenant",
                helps=(f"write `{job_class}.{plugin.name}.{name.text}`",),
            )  # fmt: skip
            return None
        return Read(SignalRef(scope, job_class, f"{plugin.name}.{name.text}", signal.type), ref.span)

    def _no_plugin_signal(self, ref: ast.Ref, plugin: Plugin, scope: str) -> IrExpr | None:
        name = ref.parts[2]
        for actuator in plugin.actuators:
            if actuator.name == name.text and scope == "class":
                return self.read_actuator(ref, plugin, actuator)
        here = [signal.name for signal in plugin.signals if signal.scope == scope]
        helps = self.findings.did_you_mean(name.text, here)
        for signal in plugin.signals:
            if signal.name == name.text:
                owner = "gpu" if signal.scope == "gpu" else next(self.known.visible("class"), "class")
                helps = (f"write `{owner}.{plugin.name}.{name.text}`",)
        if not helps and here:
            helps = (f"its signals are {alternatives(here, 'and')}",)
        self.findings.add("GP201", name.span, f"`{plugin.name}` has no signal `{name.text}`", helps=helps)
        return None

    def read_actuator(self, ref: ast.Ref, plugin: Plugin, actuator: Actuator) -> IrExpr | None:
        """As `read_knob`, of a plugin's knob."""
        phases.report_knob_read(self.findings, ref, actuator.name)
        return None


_EVERYBODY = ("all", "everyone", "everybody", "everything", "others", "default")
_BOOLS = {"yes": "true", "on": "true", "no": "false", "off": "false", "none": "unlimited", "inf": "unlimited"}
_KIND = {"param": "a param", "let": "a let", "hours": "the name of hours"}


def defined_elsewhere(scope: PolicyScope, name: ast.Name) -> bool:
    """Is a name that cannot be seen here defined below, or in a block that has ended? Reports it then. Is it none that
    can be used? That is reported."""
    known, word = scope.known, name.text
    if word in known.refused:
        return True
    if word in known.later:
        text, span, helped = f"`{word}` is used above its definition", known.later[word], "move the definition up"
    elif word in known.closed:
        text, span = f"`{word}` ends with the block that defines it", known.closed[word].span
        helped = "define it above, where both places see it, or move this into that block"
        if known.closed[word].kind == "alias":
            helped = "a rule about one tenant stands inside of `each`"
    else:
        return False
    scope.findings.add("GP201", name.span, text, "used here", also=((span, "defined here"),), helps=(helped,))
    return True


def unknown_owner(scope: PolicyScope, name: ast.Name) -> None:
    """The part before the first dot names nothing."""
    if defined_elsewhere(scope, name):
        return
    if name.text in scope.plugins or name.text in scope.missing:
        if name.text in scope.missing:
            return
        owner = next(scope.known.visible("class"), "class")
        helps: tuple[str, ...] = (f"a plugin's signals belong to a class or the gpu: `{owner}.{name.text}.…`",)
    else:
        helps = scope.findings.did_you_mean(name.text, ("gpu", "host"))
        helps = helps or scope.findings.one_of(name.text, scope.known.visible("class", "alias"))
    scope.findings.add("GP201", name.span, f"nothing is called `{name.text}` here", helps=helps)


def scope_of(ir: IrPolicy, findings: Findings, plugins: Mapping[str, Plugin]) -> PolicyScope:
    """A resolved policy's names as a condition of it sees them; tests extend it. Lets of inner blocks are there too,
    unless an outer one has the same name. Spans of the names refer to `ir.source`."""
    known = Names()
    for job_class in ir.classes:
        known.define(Entry("class", job_class.name, job_class.name_span, None, job_class.name))
    for param in ir.params:
        known.define(Entry("param", param.name, param.span, Const(param.value, param.type)))
    for index, hours in enumerate(ir.hours):
        known.define(Entry("hours", hours.name, hours.span, HoursRead(index)))
    depths: dict[str, int] = {}
    for index, let in enumerate(ir.lets):
        if let.depth < depths.get(let.name, let.depth + 1):
            known.define(Entry("let", let.name, let.name_span, LetRead(index, let.name, let.value.type)))
            depths[let.name] = let.depth
    uses = tuple(name for name in ir.uses if name in plugins)
    return PolicyScope(findings, CONDITION, known, plugins, uses)
