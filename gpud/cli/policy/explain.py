"""`gpud policy explain`: what a policy does, in words."""

from typing import Any

import click

from gpud.cli.helped import Verb
from gpud.cli.policy import texts
from gpud.cli.policy.output import colour, write
from gpud.policies.compile import compile_policy
from gpud.policies.explain import explain_policy
from gpud.policies.placement import Applied
from gpud.policies.plugins.installed import InstalledPlugins
from gpud.policies.render import human, summary


@click.command(
    "explain",
    cls=Verb,
    epilog="Exit codes: 0 done, 1 the policy has errors, 2 wrong usage.",
    examples=[
        ("gpud policy explain preempt-mix", "line by line, in words"),
        ("gpud policy explain 'preempt-mix(quiet = 5ms)'", "with other arguments"),
    ],
)
@click.argument("policy", metavar="POLICY")
@texts.policies_option
@click.option("--json", "as_json", is_flag=True, help="One JSON list, an object for each policy.")
def command(policy: str, paths: tuple[str, ...], as_json: bool) -> int:
    """What a policy does: who belongs where, what the hook applies to each launch, what the daemon changes, the cost.

    POLICY is a name, also with arguments, as `apply` has them: 'preempt-mix(quiet = 5ms)'. Several with commas.
    """
    plugins = InstalledPlugins()
    chosen, found = texts.named(policy, texts.read(paths), plugins)
    if found:
        write(f"{human(found, colour=colour())}\n{summary(found)}\n")
        return 1
    if as_json:
        import json

        write(json.dumps([_data(one, plugins) for one in chosen], indent=2, ensure_ascii=False) + "\n")
    else:
        write("\n".join(explain_policy(one.policy, plugins) for one in chosen))
    return 0


def _data(applied: Applied, plugins: InstalledPlugins) -> dict[str, Any]:
    program = compile_policy(applied.policy, applied.arguments, plugins)
    source = applied.policy.source
    return {
        "policy": program.name,
        "file": source.name,
        "doc": applied.policy.doc,
        "arbiter": applied.policy.mode or None,
        "steps": program.steps,
        "classes": [
            {"name": one.name, "match": source.text[one.match.span.start : one.match.span.end], "per": one.per}
            for one in applied.policy.classes
        ],
        "rules": [
            {
                "knob": site.knob.text,
                "line": site.line,
                "rule": site.text,
                "inside": list(site.inside),
                "because": site.because,
                "reads": [signal.text for signal in site.inputs],
                "lets": list(site.lets),
            }
            for site in program.sites
            if site.line
        ],
        "reads": [signal.text for signal in (*program.signals, *program.tenant_signals) if signal.name != "class"],
        "text": explain_policy(program, plugins),
    }
