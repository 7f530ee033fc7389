"""Reading a directory of policies: which files count, and what is said of those that cannot be read."""

import errno
import os
import time
from pathlib import Path

import pytest

from gpud.policies import library as library_module
from gpud.policies.library import (
    MOST_BYTES,
    MOST_FILES,
    Library,
    from_texts,
    is_policy_file,
    read_directory,
    read_paths,
)

A = 'gpol 1\npolicy "a" { class x { match any } }\n'
B = 'gpol 1\npolicy "b" { class x { match any } }\n'
SITE = 'gpol 1\napply "a" to gpu 0\n'
TEST = 'gpol 1\ntest "t" { policy "a" }\n'


def write(directory: Path, **files: str) -> None:
    for name, text in files.items():
        path = directory / (name.replace("__", "/") + ".gpol")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def said(library: Library) -> list[tuple[str, str, str]]:
    return [(d.code, Path(d.primary.source.name).name, d.message) for d in library.diagnostics]


def only(library: Library) -> tuple[str, str, str]:
    (found,) = said(library)
    return found


# ------------------------------------------------------------------------------------------------------------ reading


def test_a_directory_and_its_tests_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, b=B, a=A, site=SITE, tests__t=TEST, other__c=A)
    library = read_directory(tmp_path)
    assert library.diagnostics == ()
    assert [source.name for source in library.sources] == [
        f"{tmp_path}/{name}.gpol" for name in ("a", "b", "site", "tests/t")
    ]
    assert list(library.policies) == ["a", "b"]
    assert library.policies["b"][1].source.name == f"{tmp_path}/b.gpol"
    assert [file.source.name for _, file in library.applies] == [f"{tmp_path}/site.gpol"]
    assert [test.name.text for test, _ in library.tests] == ["t"]


def test_names_are_shown_as_the_user_gave_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "policies", a=A)
    monkeypatch.chdir(tmp_path)
    assert read_directory("policies").sources[0].name == "policies/a.gpol"
    assert read_paths(["policies/a.gpol"]).sources[0].name == "policies/a.gpol"


@pytest.mark.parametrize(
    "name",
    ["a.gpol~", ".a.gpol", ".a.gpol.swp", "#a.gpol#", ".#a.gpol", "4913", "a.tmp", "~a.gpol", "a.gpol.tmp", "gpol"],
)
def test_what_editors_leave_is_no_policy(name: str, tmp_path: Path) -> None:
    assert not is_policy_file(name)
    write(tmp_path, b=B)
    (tmp_path / name).write_text("half a po")
    assert list(read_directory(tmp_path).policies) == ["b"]
    assert read_directory(tmp_path).diagnostics == ()


def test_a_syntax_error_in_one_file_hides_nothing_in_others(tmp_path: Path) -> None:
    write(
        tmp_path, a=A, b='gpol 1\npolicy "b" { class }\n', c='gpol 1\npolicy "c" { let x = }\npolicy "d" { doc "d" }\n'
    )
    library = read_directory(tmp_path)
    assert [(code, name) for code, name, _ in said(library)] == [("GP101", "b.gpol"), ("GP101", "c.gpol")]
    assert list(library.policies) == ["a", "d"]
    assert library.broken == ("b", "c")


def test_byte_order_mark_and_newlines_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.gpol").write_bytes(b"\xef\xbb\xbf" + A.replace("\n", "\r\n").encode())
    library = read_directory(tmp_path)
    assert library.diagnostics == ()
    assert library.sources[0].text == A


def test_bytes_that_are_no_text_are_shown_where_they_are(tmp_path: Path) -> None:
    write(tmp_path, a=A)
    (tmp_path / "b.gpol").write_bytes('gpol 1\r\n# ä\r\npolicy "'.encode() + b'\xff" {}\n')
    library = read_directory(tmp_path)
    (diagnostic,) = library.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("GP106", "this is not UTF-8 text")
    assert diagnostic.primary.source.position(diagnostic.primary.span.start) == (3, 9)
    assert diagnostic.primary.text == "the byte 0xff"
    assert list(library.policies) == ["a"]


