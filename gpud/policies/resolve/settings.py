"""Values of settings, by the kinds of schema.Row: what may be written, and what it is."""

from collections.abc import Callable
from typing import Any

from gpud.policies import ast
from gpud.policies.ir import Const
from gpud.policies.quantities import exact, kept, show_value
from gpud.policies.resolve.arguments import in_range, whole, whole_mib, whole_percent
from gpud.policies.resolve.expressions import constant
from gpud.policies.resolve.findings import alternatives
from gpud.policies.resolve.functions import arguments, label_value
from gpud.policies.resolve.reading import PolicyScope
from gpud.policies.resolve.scope import LIMIT, fixed
from gpud.policies.resolve.wants import Want
from gpud.policies.schema import RESERVED, Row
from gpud.policies.source import Span
from gpud.policies.types import CAPS, Type
from gpud.policies.values import RESIDENCIES, Choice, Tier

_TYPES = {
    "number": Type.NUMBER,
    "ratio": Type.RATIO,
    "duration": Type.DURATION,
    "bytes": Type.BYTES,
    "bool": Type.BOOL,
    "share": Type.SHARE,
}
_PER = ("class", "tenant", "user", "group", "namespace")


def read_setting(row: Row, expr: ast.Expr, scope: PolicyScope, block: str) -> Any:
    """The value, as schema.Row.kind says; None: reported. `block`: the kind of block it stands in."""
    what = f"`{row.name}`"
    scope = scope.at(LIMIT if block == "limit" else fixed(what))
    if row.kind in _TYPES:
        return _plain(row, expr, scope, what)
    special = _SPECIAL.get(row.kind)
    if special is not None:
        return special(row, expr, scope)
    return _word(row, expr, scope)


_FROM_LABELS = {
    "memory": 'for example 4GiB, or label_bytes("gpud.io/memory", default = 4GiB)',
    "compute": 'for example 30%, soft(30%), or label_percent("gpud.io/compute", default = 30%)',
}


def _number(row: Row, type: Type, expr: ast.Expr, scope: PolicyScope, what: str) -> Const | None:
    found = constant(expr, scope, Want(what, type, row.unlimited, _FROM_LABELS.get(row.kind, "")))
    if found is None or found.value is None or not in_range(found, row.range, what, expr.span, scope.findings):
        return None
    return found


def _plain(row: Row, expr: ast.Expr, scope: PolicyScope, what: str) -> Any:
    found = _number(row, _TYPES[row.kind], expr, scope, what)
    if found is None:
        return None
    if row.kind == "number":
        found = whole(found, what, expr.span, scope.findings)
    if row.kind == "ratio" and row.name == "compute":
        return whole_percent(found, expr.span, scope.findings) / 100
    return kept(found.value, found.type) if found.type in CAPS else found.value


# --------------------------------------------------------------------------------------------------------- limits


def _memory(row: Row, expr: ast.Expr, scope: PolicyScope) -> Any:
    if (label := _label_of(expr, "label_bytes")) is not None:
        found = label_value(label, scope)
        if found is not None and found.default is not None:
            whole_mib(Const(found.default, Type.BYTES), _default_span(label), scope.findings)
        return found
    const = _number(row, Type.BYTES, expr, scope, "`memory`")
    if const is None or const.value == float("inf"):
        return const and const.value
    return whole_mib(const, expr.span, scope.findings)


def _compute(row: Row, expr: ast.Expr, scope: PolicyScope) -> Any:
    if (label := _label_of(expr, "label_percent")) is not None:
        found = label_value(label, scope)
        if found is not None and found.default is not None:
            whole_percent(Const(exact(found.default), Type.RATIO), _default_span(label), scope.findings)
        return found
    if isinstance(expr, ast.Call) and expr.function.text == "soft":
        if any(_label_of(arg.value, "label_percent") for arg in expr.args):
            scope.findings.add(
                "GP209", expr.span, "`label_percent` cannot stand inside `soft`",
                helps=("write label_percent(…) alone, or a constant: soft(30%)",),
            )  # fmt: skip
            return None
        given = arguments(expr, scope)
        return Choice("soft", whole_percent(given["part"], given["part"].span, scope.findings) / 100) if given else None
    const = _number(row, Type.RATIO, expr, scope, "`compute`")
    if const is None or const.value == float("inf"):
        return const and const.value
    return whole_percent(const, expr.span, scope.findings) / 100


