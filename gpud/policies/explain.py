"""Why a knob has its value, and what a policy does, in words."""

from collections.abc import Iterator
from typing import Any

from gpud.model.knobs import Explained
from gpud.policies.compile.bases import base_of, knobs_of
from gpud.policies.compile.sites import Place, outer_line, places, rule_text
from gpud.policies.ir import IrBlock, IrPolicy, KnobRef
from gpud.policies.plugins.declare import Actuator, Plugins
from gpud.policies.program import Knobs, Program
from gpud.policies.quantities import show_measured, show_value
from gpud.policies.schema import BLOCKS, KNOBS, MAX_STEPS, UNLIMITED
from gpud.policies.types import Type
from gpud.policies.wording import line_of, quoted

_NO_PLUGINS: Plugins = {}
_MEETS = {"none": "two rules at once are an error"}
_KINDS = {
    "number": Type.NUMBER,
    "ratio": Type.RATIO,
    "duration": Type.DURATION,
    "bytes": Type.BYTES,
    "memory": Type.BYTES,
    "compute": Type.RATIO,
    "bool": Type.BOOL,
}


# ------------------------------------------------------------------------------------------------------- one decision


def explain_knob(program: Program, knob: int, decided: Knobs, snapshot: tuple[Any, ...], state: Any) -> Explained:
    """Why a class's knob has its value: index into `Program.knobs`."""
    return explain_value(program, program.knobs[knob], decided.sites[knob], decided.values[knob], snapshot, state)


def explain_tenant_knob(
    program: Program,
    tenant: int,
    knob: int,
    decided: Knobs,
    snapshot: tuple[Any, ...],
    tenant_values: tuple[Any, ...],
    state: Any,
) -> Explained:
    """The same of what an `each` sets for a tenant: index into `Program.tenant_knobs`. Raises KeyError where it sets
    nothing."""
    for number, values, sites in decided.tenants:
        if number == tenant and values[knob] is not None:
            ref = program.tenant_knobs[knob]
            return explain_value(program, ref, sites[knob], values[knob], snapshot, state, tenant_values)
    raise KeyError(tenant)


def explain_value(
    program: Program,
    knob: KnobRef,
    site_index: int,
    value: Any,
    snapshot: tuple[Any, ...],
    state: Any,
    tenant_values: tuple[Any, ...] = (),
) -> Explained:
    ir, site = program.ir, program.sites[site_index]
    line, rule = site.line, site.text
    if not site_index:
        line, rule = base_line(ir, knob), base_text(ir, knob)
    values = dict(zip(program.signals, snapshot, strict=True))
    values |= dict(zip(program.tenant_signals, tenant_values, strict=False))
    lets = {let.name: (let.value.type, at) for let, at in zip(ir.lets, program.let_values(state), strict=True)}
    inputs = [(signal.text, show_measured(values.get(signal), signal.type)) for signal in site.inputs]
    inputs += [(name, show_measured(lets[name][1], lets[name][0])) for name in site.lets if name in lets]
    return Explained(
        policy=ir.name,
        file=ir.source.name,
        line=line,
        knob=knob.text,
        value=show_knob(knob.name, value),
        rule=rule,
        inside=site.inside,
        because=site.because,
        inputs=tuple(inputs),
    )


def show_knob(knob: str, value: Any) -> str:
    return show_value(value, KNOBS[knob].type if knob in KNOBS else Type.NUMBER)


def base_line(ir: IrPolicy, knob: KnobRef, plugins: Plugins = _NO_PLUGINS) -> int:
    """0: built in."""
    setting = base_of(ir, knob, plugins).setting if knob.name in KNOBS else None
    return line_of(ir, setting.span) if setting is not None else 0


def base_text(ir: IrPolicy, knob: KnobRef, plugins: Plugins = _NO_PLUGINS) -> str:
    """`built-in false`, `line 10  burst(weight = 1)`."""
    if knob.name not in KNOBS:
        actuator = _actuator(knob, plugins)
        return f"built-in {show_value(actuator.default, actuator.type)}" if actuator is not None else "built-in"
    base = base_of(ir, knob, _NO_PLUGINS)
    shown = show_knob(knob.name, base.value)
    return f"built-in {shown}" if base.setting is None else f"line {line_of(ir, base.setting.span)}  {shown}"


# ------------------------------------------------------------------------------------------------------ a whole policy


