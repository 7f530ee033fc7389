"""Makes the parser's tables of the grammar, with lark: at build time into `tables.json`, else when they are needed.

Reading a file then needs neither lark (40 ms to import) nor the grammar (100 ms to analyse). As a program:
`make_tables.py GRAMMAR OUT`.
"""

import json
import sys
from pathlib import Path
from typing import Any


def made_of(grammar: Path) -> str:
    """What tables depend on, all of it: the grammar and this file. Tables are good for the very same texts only."""
    return grammar.read_text(encoding="utf-8") + Path(__file__).read_text(encoding="utf-8")


def make_tables(grammar: Path) -> dict[str, Any]:
    """Everything that tokens.py and parse.py need to know of the grammar, in plain values, the same on every run.

    `patterns`: (kind, regular expression) in the order
    in which they are tried. `words`: keyword or sign → kind. `rows`: per state, kind → what to do: a state to go to, or
    `~rule`. `gotos`: per state, name of a rule → state. `rules`: (name, what to call, length, helpers), the last two in
    symbols: helpers are what lark made of `*`, their values are lists. `start`: a state.
    """
    from lark import Lark
    from lark.lexer import PatternStr
    from lark.parsers.lalr_analysis import Shift

    lark = Lark(
        grammar.read_text(encoding="utf-8"),
        parser="lalr",
        lexer="basic",
        maybe_placeholders=False,
        keep_all_tokens=True,
    )
    terminals = sorted(lark.terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    literals = {t.name: t.pattern.value for t in terminals if isinstance(t.pattern, PatternStr)}
    table = lark.parser.parser._parse_table
    numbers = {rule: number for number, rule in enumerate(lark.rules)}
    start, end = table.start_states["start"], table.end_states["start"]

    # States get their numbers from a walk in the order of names: lark's depend on the order of a set.
    order, at = [start], 0
    while at < len(order):
        for _, (action, target) in sorted(table.states[order[at]].items()):
            if action is Shift and target not in order:
                order.append(target)
        at += 1
    state_of = {old: new for new, old in enumerate(order)}
    names = {str(rule.origin.name) for rule in lark.rules}
    rows: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    for old in order:
        actions = sorted(table.states[old].items())
        rows.append(
            {
                str(name): state_of[target] if action is Shift else ~numbers[target]
                for name, (action, target) in actions
                if name not in names
            }
        )
        gotos.append({str(name): state_of[target] for name, (_, target) in actions if name in names})
    rows[state_of[end]] = {"$END": state_of[end]}
    return {
        "made_of": made_of(grammar),
        "patterns": [(str(t.name), t.pattern.to_regexp()) for t in terminals if not literals.get(t.name, "").isalpha()],
        "words": {literal: str(name) for name, literal in sorted(literals.items())},
        "rows": rows,
        "gotos": gotos,
        "rules": [_rule(rule) for rule in lark.rules],
        "start": state_of[start],
    }


def _rule(rule: Any) -> tuple[str, str, int, tuple[int, ...]]:
    origin, symbols = str(rule.origin.name), [symbol.name for symbol in rule.expansion]
    if origin.startswith("__"):
        call = "+more" if symbols[0] == origin else "+first"
    elif rule.options.expand1 and len(symbols) == 1 and rule.alias is None:
        call = ""  # the value of its one part
    else:
        call = str(rule.alias or origin)
    helpers = () if origin.startswith("__") else tuple(n for n, name in enumerate(symbols) if name.startswith("__"))
    return origin, call, len(symbols), helpers


def main(grammar: str, out: str) -> None:
    tables = make_tables(Path(grammar))
    Path(out).write_text(json.dumps(tables, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