def _default_span(label: ast.Call) -> Span:
    named = [arg.value.span for arg in label.args if arg.name is not None and arg.name.text == "default"]
    return named[0] if named else label.args[-1].value.span


def _label_of(expr: ast.Expr, function: str) -> ast.Call | None:
    return expr if isinstance(expr, ast.Call) and expr.function.text == function else None


# ---------------------------------------------------------------------------------------------- classes and tiers


def _per(row: Row, expr: ast.Expr, scope: PolicyScope) -> Any:
    """`tenant`, `user` …; `label("k")` becomes `label:k`."""
    if isinstance(expr, ast.Call) and expr.function.text == "label":
        found = arguments(expr, scope)
        return f"label:{found['key'].value}" if found is not None else None
    if isinstance(expr, ast.Ref) and len(expr.parts) == 1 and expr.text in _PER:
        return expr.text
    _no_word(row, expr, [*_PER, 'label("…")'], scope)
    return None


def _order(row: Row, expr: ast.Expr, scope: PolicyScope) -> Any:
    """`[high, [near, low], scrap]` → (("high",), ("near", "low"), ("scrap",))."""
    if not isinstance(expr, ast.Listing):
        written = f"[{expr.text}]" if isinstance(expr, ast.Ref) else "[high, low]"
        scope.findings.add(
            "GP202", expr.span, f"`{row.name}` needs a list of classes", "not a list",
            helps=(f"for example {written}, from high to low",),
        )  # fmt: skip
        return None
    ranks = [_rank(row, item, scope) for item in expr.items]
    return tuple(ranks) if None not in ranks else None


def _rank(row: Row, item: ast.Expr, scope: PolicyScope) -> tuple[str, ...] | None:
    members = item.items if isinstance(item, ast.Listing) else (item,)
    names = [_class_name(row, member, scope) for member in members]
    found = tuple(name for name in names if name is not None)
    return found if len(found) == len(names) else None


def _class_name(row: Row, expr: ast.Expr, scope: PolicyScope) -> str | None:
    if not isinstance(expr, ast.Ref) or len(expr.parts) > 1:
        nested = isinstance(expr, ast.Listing)
        text = "a rank holds classes, not ranks" if nested else f"`{row.name}` needs names of classes"
        helped = "for example [high, [near, low], scrap]"
        if isinstance(expr, ast.String) and expr.text in scope.known.visible("class"):
            helped = f"a name stands without quotes: write `{expr.text}`"
        scope.findings.add("GP202", expr.span, text, "not a class", helps=(helped,))
        return None
    entry = scope.known.use(expr.text)
    if entry is not None and entry.kind == "class":
        return expr.text
    if entry is not None:
        scope.findings.add("GP202", expr.span, f"`{row.name}` needs names of classes", f"a {entry.kind}")
        return None
    if expr.text in scope.known.refused:
        return None
    helps = scope.findings.one_of(expr.text, scope.known.visible("class"))
    scope.findings.add("GP201", expr.span, f"nothing is called `{expr.text}` here", helps=helps)
    return None


def _tiers(row: Row, expr: ast.Expr, scope: PolicyScope) -> Any:
    sample = 'for example [host(max = 64GiB), disk(path = "/var/lib/gpud/swap", max = 500GiB)]'
    items = expr.items if isinstance(expr, ast.Listing) else ()
    if not items:
        scope.findings.add("GP202", expr.span, "`tiers` needs a list of tiers", helps=(sample,))
        return None
    tiers = [_tier(item, scope, sample) for item in items]
    return tuple(tiers) if None not in tiers else None


