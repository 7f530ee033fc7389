"""What the verbs that print share: tables that degrade to plain text, JSON, and times for people."""

import os
import sys
from typing import Any

import msgspec
from rich import markup
from rich.console import Console
from rich.table import Table

from gpud.cli.failure import printable
from gpud.config import load_config
from gpud.control.client import Client


def console(*, stderr: bool = False) -> Console:
    """rich's console: plain where the output is no terminal or NO_COLOR is set, and wide enough for a table."""
    stream = sys.stderr if stderr else sys.stdout
    plain = not stream.isatty()
    width = int(os.environ.get("COLUMNS", "0") or "0") if os.environ.get("COLUMNS", "").isdigit() else 0
    return Console(file=stream, highlight=False, width=max(width, 140) if plain else None, soft_wrap=plain)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table without frames, which is easy to read and to cut."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def client() -> Client:
    """A connection to this user's daemon. Raises NoDaemon, SetupError, UsageError."""
    return Client(load_config())


def escape(text: str) -> str:
    """A name or sentence from elsewhere, on one line, as it may stand in what rich prints."""
    return markup.escape(printable(text).replace("\n", "\\n"))


def ago(nanoseconds: int) -> str:
    """41 s, 5 min, 3.2 h, 12 d."""
    seconds = nanoseconds / 1e9
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.0f} d"


def size(count: int | None) -> str:
    """0 B, 512 MiB, 39.4 GiB; a dash for what is not known, `?` for more than any machine has: a program has written
    nonsense into its page."""
    if count is None:
        return "–"
    if count >= 2**50:
        return "?"
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"
