"""What of a policy the running version enforces. GP404 names everything that would be without effect, so nothing a
policy says ever is, silently.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from gpud.policies.check.walk import all_writers, expressions, head_of, parts
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.ir import Const, IrBlock, IrPolicy, Read, TenantRead
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.schema import BLOCKS, CLASS_SETTINGS, KNOBS, MODES, SIGNALS, TENANT_FIELDS
from gpud.policies.source import Span

_MOST_PLACES = 3
"""Places shown of one knob or signal."""


@frozen(kw_only=True)
class Enforced:
    """What a version can do. What is not in it is refused by name."""

    arbiters: frozenset[str]
    """`preempt`."""
    knobs: frozenset[str]
    """`pause`."""
    settings: Mapping[tuple[str, str], frozenset[str]]
    """By (kind, mode) of a block, as in schema.BLOCKS."""
    words: Mapping[tuple[str, str], frozenset[str]] = field(factory=dict)
    """(kind of block, setting) → the words that are enforced, where not all are."""
    class_settings: frozenset[str] = frozenset()
    """Of `share`, `per`, `rise_after`."""
    signals: frozenset[tuple[str, str]]
    """(scope, name): ("class", "active"). A plugin's are measured by the plugin."""
    tenant_signals: frozenset[str] = frozenset()
    """Those measured of one tenant, for `each`."""
    each: bool = False
    """Rules about one tenant."""
    actuators: bool = False
    """Knobs of plugins."""
    swaps: frozenset[str] | None = None
    """Arbiters beside which memory leaves the device: `swap`, and with it `residency`. None: it does wherever a policy
    says so."""
    tiers: frozenset[str] | None = None
    """Where it goes: `host`. None: wherever a policy says."""
    tenant_fields: frozenset[str] = frozenset(TENANT_FIELDS)
    """What is known of a tenant when it attaches, beside its labels."""


THIS_VERSION = Enforced(
    arbiters=frozenset(MODES),
    knobs=frozenset(KNOBS),
    settings={key: frozenset(row.name for row in rows) for key, rows in BLOCKS.items()},
    words={("limit", "over_memory"): frozenset({"fail", "wait"})},
    class_settings=frozenset(row.name for row in CLASS_SETTINGS),
    signals=frozenset(SIGNALS),
    tenant_signals=frozenset(name for (_, name), row in SIGNALS.items() if row.of_tenant),
    each=True,
    swaps=frozenset({"exclusive"}),
    tiers=frozenset({"host"}),
    tenant_fields=frozenset(TENANT_FIELDS) - {"namespace"},
)
"""What the hook and the engine of this version act on: all but memory that leaves the device otherwise than between
turns (`spill`, and `swap` and `residency` without `arbitrate exclusive`), or goes to disk. A cluster's namespaces are
not known yet, and plugins' knobs have nobody who would act on them."""


def unenforced(policy: IrPolicy, enforced: Enforced = THIS_VERSION) -> list[Diagnostic]:
    """GP404 for each arbiter, setting, knob and signal that is not enforced or measured, at its first places."""
    found = Findings(policy.source)
    for block in (policy.arbiter, policy.swap, policy.admit, policy.failsafe):
        if block is not None:
            _block(block, "", enforced, found)
    for one in policy.classes:
        helps = [_instead(enforced.class_settings, "a class")]
        for name, setting in one.settings.items():
            if name not in enforced.class_settings:
                _refuse(found, name, [setting.span], helps)
        if one.per != "class" and "per" not in enforced.class_settings:
            _refuse(found, "per", [one.name_span], helps)
        elif one.per in TENANT_FIELDS and one.per not in enforced.tenant_fields:
            others = ["class", "tenant", *sorted({"user", "group"} & enforced.tenant_fields), "label(…)"]
            helps = [f"write `per` with {alternatives(others)}"]
            _refuse(found, f"per = {one.per}", [one.name_span], helps, "known")
        if one.limit is not None:
            _block(one.limit, one.name, enforced, found)
    _matches(policy, enforced, found)
    _knobs(policy, enforced, found)
    _swaps(policy, enforced, found)
    _signals(policy, enforced, found)
    if policy.eaches and not enforced.each:
        heads = [head_of(found.source, each.span) for each in policy.eaches]
        _refuse(found, "each", heads, ["write rules about the whole class"])
    return sorted(found.found, key=lambda diagnostic: diagnostic.place)


def _block(block: IrBlock, owner: str, enforced: Enforced, found: Findings) -> None:
    if block.kind == "arbitrate" and block.mode not in enforced.arbiters:
        arbiters = [f"arbitrate {mode}" for mode in sorted(enforced.arbiters)]
        span = head_of(found.source, block.span)
        _refuse(found, f"arbitrate {block.mode}", [span], [f"write {alternatives(arbiters)}"])
        return
    known = enforced.settings.get((block.kind, block.mode), frozenset())
    title = f"{block.kind} {block.mode}".strip()
    if not block.settings and not known and block.kind != "arbitrate":
        _refuse(found, title, [head_of(found.source, block.span)], ["leave it out"])
    for name, setting in block.settings.items():
        if name not in known:
            what = f"{title} {{ {name} }}" if block.kind != "arbitrate" else name
            _refuse(found, what, [setting.span], [_instead(known, f"`{title}`")])
            continue
        words = enforced.words.get((block.kind, name))
        word = setting.value if isinstance(setting.value, str) else getattr(setting.value, "word", None)
        if words is not None and word not in words:
            _refuse(found, f"{name} = {word}", [setting.value_span], [f"write {alternatives(sorted(words))}"])


