"""`gpud sim`: the tools around simulated nodes. Each verb's module is imported only when it is asked for."""

from gpud.cli.lazy import LazyVerbs, load

VERBS = {"log": "what ran on a simulated node, when and for whom, and draw it"}
"""Verb → one line for the list. Its command is `command` of the module that is called like it."""

command = LazyVerbs(
    "sim",
    VERBS,
    lambda verb: load(f"gpud.cli.sim.{verb}"),
    examples=[("gpud sim log node.jsonl", "what GPUD_SIM_LOG named")],
    help="The simulated GPU: see docs/simulator.md for what it models.",
)
