"""What the verbs say of themselves: help that teaches by examples which work, manual pages, a current document."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gpud.cli import man, run, run_options
from gpud.cli.verbs import group
from tests.cli.conftest import ROOT, Gpud

NO_JSON = {"serve", "run", "completion", "man", "policy docs"}
"""They print no result, or one that is a document."""


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All verbs, with the words that name them."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walk(found, (*path, name))


VERBS = {" ".join(path): command for path, command in walk(group())}
EXAMPLES = [(verb, line) for verb, command in VERBS.items() for line, _ in getattr(command, "examples", ())]


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_teaches_by_examples(verb: str) -> None:
    command = VERBS[verb]
    examples = getattr(command, "examples", ())
    assert examples, f"gpud {verb} has no examples"
    text = command.get_help(click.Context(command))
    shown = text.partition("Examples:")[2]
    for line, meaning in examples:
        assert line.split()[-1] in shown
        assert meaning.split()[0] in shown
        assert verb == "" or line.split()[1 : 1 + len(verb.split())] == verb.split()


@pytest.mark.parametrize(("verb", "line"), EXAMPLES)
def test_every_example_is_understood(verb: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "day.gpudtop").touch()
    program, *words = shlex.split(line)
    assert program == "gpud"
    if words[0] == "run":
        _, command = run.parse(words[1:])
        assert command
        return
    parent, found = click.Context(group(), info_name="gpud"), group()
    while isinstance(found, click.Group):
        below = found.get_command(parent, words.pop(0))
        assert below is not None
        parent, found = below.make_context(below.name, list(words), parent), below


def test_run_shows_its_examples_too(gpud: Gpud) -> None:
    said = gpud("run", "--help").stdout
    for line, meaning in run_options.EXAMPLES:
        assert f"  {line}\n      {meaning}\n" in said


@pytest.mark.parametrize("verb", [verb for verb, one in VERBS.items() if not isinstance(one, click.Group)])
def test_whatever_a_program_might_read_comes_as_json(verb: str) -> None:
    options = {flag for one in VERBS[verb].params for flag in one.opts}
    assert ("--json" in options) == (verb not in NO_JSON)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb])
def test_the_document_has_every_verb_and_option(verb: str) -> None:
    """In docs/cli.md, in the section whose heading names the verb, or the group that it belongs to."""
    first, *rest = verb.split()
    sections = (ROOT / "docs" / "cli.md").read_text().split("\n## ")[1:]
    about = "\n".join(text for text in sections if f"gpud {first}" in text.split("\n")[0])
    table = (ROOT / "docs" / "cli.md").read_text().split("\n## ")[0]
    assert f"`gpud {first}" in table
    assert all(f"`{word}" in about or f"gpud {first} {word}" in about for word in rest)
    for one in VERBS[verb].params:
        if isinstance(one, click.Option) and not one.hidden:
            missing = [flag for flag in one.opts if flag not in about and flag not in ("--json", "--help", "-h")]
            assert not missing, f"docs/cli.md, gpud {verb}"


PAGES = dict(man.pages())


def test_there_is_a_page_for_every_verb() -> None:
    assert set(PAGES) == {"-".join(["gpud", *verb.split()]) for verb in VERBS}


@pytest.mark.parametrize("name", list(PAGES))
def test_a_page_says_what_the_verb_says(name: str) -> None:
    page = PAGES[name]
    command = VERBS[name.removeprefix("gpud").replace("-", " ").strip()]
    assert page.startswith('.TH "GPUD')
    sections = re.findall(r"^\.SH (.*)$", page, re.M)
    assert sections[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert "EXAMPLES" in sections
    plain = page.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
    for line, meaning in getattr(command, "examples", ()):
        assert f".TP\n.B {line}\n{meaning}\n" in plain
    options = plain.partition(".SH OPTIONS\n")[2].partition(".SH")[0].split(".TP\n.B ")[1:]
    wanted = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    assert len(options) == len(wanted) + 1
    for one, text in zip(wanted, options, strict=False):
        assert text.startswith(one.opts[0])
    assert options[-1].startswith("-h, --help\n")


def test_what_looks_like_roff_is_text() -> None:
    assert man._roff(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert man._roff("'x") == "\\&'x"
    assert man._roff("a\\nb -- c\nd") == "a\\enb \\-\\- c d"


def test_the_pages_are_valid_roff(tmp_path: Path) -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("no man and groff here")
    for name, page in PAGES.items():
        (tmp_path / f"{name}.1").write_text(page)
    done = subprocess.run(
        ["sh", "-c", 'for page in "$1"/*.1; do echo "== $page"; man --warnings -l "$page" | cat; done', "sh", tmp_path],
        capture_output=True, text=True, timeout=300,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100"},
    )  # fmt: skip
    assert done.stdout.count("EXAMPLES") == len(PAGES)
    assert not done.stderr


def test_man_writes_them(gpud: Gpud, tmp_path: Path) -> None:
    done = gpud("man", str(tmp_path / "man1"))
    assert done.returncode == 0
    assert {path.name for path in (tmp_path / "man1").iterdir()} == {f"{name}.1" for name in PAGES}
    assert gpud("man", str(tmp_path / "man1" / "gpud.1")).returncode == 2
    (tmp_path / "file").touch()
    refused = gpud("man", str(tmp_path / "file" / "man1"))
    assert refused.returncode == 125
    assert "name a directory that you may write" in refused.stderr