def _tier(item: ast.Expr, scope: PolicyScope, sample: str) -> Tier | None:
    if not isinstance(item, ast.Call) or item.function.text not in ("host", "disk"):
        scope.findings.add("GP202", item.span, "a tier is `host(…)` or `disk(…)`", helps=(sample,))
        return None
    found = arguments(item, scope)
    if found is None:
        return None
    path = found["path"].value if "path" in found else ""
    if item.function.text == "disk" and not path.startswith("/"):
        scope.findings.add(
            "GP206", found["path"].span, "the path of a tier must be absolute", helps=(f'write "/{path}"',)
        )
        return None
    return Tier(item.function.text, kept(found["max"].value, Type.BYTES), path)


_SPECIAL: dict[str, Callable[[Row, ast.Expr, PolicyScope], Any]] = {
    "memory": _memory,
    "compute": _compute,
    "per": _per,
    "order": _order,
    "tiers": _tiers,
}


# ----------------------------------------------------------------------------------------------------------- words


def choices(kind: str) -> dict[str, str]:
    """`fail|wait(duration)` → {"fail": "", "wait": "duration"}."""
    return {word: rest.rstrip(")") for word, _, rest in (part.partition("(") for part in kind.split("|"))}


def _word(row: Row, expr: ast.Expr, scope: PolicyScope) -> Any:
    """A word of the row's kind; one with an argument becomes a `Choice`."""
    words = choices(row.kind)
    shown = [f"{word}(…)" if argument else word for word, argument in words.items()]
    call = expr if isinstance(expr, ast.Call) else None
    ref = call.function if call is not None else expr
    if not isinstance(ref, ast.Ref) or ref.text not in words:
        _no_word(row, expr, shown, scope)
        return None
    argument = words[ref.text]
    if call is None:
        if argument:
            sample = {"duration": "10s", "residency": "host"}[argument]
            scope.findings.add(
                "GP203", expr.span, f"`{ref.text}` needs {_A[argument]}", helps=(f"for example {ref.text}({sample})",)
            )
            return None
        return ref.text
    if not argument:
        scope.findings.add("GP204", call.span, f"`{ref.text}` takes no values", helps=(f"write `{ref.text}` alone",))
        return None
    found = arguments(call, scope)
    if found is None:
        return None
    const = next(iter(found.values()))
    if const.value == RESIDENCIES[0]:
        scope.findings.add("GP206", const.span, "memory is on the device already", helps=("write spill(host)",))
        return None
    if ref.text == "spill" and const.value != "host":
        message = f"what is over the limit cannot lie on {const.value}"
        scope.findings.add("GP206", const.span, message, helps=("write spill(host)",))
        return None
    return Choice(ref.text, const.value if isinstance(const.value, str) else kept(const.value, const.type))


_A = {"duration": "a duration", "residency": "a place for memory"}


def _no_word(row: Row, expr: ast.Expr, shown: list[str], scope: PolicyScope) -> None:
    ref = expr.function if isinstance(expr, ast.Call) else expr
    write = f"write {alternatives(shown)}"
    if isinstance(ref, ast.Ref) and ref.text not in RESERVED:
        guess = scope.findings.did_you_mean(ref.text, [word.partition("(")[0] for word in shown])
        message = f"`{row.name}` cannot be `{ref.text}`"
        scope.findings.add("GP201", ref.span, message, helps=guess or (write,))
        return
    type = constant_type(expr, scope)
    scope.findings.add(
        "GP202", expr.span, f"`{row.name}` needs a word" + (f", but this is {type.value}" if type else ""),
        type.value if type else "", helps=(write,),
    )  # fmt: skip


def constant_type(expr: ast.Expr, scope: PolicyScope) -> Type | None:
    """Of a literal, for a message."""
    from gpud.policies.quantities import read_quantity

    match expr:
        case ast.Quantity():
            found = read_quantity(expr.number, expr.unit)
            return found[0] if found else None
        case ast.String():
            return Type.TEXT
        case ast.Bool():
            return Type.BOOL
        case ast.Listing():
            return Type.LIST
    return None


def shown(value: Any, row: Row) -> str:
    """A setting's value as the language writes it."""
    return show_value(value, _TYPES.get(row.kind, Type.BYTES if row.kind == "memory" else Type.RATIO))
