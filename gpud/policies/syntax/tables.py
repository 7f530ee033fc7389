"""The tables of the parser: as built, if they are of this very grammar, else made anew."""

from functools import cache
from pathlib import Path
from typing import Any

from gpud.policies.syntax.make_tables import made_of, make_tables

GRAMMAR = Path(__file__).parent.parent / "grammar.lark"
BUILT = Path(__file__).with_name("tables.json")
"""JSON and not a module: as fast to read where Python may not keep its bytecode."""


@cache
def tables() -> dict[str, Any]:
    """See make_tables.py. What was built of something else, or is broken, counts as not built."""
    built = _built()
    if built is not None and built.get("made_of") == made_of(GRAMMAR):
        return built
    return make_tables(GRAMMAR)


def _built() -> dict[str, Any] | None:
    import json

    try:
        built = json.loads(BUILT.read_bytes())
    except (OSError, ValueError):
        return None
    return built if isinstance(built, dict) else None
