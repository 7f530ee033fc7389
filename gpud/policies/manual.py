"""The manual of all words of the language, as Markdown, from the tables in schema.py. docs/policy-reference.md is this
text; a test compares."""

from collections.abc import Iterable, Sequence
from typing import Any

from gpud.policies import schema
from gpud.policies.codes import CODES
from gpud.policies.quantities import UNITS, show_value
from gpud.policies.simulate.worlds import WORLDS, WorldParameter
from gpud.policies.types import ARITHMETIC, Type

_HOLDS = {
    "class": "the class",
    "unit": "each unit, in total",
    "tenant": "each job",
    "turn": "each turn",
    "new": "jobs that are not attached yet",
}
_COMBINES = {
    "any": "one `true` is enough",
    "all": "one `false` is enough",
    "min": "the least",
    "furthest": "the furthest from the device",
    "none": "two at once are an error",
}
_FACTORS = (Type.NUMBER, Type.RATIO)
_TYPES_OF_KINDS = {
    "number": Type.NUMBER,
    "ratio": Type.RATIO,
    "compute": Type.RATIO,
    "duration": Type.DURATION,
    "bytes": Type.BYTES,
    "memory": Type.BYTES,
    "share": Type.SHARE,
}
_WORDS_OF_KINDS = {
    "order": "list of classes; a list inside is one rank",
    "tiers": "list of `host(…)`, `disk(…)`",
    "share": "share",
    "compute": "percentage or `soft(…)`, or `label_percent(…)`",
    "memory": "amount of memory, or `label_bytes(…)`",
    "per": "`class`, `tenant`, `user`, `group`, `namespace`, `label(…)`",
    "bool": "condition",
}


def manual() -> str:
    """The whole text."""
    parts = [
        "# The words of the policy language",
        "Made by `gpud policy docs` from the tables that the checker reads. How to use them: `policy-language.md`.",
        *_units(),
        *_signals(),
        *_knobs(),
        *_blocks(),
        *_functions(),
        *_tests(),
        *_names(),
        *_codes(),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(head), "|".join("---" for _ in head), *(" | ".join(_cells(row)) for row in rows)]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def _cells(row: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in row]


def _code(words: Iterable[str]) -> str:
    return " ".join(f"`{word}`" for word in words)


def _plain(type: Type | None) -> str:
    """`duration` for "a duration"."""
    return "any with a unit" if type is None else type.value.removeprefix("a ").removeprefix("an ")


def _units() -> list[str]:
    by_type: dict[Type, list[str]] = {}
    for unit, (type, _) in UNITS.items():
        by_type.setdefault(type, []).append(unit)
    examples = {
        Type.NUMBER: "`4`, `50_000`",
        Type.RATIO: "`30%`, `12.5%`",
        Type.DURATION: "`250ms`, `1.5s`",
        Type.BYTES: "`512MiB`",
        Type.RATE: "`2000/s`, `5/ms`",
        Type.BANDWIDTH: "`2GiB/s`",
    }
    rows = [(_plain(type), _code(unit for unit in units if unit), examples[type]) for type, units in by_type.items()]
    mixed = []
    for (op, left, right), result in ARITHMETIC.items():
        factor = left in _FACTORS or right in _FACTORS
        twice = op == "*" and list(Type).index(left) > list(Type).index(right)
        if left is not right and not (factor and result in (left, right)) and not twice:
            sign = op.replace("*", "×").replace("/", "÷")
            mixed.append((f"{_plain(left)} {sign} {_plain(right)}", _plain(result)))
    sums = [
        ("T + T, T - T", "T"),
        ("plain number × T, percentage × T", "T"),
        ("T ÷ plain number, T ÷ percentage", "T"),
        ("T ÷ T", "plain number"),
        *mixed,
    ]
    return [
        "## Types and units",
        _table(("type", "units", "for example"), rows),
        'Other types: condition (`true`, `false`), text (`"online"`), class, share, place for memory (`device`, '
        "`host`, `disk`). `unlimited` fits everything that has a unit or is a number.",
        "What may be calculated, T being any type of the table above, × in both orders; everything else is an error. "
        "Two values that are compared must be of one type.",
        _table(("", "is a"), sums),
    ]