# -------------------------------------------------------------------------------------------- what cannot be read


def test_a_directory_that_is_missing_or_empty(tmp_path: Path) -> None:
    code, _, message = only(read_directory(tmp_path / "absent"))
    assert (code, message) == ("GP106", f"cannot read `{tmp_path}/absent`: there is no such file or directory")
    code, _, message = only(read_directory(tmp_path))
    assert (code, message) == ("GP106", f"cannot read `{tmp_path}`: no policies are in it")
    (tmp_path / "README").write_text("no policy")
    assert "no policies are in it" in only(read_directory(tmp_path))[2]


def test_a_directory_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a=A, tests__t=TEST)
    listdir = os.listdir

    def refuse(path: str) -> list[str]:
        if path.endswith(refused):
            raise PermissionError(errno.EACCES, "")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    refused = tmp_path.name
    assert only(read_directory(tmp_path))[2] == f"cannot read `{tmp_path}`: permission denied"
    refused = "tests"
    library = read_directory(tmp_path)
    assert only(library)[2] == f"cannot read `{tmp_path}/tests`: permission denied"
    assert list(library.policies) == ["a"], "the others are read"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a=A, b=B)
    opened = os.open

    def refuse(path: str, flags: int) -> int:
        if path.endswith("a.gpol"):
            raise PermissionError(errno.EACCES, "")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    library = read_directory(tmp_path)
    assert only(library) == ("GP106", "a.gpol", f"cannot read `{tmp_path}/a.gpol`: permission denied")
    assert list(library.policies) == ["b"]


def test_what_is_no_file(tmp_path: Path) -> None:
    write(tmp_path, a=A)
    (tmp_path / "d.gpol").mkdir()
    os.mkfifo(tmp_path / "p.gpol")
    (tmp_path / "loop.gpol").symlink_to("loop.gpol")
    (tmp_path / "gone.gpol").symlink_to("nowhere")
    (tmp_path / "tests").write_text("a file")
    begin = time.monotonic()
    library = read_directory(tmp_path)
    assert time.monotonic() - begin < 60, "it waits for no writer of a pipe"
    assert {name: message.split(": ")[1] for _, name, message in said(library)} == {
        "d.gpol": "it is a directory, not a file",
        "p.gpol": "it is no regular file",
        "loop.gpol": "it is a link that leads back to itself",
        "gone.gpol": "it is a link to nothing",
        "tests": "it is not a directory",
    }
    assert list(library.policies) == ["a"]


def test_links_are_followed_as_a_cluster_makes_them(tmp_path: Path) -> None:
    write(tmp_path / "..2026_1", a=A)
    (tmp_path / "..data").symlink_to("..2026_1")
    (tmp_path / "a.gpol").symlink_to("..data/a.gpol")
    library = read_directory(tmp_path)
    assert library.diagnostics == ()
    assert list(library.policies) == ["a"]


def test_a_file_that_is_being_replaced_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a=A, b=B)
    content, missing = library_module._content, 1

    def vanish(path: str) -> bytes:
        nonlocal missing
        if path.endswith("b.gpol") and missing:
            missing -= 1
            raise FileNotFoundError(errno.ENOENT, "")
        return content(path)

    monkeypatch.setattr(library_module, "_content", vanish)
    library = read_directory(tmp_path)
    assert library.diagnostics == ()
    assert list(library.policies) == ["a", "b"]
    missing = 100
    library = read_directory(tmp_path)
    assert only(library) == ("GP106", "b.gpol", f"cannot read `{tmp_path}/b.gpol`: it vanished meanwhile")
    assert list(library.policies) == ["a"]


