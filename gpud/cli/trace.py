"""`gpud trace`: what the journal on disk has, for other programs. Each verb's module is imported only when it is asked
for."""

from gpud.cli.lazy import LazyVerbs, load

VERBS = {"export": "what happened, for Perfetto or an OpenTelemetry collector"}
"""Verb → one line for the list. Its command is `command` of the module that is called `trace_` and the verb."""

command = LazyVerbs(
    "trace",
    VERBS,
    lambda verb: load(f"gpud.cli.trace_{verb}"),
    examples=[("gpud trace export --output gpud.json", "then open it at ui.perfetto.dev")],
    help="What happened, from the journal on disk: turns, swaps, pauses, decisions.",
)