def _signals() -> list[str]:
    parts = ["## Signals", "What rules may read. A signal cannot be set."]
    titles = {"class": "Of a class, `C.…`", "gpu": "Of the device, `gpu.…`", "host": "Of the machine, `host.…`"}
    for scope, title in titles.items():
        rows = [
            (f"`{row.name}`", _plain(row.type), row.doc, "yes" if row.of_tenant else "")
            for (found, _), row in schema.SIGNALS.items()
            if found == scope
        ]
        head = ("signal", "type", "is", "of one job, in `each`")
        width = 4 if scope == "class" else 3
        parts += [f"### {title}", _table(head[:width], [row[:width] for row in rows])]
    return parts


def _knobs() -> list[str]:
    rows = []
    for knob in schema.KNOBS.values():
        modes = (
            "all" if set(schema.MODES) <= knob.modes else ", ".join(mode for mode in schema.MODES if mode in knob.modes)
        )
        rows.append(
            (
                f"`{knob.name}`",
                _plain(knob.type),
                knob.doc,
                _HOLDS[knob.holds],
                _COMBINES[knob.combine],
                modes,
                f"`{show_value(knob.default, knob.type)}`",
            )
        )
    head = ("knob", "type", "sets", "holds for", "of several rules", "under", "default")
    return ["## Knobs", "What rules may set. A knob cannot be read (in tests it can).", _table(head, rows)]


def _blocks() -> list[str]:
    parts = ["## Blocks"]
    for (kind, mode), rows in schema.BLOCKS.items():
        where = "in a class" if kind == "limit" else "in a policy, once"
        parts.append(f"### `{f'{kind} {mode}'.strip()}` ({where})")
        parts.append(_settings(rows) if rows else "No settings.")
    parts += ["### Settings of a class", _settings(schema.CLASS_SETTINGS)]
    return parts


def _settings(rows: Iterable[schema.Row]) -> str:
    shown = []
    for row in rows:
        kind = _WORDS_OF_KINDS.get(row.kind) or _kind(row.kind)
        if row.unlimited:
            kind += ", or `unlimited`"
        default = "**required**" if row.required else _default(row)
        shown.append((f"`{row.name}`", kind, default, row.doc))
    return _table(("setting", "value", "default", "is"), shown)


def _kind(kind: str) -> str:
    """`fail|wait(duration)` in words."""
    if "|" not in kind:
        return _plain(_TYPES_OF_KINDS[kind])
    return ", ".join(f"`{word.replace('(', '(…) ').split(' ')[0]}`" for word in kind.split("|"))


def _default(row: schema.Row) -> str:
    if row.default is None:
        return ""
    if isinstance(row.default, str):
        return f"`{row.default}`"
    return f"`{show_value(row.default, _TYPES_OF_KINDS.get(row.kind, Type.NUMBER))}`"


def _functions() -> list[str]:
    parts = [
        "## Functions",
        "`min(a, b, …)` and `max(a, b, …)` take values of one type. The others make a value for a setting or knob, "
        "from constants:",
        _table(
            ("function", "makes"),
            [(f"`{name}({_signature(rows)})`", _MAKES[name]) for name, rows in schema.CONSTRUCTORS.items()],
        ),
        "## Operators",
        "They keep a state from tick to tick; a let or a binding may call them.",
    ]
    for operator in schema.OPERATORS.values():
        result = "as the argument" if operator.result is None else _plain(operator.result)
        parts.append(f"### `{operator.name}({_signature(operator.parameters)})`")
        parts.append(f"{operator.doc[0].upper()}{operator.doc[1:]}. Result: {result}. Cost: {operator.cost} steps.")
        rows = [
            (
                f"`{row.name}`",
                _plain(row.type) if row.type else "a rate or a percentage" if operator.name == "aimd" else _plain(None),
                row.doc,
                "may change" if row.live else "constant",
            )
            for row in operator.parameters
        ]
        parts.append(_table(("argument", "type", "is", "from tick to tick"), rows))
    return parts