def test_a_name_that_is_no_text_is_told_and_can_be_shown(tmp_path: Path) -> None:
    """Two such names would be one wherever they are shown and kept."""
    for name in (b"/\xff.gpol", b"/\xfe.gpol"):
        with open(os.fsencode(tmp_path) + name, "w") as file:
            file.write("gpol 1\npolicy {")
    library = read_directory(tmp_path)
    assert [found.code for found in library.diagnostics] == ["GP106"] * 2
    for found in library.diagnostics:
        assert found.message == f"cannot read `{tmp_path}/\ufffd.gpol`: its name is not UTF-8 text"
        found.primary.source.name.encode()
    assert library.sources == ()


def test_a_directory_whose_name_is_no_text_is_read(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(directory)
    with open(directory + b"/a.gpol", "w") as file:
        file.write('gpol 1\npolicy "a" { class low { match any } }')
    assert read_directory(os.fsdecode(directory)).names == ("a.gpol",)


def test_too_much_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.gpol").write_text("gpol 1\n" + "#" * (1 << 20))
    assert only(read_directory(tmp_path))[:2] == ("GP108", "a.gpol")
    texts = {f"{n:03}": "#" * (1 << 17) for n in range(40)}
    library = from_texts(texts)
    assert sum(len(source.text) for source in library.sources) <= MOST_BYTES
    assert [code for code, _, _ in said(library)].count("GP108") == 1
    write(tmp_path / "many", **{f"p{n}": "" for n in range(MOST_FILES + 1)})
    library = read_directory(tmp_path / "many")
    assert len(library.sources) == MOST_FILES
    assert said(library)[0][2] == f"cannot read `{tmp_path}/many`: more than {MOST_FILES} policy files"


# ------------------------------------------------------------------------------------------------------- across files


def test_one_name_in_two_files() -> None:
    library = from_texts({"a.gpol": A, "z.gpol": B + 'policy "a" {}\n'})
    (diagnostic,) = library.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("GP205", "two policies are called `a`")
    assert (diagnostic.primary.source.name, diagnostic.primary.source.position(diagnostic.primary.span.start)) == (
        "z.gpol",
        (3, 8),
    )
    (label,) = diagnostic.labels
    assert (label.source.name, label.source.position(label.span.start)) == ("a.gpol", (2, 8))
    assert library.policies["a"][1].source.name == "a.gpol"


def test_one_name_twice_in_a_file() -> None:
    assert only(from_texts({"a.gpol": A + 'policy "a" {}\n'}))[0] == "GP205"


def test_apply_lines_in_two_files() -> None:
    library = from_texts({"a.gpol": A, "s.gpol": SITE, "t.gpol": SITE + 'apply "a" to gpu 1\n'})
    (diagnostic,) = library.diagnostics
    assert (diagnostic.code, diagnostic.primary.source.name) == ("GP311", "t.gpol")
    assert diagnostic.labels[0].source.name == "s.gpol"
    assert "`s.gpol`" in diagnostic.helps[0]
    assert len(library.applies) == 3


# ------------------------------------------------------------------------------------------------------------- digest


def test_the_digest_is_of_names_and_contents_and_not_of_the_place(tmp_path: Path) -> None:
    for place in ("one", "two"):
        write(tmp_path / place, a=A, tests__t=TEST)
    digest = read_directory(tmp_path / "one").digest
    assert read_directory(tmp_path / "two").digest == digest
    assert len(digest) == 64
    write(tmp_path / "two", a=A + "#")
    assert read_directory(tmp_path / "two").digest != digest
    write(tmp_path / "two", a=A)
    (tmp_path / "two" / "a.gpol").rename(tmp_path / "two" / "b.gpol")
    assert read_directory(tmp_path / "two").digest != digest
    assert from_texts({"a": "b"}).digest != from_texts({"ab": ""}).digest


def test_a_set_of_nothing_is_a_set() -> None:
    assert from_texts({}).policies == {}


def test_a_file_named_beside_its_directory_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "p", a=A, b=B)
    monkeypatch.chdir(tmp_path)
    library = read_paths(["p", "p/a.gpol", tmp_path / "p" / "b.gpol"])
    assert library.diagnostics == ()
    assert list(library.policies) == ["a", "b"]