def explain_policy(program: Program | IrPolicy, plugins: Plugins = _NO_PLUGINS) -> str:
    """What a policy does: who belongs where, what happens in the hook and what in the daemon, what it reads."""
    ir = program.ir if isinstance(program, Program) else program
    parts = [_title(program, plugins), _classes(ir), *_blocks(ir), _rules(ir, plugins), _reads(ir)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _title(program: Program | IrPolicy, plugins: Plugins) -> list[str]:
    if isinstance(program, Program):
        ir, steps = program.ir, program.steps
    else:
        from gpud.policies.check.cost import steps as cost

        ir, steps = program, cost(program, plugins)
    mode = f"arbitrate {ir.mode}" if ir.mode else "only tightens"
    return [f'policy "{ir.name}"   {mode}   cost {steps}/{MAX_STEPS} steps per tick']


def _classes(ir: IrPolicy) -> list[str]:
    lines = ["who belongs where (decided once, at attach; first match wins)"]
    width = max((len(job_class.name) for job_class in ir.classes), default=0)
    for number, job_class in enumerate(ir.classes, 1):
        more = [] if job_class.per == "class" else [f"a unit per {_per(job_class.per)}"]
        rise = job_class.settings.get("rise_after")
        more += [f"one rank up after {show_value(rise.value, Type.DURATION)}"] if rise is not None else []
        match = quoted(ir, job_class.match.span)
        also = f"   ({', '.join(more)})" if more else ""
        lines.append(f"{number:>3}. {job_class.name:<{max(width, 10)}} {match}{also}")
    return lines if ir.classes else []


def _per(per: str) -> str:
    return f'label("{per.removeprefix("label:")}")' if per.startswith("label:") else per


def _blocks(ir: IrPolicy) -> Iterator[list[str]]:
    pairs = [*_settings(ir.arbiter)] if ir.arbiter is not None else []
    if ir.failsafe is not None:
        pairs.append(("failsafe", _failsafe(ir.failsafe)))
    if pairs:
        yield ["in the hook — on every launch; keeps working without the daemon until the lease ends", *_aligned(pairs)]
    limited = [(job_class.name, job_class.limit) for job_class in ir.classes if job_class.limit is not None]
    if limited:
        pairs = [(f"{name}.{setting}", value) for name, limit in limited for setting, value in _settings(limit)]
        yield ["of each tenant and device — decided at attach", *_aligned(pairs)]
    if ir.admit is not None:
        yield ["who may attach", *_aligned(list(_settings(ir.admit)))]
    if ir.swap is not None:
        yield ["where memory goes", *_aligned(list(_settings(ir.swap)))]


def _settings(block: IrBlock) -> Iterator[tuple[str, str]]:
    """Those in force: (name, value). Limits that are not set are left out."""
    for row in BLOCKS[block.kind, block.mode]:
        setting = block.settings.get(row.name)
        if setting is not None:
            yield row.name, _shown(setting.value, row.kind)
        elif row.default not in (None, UNLIMITED):
            yield row.name, _shown(row.default, row.kind)


def _aligned(pairs: list[tuple[str, str]]) -> list[str]:
    width = max(12, *(len(name) for name, _ in pairs)) if pairs else 0
    return [f"  {name:<{width}} = {value}" for name, value in pairs]


def _shown(value: Any, kind: str) -> str:
    if kind == "order":
        ranks = [(rank,) if isinstance(rank, str) else rank for rank in value]
        return f"[{', '.join(rank[0] if len(rank) == 1 else '[' + ', '.join(rank) + ']' for rank in ranks)}]"
    if kind == "tiers":
        return f"[{', '.join(_tier(tier) for tier in value)}]"
    argument = getattr(value, "argument", None)
    if argument is not None:
        return f"{value.word}({_shown(argument, _argument_kind(kind, value.word))})"
    word = getattr(value, "word", None)
    if word is not None:
        return str(word)
    if hasattr(value, "key"):
        given = "" if value.default is None else f", default = {_shown(value.default, kind)}"
        return f'label_{value.kind}("{value.key}"{given})'
    return show_value(value, _KINDS.get(kind, Type.CHOICE))


def _argument_kind(kind: str, word: str) -> str:
    """`fail|wait(duration)`, `wait` → `duration`."""
    for alternative in kind.split("|"):
        name, _, rest = alternative.partition("(")
        if name == word:
            return rest.removesuffix(")")
    return "ratio"


def _tier(tier: Any) -> str:
    most = show_value(tier.max_bytes, Type.BYTES)
    return f'disk(path = "{tier.path}", max = {most})' if tier.kind == "disk" else f"{tier.kind}(max = {most})"


def _failsafe(block: IrBlock) -> str:
    given = dict(_settings(block))
    opens = given["daemon_lost"] == "hold" and given["after"] != "unlimited"
    return f"{given['daemon_lost']}, after {given['after']} open" if opens else given["daemon_lost"]


def _rules(ir: IrPolicy, plugins: Plugins) -> list[str]:
    found: dict[KnobRef, list[Place]] = {}
    listed = list(places(ir))
    for place in sorted(listed, key=lambda place: place.binding.span.start):
        found.setdefault(place.binding.knob, [])
    for place in listed:
        found[place.binding.knob].append(place)
    if not found:
        return []
    lines = ["in the daemon — every 5 ms, or earlier when an input flips"]
    known = set(knobs_of(ir))
    for knob, writers in found.items():
        lines.append(f"  {knob.text}   ({_about(knob, plugins)})")
        lines += [f"    {_writer(ir, place)}" for place in writers]
        if knob in known:
            lines.append(f"    base     {base_text(ir, knob, plugins)}")
    return lines


def _about(knob: KnobRef, plugins: Plugins) -> str:
    if knob.name in KNOBS:
        row = KNOBS[knob.name]
        return f"{row.doc}; {_MEETS.get(row.combine, f'siblings combine by {row.combine}')}"
    found = _actuator(knob, plugins)
    about = found.doc if found is not None and found.doc else f"of the plugin {knob.name.partition('.')[0]}"
    return f"{about}; siblings combine by {found.combine}" if found is not None else about


def _actuator(knob: KnobRef, plugins: Plugins) -> Actuator | None:
    plugin, _, name = knob.name.partition(".")
    return next((one for one in plugins[plugin].actuators if one.name == name), None) if plugin in plugins else None


def _writer(ir: IrPolicy, place: Place) -> str:
    """`line 22  when serving.busy < 20% for 10min, inside line 19`"""
    text = f"line {line_of(ir, place.binding.span)}  {rule_text(ir, place)}"
    if len(place.path) < 2:
        return text
    outer = outer_line(ir, place, len(place.path) - 1)
    if outer is not None:
        return f"{text}, inside line {outer}"
    return f"{text}, inside the rule of line {line_of(ir, place.path[-2].rule.span)}"


def _reads(ir: IrPolicy) -> list[str]:
    from gpud.policies.compile.generate import signals_of

    found = dict.fromkeys(signal.text for group in signals_of(ir) for signal in group if signal.name != "class")
    return [f"reads: {', '.join(found)}"] if found else []