_MAKES = {
    "fixed": "a share: this part of the device, neither lent nor exceeded",
    "weight": "a share: by weight, of what fixed shares leave, active or not",
    "burst": "a share: by weight among those active, up to `max`",
    "host": "a tier: host memory",
    "disk": "a tier: files below `path`",
    "wait": "`over_memory`: the allocation waits for so long, then fails",
    "queue": "`when_full`: who does not fit waits for so long, then is refused",
    "spill": "`over_memory`: what is over the limit lies in host memory",
    "soft": "`compute`: may be exceeded while nobody else wants the device",
    "label": "the text of a label, or a unit of sharing (`per`)",
    "label_bytes": "memory, from a label of the job",
    "label_percent": "a percentage, from a label of the job",
}


def _signature(rows: Iterable[schema.Parameter]) -> str:
    return ", ".join(row.name if row.required else f"{row.name} = {_argument(row)}" for row in rows)


def _argument(row: schema.Parameter) -> str:
    if row.default is None:
        return "…"
    value: Any = row.default
    return show_value(value, row.type or Type.NUMBER) if value else ("false" if row.type is Type.BOOL else "0s")


def _tests() -> list[str]:
    parts = [
        "## In tests",
        "Knobs and lets may be read, and of the simulated gate: `C.held` (a launch of the class, or attached job, is "
        "held now) and `C.passed` (launches that `max_pause` let through); `a.class` of an attached job. "
        "`simulate NAME(…)` begins a world; `world.x` of it may be read, and `at T world.x = v` changes an argument.",
    ]
    for world in WORLDS.values():
        rows = [(f"`{row.name}`", _plain(row.type), _world_default(row), row.doc) for row in world.parameters]
        if world.of_member is not None:
            rows.append(("name of a class or attached job", _plain(world.of_member), "", world.of_member_doc))
        rows += [(f"`world.{name}`", _plain(type), "can be read only", doc) for name, type, doc in world.readings]
        modes = [f"`{mode}`" if mode else "no arbiter" for mode in (*schema.MODES, "") if mode in world.modes]
        knobs = _code(name for name in schema.KNOBS if name in world.heeds)
        parts += [
            f"### `simulate {world.name}(…)`",
            f"{world.doc[0].upper()}{world.doc[1:]}. For policies with {', '.join(modes)}. It heeds {knobs}.",
            _table(("argument", "type", "default", "is"), rows),
        ]
    return parts


def _world_default(row: WorldParameter) -> str:
    return "**required**" if row.default is None else f"`{show_value(row.default, row.type)}`"


def _names() -> list[str]:
    return [
        "## Words that are taken",
        "Of a job, in `match`: " + _code((*schema.TENANT_FIELDS, "any")) + ", and the three `label` functions.",
        "Days: " + _code((*schema.DAYS, "daily")) + ".",
        "Reserved everywhere: " + _code(schema.RESERVED) + ".",
        "Not for classes, lets, params and hours: " + _code(sorted(schema.NOT_NAMES)) + ", units, and plugins in use.",
        "## Bounds",
        f"Rules nest {schema.MAX_NESTING} deep; a policy has at most {schema.MAX_CLASSES} classes and "
        f"{schema.MAX_RULES} rules, and costs at most {schema.MAX_STEPS} steps a tick; what stands in `each` counts "
        f"{schema.EACH_COST} times.",
    ]


def _codes() -> list[str]:
    rows = [(f"`{code}`", row.title, "warning" if row.warning else "") for code, row in CODES.items()]
    return ["## Findings", "`gpud policy why GPnnn` says more of each.", _table(("code", "is", ""), rows)]