def _matches(policy: IrPolicy, enforced: Enforced, found: Findings) -> None:
    read = (
        (part.field, part.field, part.span)
        for one in policy.classes
        for part in parts(one.match)
        if isinstance(part, TenantRead) and not part.field.startswith("label")
    )
    helps = [f"match on {alternatives(['label(…)', *sorted(enforced.tenant_fields)])}"]
    for name, text, spans in _by_text(read):
        if name not in enforced.tenant_fields:
            _refuse(found, text, spans, helps, "known")


def _knobs(policy: IrPolicy, enforced: Enforced, found: Findings) -> None:
    bound = (
        (writer.binding.knob.name, writer.binding.knob.text, writer.binding.target_span)
        for writer in all_writers(policy)
    )
    helps = [f"enforced are {alternatives(sorted(enforced.knobs), 'and')}; leave this binding out"]
    for name, text, spans in _by_text(bound):
        if name not in enforced.knobs and not (enforced.actuators and "." in name):
            _refuse(found, text, spans, helps)


def _swaps(policy: IrPolicy, enforced: Enforced, found: Findings) -> None:
    """Memory that leaves the device: beside which arbiter, and where it goes."""
    mode = policy.arbiter.mode if policy.arbiter is not None else ""
    leaves = enforced.swaps is None or mode in enforced.swaps
    beside = alternatives([f"arbitrate {mode}" for mode in sorted(enforced.swaps or ())])
    if policy.swap is not None and not leaves:
        _refuse(
            found, "swap", [head_of(found.source, policy.swap.span)], [f"write it beside {beside}, or leave it out"]
        )
    elif policy.swap is not None and enforced.tiers is not None and "tiers" in policy.swap.settings:
        setting = policy.swap.settings["tiers"]
        kept = alternatives([f"{kind}(max = …)" for kind in sorted(enforced.tiers)])
        for kind in dict.fromkeys(tier.kind for tier in setting.value if tier.kind not in enforced.tiers):
            _refuse(found, f"{kind}(…)", [setting.value_span], [f"of tiers, write {kept} alone"])
    if "residency" not in enforced.knobs:
        return
    leaves = leaves and (enforced.swaps is None or policy.swap is not None)
    bound = [writer.binding for writer in all_writers(policy) if writer.binding.knob.name == "residency"]
    if not leaves:
        helps = [f"write it beside {beside} and a `swap` block; or leave this binding out"]
        for _, text, spans in _by_text((one, one.knob.text, one.target_span) for one in bound):
            _refuse(found, text, spans, helps)
    elif enforced.tiers is not None:
        words = {"device"} | enforced.tiers
        others = ((one, f"{one.knob.text} = {_word(one.value)}", one.target_span) for one in bound)
        helps = [f"write {alternatives(sorted(words))}"]
        for one, text, spans in _by_text(others):
            if _word(one.value) not in words:
                _refuse(found, text, spans, helps)


def _word(value: object) -> str:
    return str(value.value) if isinstance(value, Const) else "…"


def _signals(policy: IrPolicy, enforced: Enforced, found: Findings) -> None:
    read: list[tuple[Any, str, Span]] = []
    for expr, _ in expressions(policy):
        for part in parts(expr):
            if isinstance(part, Read) and not _is_measured(part, enforced):
                read.append((part.signal, part.signal.text, part.span))
    for signal, text, spans in _by_text(read):
        of_scope = frozenset(name for scope, name in enforced.signals if scope == signal.scope)
        known = enforced.tenant_signals if signal.tenant else of_scope
        of = {"class": "of one job" if signal.tenant else "of a class", "gpu": "of a GPU", "host": "of the host"}
        helps = [f"{of[signal.scope]} it measures {alternatives(sorted(known), 'and')}"]
        _refuse(found, text, spans, helps, "measured")


def _is_measured(read: Read, enforced: Enforced) -> bool:
    signal = read.signal
    if "." in signal.name:
        return True
    return signal.name in enforced.tenant_signals if signal.tenant else (signal.scope, signal.name) in enforced.signals


def _by_text(items: Iterable[tuple[Any, str, Span]]) -> Iterator[tuple[Any, str, list[Span]]]:
    """One for each text, in order, with all its places."""
    places: dict[str, tuple[Any, list[Span]]] = {}
    for what, text, span in items:
        places.setdefault(text, (what, []))[1].append(span)
    for text, (what, spans) in places.items():
        yield what, text, sorted(spans)


def _instead(known: Iterable[str], where: str) -> str:
    """`alternatives` of none is "nothing"."""
    names = sorted(known)
    return f"leave it out; of {where} it enforces {alternatives(names, 'and')}"


def _refuse(found: Findings, what: str, spans: list[Span], helps: list[str], done: str = "enforced") -> None:
    first, *others = spans
    found.add(
        "GP404",
        first,
        f"`{what}` is not {done} by this version of gpud",
        "it would have no effect" if done == "enforced" else "it would never be known",
        also=[(span, "and here") for span in others[: _MOST_PLACES - 1]],
        helps=helps,
    )
