"""`gpud policy check`: everything that is wrong with a set of policies."""

import click

from gpud.cli.helped import Verb
from gpud.cli.policy import texts
from gpud.cli.policy.output import colour, write
from gpud.policies.check.whole import check_library
from gpud.policies.enforce import THIS_VERSION
from gpud.policies.plugins.installed import InstalledPlugins
from gpud.policies.render import counted, human, severity, summary


@click.command(
    "check",
    cls=Verb,
    epilog="Exit codes: 0 nothing wrong, 1 errors, 2 wrong usage.",
    examples=[
        ("gpud policy check policies", "all files of a directory"),
        ("gpud policy check --format github --strict", "in CI: annotations, warnings fail"),
    ],
)
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    help="For people (the default), or for programs.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(paths: tuple[str, ...], strict: bool, form: str, as_json: bool) -> int:
    """What is wrong with policies, where, and what to write instead.

    PATHs are files and directories, together one set; without any, the directory that the daemon reads. Of policies
    that are applied it is also said what this version does not enforce.
    """
    library = texts.read(paths)
    claims = None if paths else texts.claimable()
    found = check_library(
        library, InstalledPlugins(), claims=claims, enforced=THIS_VERSION, whole=texts.is_whole(paths)
    )
    form = "json" if as_json else form
    if form != "text":
        from gpud.policies.formats import FORMATS

        write(FORMATS[form](found, strict=strict))
    elif found:
        write(f"{human(found, colour=colour(), strict=strict)}\n{summary(found, strict=strict)}\n")
    else:
        parts = (
            counted(len(library.policies), "policy"),
            counted(len(library.tests), "test"),
            counted(len(library.sources), "file"),
        )
        write(f"{', '.join(parts)}: no findings\n")
    return int(any(severity(diagnostic, strict=strict) == "error" for diagnostic in found))
