"""`gpud man`: manual pages, made of what the verbs say of themselves."""

from collections.abc import Iterator
from pathlib import Path

import click

from gpud.cli.failure import Failure
from gpud.cli.helped import Verb


@click.command(
    "man",
    cls=Verb,
    examples=[
        ("gpud man /usr/local/share/man/man1", "for everybody"),
        ("gpud man ~/.local/share/man/man1", "for yourself: man gpud-run"),
    ],
)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def command(directory: Path) -> None:
    """Write the manual pages into a directory: gpud(1), and one for each verb."""
    written = 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, page in pages():
            (directory / f"{name}.1").write_text(page, encoding="utf-8")
            written += 1
    except OSError as error:
        raise Failure(
            f"cannot write manual pages to {directory}: {(error.strerror or str(error)).lower()}",
            "name a directory that you may write",
        ) from None
    click.echo(f"{written} pages in {directory}")


def pages() -> Iterator[tuple[str, str]]:
    """(`gpud-policy-check`, its page in roff) of every verb."""
    from gpud.cli.verbs import group

    yield from _pages(group(), ("gpud",), None)


def _pages(command: click.Command, path: tuple[str, ...], parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(command, parent=parent, info_name=path[-1], **command.context_settings)
    below = []
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            below.append((name, found))
    yield "-".join(path), _page(command, path, context, below)
    for name, found in below:
        yield from _pages(found, (*path, name), context)


def _page(
    command: click.Command, path: tuple[str, ...], context: click.Context, below: list[tuple[str, click.Command]]
) -> str:
    from gpud import __version__

    page, words = "-".join(path), " ".join(path)
    text = [
        f'.TH "{page.upper()}" "1" "" "gpud {__version__}" "gpud"',
        *(".SH NAME", f"{_roff(page)} \\- {_roff(command.get_short_help_str(100))}"),
        *(".SH SYNOPSIS", f".B {_roff(words)}", _roff(" ".join(command.collect_usage_pieces(context)))),
        *(".SH DESCRIPTION", *_prose(command.help or "")),
    ]
    shown = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    options = [record for one in shown if (record := one.get_help_record(context))]
    text += _list("OPTIONS", options)
    text += _list("VERBS", [(f"{page}-{name}(1)", found.get_short_help_str(100)) for name, found in below])
    if command.epilog:
        text += [".SH NOTES", *_prose(command.epilog)]
    text += _list("EXAMPLES", list(getattr(command, "examples", ())))
    if len(path) > 1:
        text += [".SH SEE ALSO", f".BR {_roff('-'.join(path[:-1]))} (1)"]
    return "\n".join(text) + "\n"


def _list(heading: str, rows: list[tuple[str, str]]) -> list[str]:
    lines = [f".SH {heading}"] if rows else []
    for left, right in rows:
        lines += [".TP", f".B {_roff(left)}", _roff(right)]
    return lines


def _prose(text: str) -> list[str]:
    """Paragraphs; those behind click's mark, a line of `\\b`, keep their lines."""
    lines: list[str] = []
    for paragraph in "\n".join(line.strip() for line in text.strip().split("\n")).split("\n\n"):
        lines.append(".PP")
        if paragraph.startswith("\b\n"):
            lines += [".nf", *map(_roff, paragraph.split("\n")[1:]), ".fi"]
        else:
            lines.append(_roff(" ".join(paragraph.split())))
    return lines


def _roff(text: str) -> str:
    """One line of text: nothing in it is a request or an escape, and a dash stays one that can be typed."""
    line = " ".join(text.split("\n")).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line.startswith((".", "'")) else line
