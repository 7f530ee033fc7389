"""`gpud doctor`: what is missing or wrong on this machine, each with a remedy."""

import click
from rich.markup import escape

from gpud.cli.checks import FAIL, OK, WARN, all_checks
from gpud.cli.helped import Verb
from gpud.cli.screen import console, print_json

STYLES = {OK: "green", WARN: "yellow", FAIL: "red"}


@click.command(
    "doctor",
    cls=Verb,
    examples=[
        ("gpud doctor", "what is missing here, and what to do"),
        ("gpud doctor --json", "for programs; see also the exit code"),
    ],
)
@click.option("--json", "as_json", is_flag=True, help="One JSON list of findings.")
def command(as_json: bool) -> int:
    """Look for what is missing or wrong on this machine. Ends with 1 when something failed."""
    findings = all_checks()
    if as_json:
        print_json([{"check": f.check, "result": f.result, "text": f.text, "remedy": f.remedy} for f in findings])
    else:
        out = console()
        for finding in findings:
            out.print(f"[{STYLES[finding.result]}]{finding.result:<4}[/] {finding.check:<12} {escape(finding.text)}")
            if finding.remedy:
                out.print(f"     {'':<12} → {escape(finding.remedy)}")
    return 1 if any(finding.result == FAIL for finding in findings) else 0
