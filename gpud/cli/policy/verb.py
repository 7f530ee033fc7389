"""`gpud policy`: the tools around the language. Each verb's module is imported only when it is asked for."""

import gc

import click

from gpud.cli.lazy import LazyVerbs, load

VERBS = {
    "check": "what is wrong with policies, where, and what to write instead",
    "fmt": "put policies into the one layout",
    "test": "run the tests in policies",
    "explain": "what a policy does, in words, and what it costs",
    "sim": "run a policy on a trace or a small world, and draw it",
    "why": "what a finding means: the page of GP103",
    "docs": "the manual of all words of the language, as Markdown",
    "show": "what the daemon runs now, device by device",
    "diff": "what a reload would change",
    "reload": "read the policies again, now",
    "rollback": "go back to the policies before",
    "history": "which policies ran, and since when",
}
"""Verb → one line for the list. Its command is `command` of the module that is called like it."""


def _find(verb: str) -> click.Command:
    gc.set_threshold(100_000)  # these end soon; garbage collection was a tenth of their time
    return load(f"gpud.cli.policy.{verb}")


command = LazyVerbs(
    "policy",
    VERBS,
    _find,
    examples=[
        ("gpud policy check policies", "before they are loaded"),
        ("gpud policy reload", "load them"),
    ],
    help="Policies say which job may use the GPU when. They are files that end in .gpol.",
    epilog="Exit codes: 0 nothing found, 1 something was found, 2 wrong usage.",
)
