"""`gpud policy why`: the page about a finding."""

import click

from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.cli.helped import Verb
from gpud.cli.policy.output import write
from gpud.cli.screen import print_json
from gpud.native import error_pages
from gpud.policies.codes import CODES


@click.command(
    "why",
    cls=Verb,
    examples=[
        ("gpud policy why GP103", "the page about that finding"),
    ],
)
@click.argument("code", metavar="GPnnn")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: the code, and the page in Markdown.")
def command(code: str, as_json: bool) -> None:
    """What a finding means, with an example, the same put right, and why the rule exists."""
    wanted = code.strip().strip("[]").upper()
    wanted = f"GP{wanted}" if wanted.isdigit() else wanted
    if wanted not in CODES:
        raise Failure(f"there is no finding {code!r}", f"there are: {', '.join(CODES)}", code=EXIT_USAGE)
    path = error_pages() / f"{wanted}.md"
    try:
        page = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"the page {path} cannot be read: {error.strerror}", "install gpud again") from error
    if as_json:
        print_json({"code": wanted, "page": page})
    else:
        write(page)
