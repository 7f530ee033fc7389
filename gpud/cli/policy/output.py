"""How the verbs write: text that no output refuses, and colour only where it is wanted."""

import sys

from gpud.policies.render import colour_wanted


def write(text: str) -> None:
    """To standard output, at once; an output that cannot hold a character gets `?`."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def colour() -> bool:
    """May standard output be coloured?"""
    return colour_wanted(sys.stdout)
