"""`gpud policy fmt`: the one layout."""

import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress

import click

from gpud.cli.failure import EXIT_USAGE, Failure, of_system
from gpud.cli.helped import Verb
from gpud.cli.policy import texts
from gpud.cli.policy.output import colour, write
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.format import format_text
from gpud.policies.library import TESTS, Library, from_texts, is_policy_file, read_paths
from gpud.policies.render import counted, human


@click.command(
    "fmt",
    cls=Verb,
    epilog="Exit codes: 0 done, 1 something would change (--check, --diff) or is no policy, 2 usage.",
    examples=[
        ("gpud policy fmt policies", "rewrite what is not in the layout"),
        ("gpud policy fmt --check policies", "in CI: 1 when something would change"),
    ],
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("--check", is_flag=True, help="Change nothing; name the files that would change.")
@click.option("--diff", is_flag=True, help="Change nothing; show what would change.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: files changed, or that would be, and findings.")
def command(paths: tuple[str, ...], check: bool, diff: bool, as_json: bool) -> int:
    """Puts policies into the one layout. Comments stay, and so does the meaning.

    PATHs are files and directories; `-` is standard input, to standard output. A file with syntax errors is left as it
    is.
    """
    if "-" in paths:
        if len(paths) > 1:
            raise Failure("`-` stands alone", "give either `-` or paths", code=EXIT_USAGE)
        return _standard_input(check or diff)
    changed: list[str] = []
    wrong: list[Diagnostic] = []
    for path in _files(texts.chosen(paths)):
        library = read_paths([path])
        if found := _syntax(library):
            wrong += found
            continue
        (source,) = library.sources
        wanted = format_text(source).encode()
        if wanted == _bytes(path):
            continue
        changed.append(path)
        if diff and not as_json:
            _show(path, source.text, wanted.decode())
        elif not (check or diff):
            _replace(path, wanted)
    if as_json:
        from gpud.policies.formats import as_data

        document = {"changed": changed, "findings": [as_data(diagnostic) for diagnostic in wrong]}
        write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        _tell(changed, wrong, check, diff)
    return int(bool(wrong) or ((check or diff) and bool(changed)))


def _tell(changed: list[str], wrong: list[Diagnostic], check: bool, diff: bool) -> None:
    if wrong:
        click.echo(human(wrong, colour=colour()), err=True)
    if not diff:
        verb = "would change" if check else "changed"
        write("".join(f"{verb} {path}\n" for path in changed))
    left = f"; {counted(len({d.primary.source.name for d in wrong}), 'file')} left alone" if wrong else ""
    write(f"{counted(len(changed), 'file')} {'would change' if check or diff else 'changed'}{left}\n")


def _standard_input(check: bool) -> int:
    content = sys.stdin.buffer.read()
    library = from_texts({"<stdin>": content})
    if found := _syntax(library):
        click.echo(human(found, colour=colour()), err=True)
        return 1
    wanted = format_text(library.sources[0])
    if check:
        return int(wanted.encode() != content)
    write(wanted)
    return 0


def _syntax(library: Library) -> list[Diagnostic]:
    """What keeps a file from being laid out."""
    return [diagnostic for diagnostic in library.diagnostics if diagnostic.code.startswith("GP1")]


def _files(paths: Sequence[str]) -> Iterator[str]:
    """The files themselves, as a set of policies has them; a link stands for what it points to."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for directory in (path, os.path.join(path, TESTS)):
            names: list[str] = []
            try:
                names = sorted(os.listdir(directory))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise of_system(error) from error
            yield from (os.path.join(directory, name) for name in names if is_policy_file(name))


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise of_system(error) from error


def _show(path: str, before: str, after: str) -> None:
    from difflib import unified_diff

    lines = unified_diff(before.splitlines(True), after.splitlines(True), f"{path} (now)", f"{path} (wanted)")
    write("".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines))


def _replace(path: str, content: bytes) -> None:
    """Whole or not at all, with the mode and, where that is possible, the owner that the file has."""
    path = os.path.realpath(path)
    directory, name = os.path.split(path)
    temporary = ""
    try:
        before = os.stat(path)
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "permission denied", path)
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=directory)
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            with suppress(PermissionError):
                os.fchown(handle, before.st_uid, before.st_gid)
            os.fchmod(handle, stat.S_IMODE(before.st_mode))
            os.fsync(handle)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)
        reason = (error.strerror or str(error)).lower()
        raise Failure(f"cannot write {path}: {reason}", "nothing was changed in it") from error
