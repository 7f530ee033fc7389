"""A set of policy files, read from a directory or from texts. Checked is only what takes two files to see."""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from attrs import frozen

from gpud.policies import ast
from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.parse import parse, policy_names
from gpud.policies.source import NOWHERE, Source, Span

SUFFIX = ".gpol"
TESTS = "tests"
"""The one directory inside a directory of policies that is read too."""
MOST_FILES, MOST_BYTES = 500, 4 << 20
"""Of one set."""
_TRIES = 3


@frozen(slots=False)
class Library:
    """What a set of files says."""

    sources: tuple[Source, ...]
    """Every file that could be read."""
    files: tuple[ast.File, ...]
    """What could be made out in them."""
    diagnostics: tuple[Diagnostic, ...]
    """Of reading, of syntax, and of names and `apply` lines in two files."""
    names: tuple[str, ...]
    """Of the sources, below the directory they were read from."""
    policies: dict[str, tuple[ast.Policy, ast.File]]
    """By name; of two with one name the first."""
    applies: list[tuple[ast.Apply, ast.File]]
    tests: list[tuple[ast.Test, ast.File]]
    broken: tuple[str, ...]
    """Names of policies that are there but could not be made out: no reason to call them unknown."""

    @cached_property
    def digest(self) -> str:
        """Of names and contents, in hex: the same digest, the same set."""
        from hashlib import sha256

        digest = sha256()
        for name, source in sorted(zip(self.names, self.sources, strict=True), key=lambda pair: pair[0]):
            for part in (name, source.text):
                data = part.encode("utf-8", "surrogatepass")
                digest.update(b"%d:" % len(data) + data)
        return digest.hexdigest()


def names_of(library: Library) -> tuple[str, ...]:
    """Its policies, as a help for who named another."""
    names = sorted(library.policies)
    if not names:
        return ("there is no policy at all in these files",)
    more = f", and {len(names) - 8} more" if len(names) > 8 else ""
    return (f"known policies: {', '.join(f'`{name}`' for name in names[:8])}{more}",)


def is_policy_file(name: str) -> bool:
    """Whether an entry of this name in a directory is read. What editors leave there is not: `a.gpol~`, `.a.gpol.swp`,
    `#a.gpol#`, `4913`."""
    return name.endswith(SUFFIX) and not name.startswith((".", "#", "~"))


def read_directory(path: str | Path) -> Library:
    """All policy files of a directory, and of `tests` in it. What cannot be read is a diagnostic."""
    return read_paths([path])


def read_paths(paths: Sequence[str | Path]) -> Library:
    """Directories, as read_directory() does, and single files, as one set."""
    reading = _Reading()
    for path in paths:
        top = os.fspath(path)
        if os.path.isdir(top):
            reading.directory(top)
        elif not reading.file(top, os.path.basename(top)):
            reading.fail(top, "there is no such file or directory")
    return _library(reading.named, reading.found)


def from_texts(texts: Mapping[str, str | bytes]) -> Library:
    """The same of texts by name."""
    reading = _Reading()
    for name, text in sorted(texts.items()):
        reading.content(name, name, text)
    return _library(reading.named, reading.found)


# ----------------------------------------------------------------------------------------------------------- reading


class _Reading:
    """What has been read so far."""

    def __init__(self) -> None:
        self.named: list[tuple[str, Source]] = []
        """Under the names that count for the digest: where the directory lies does not."""
        self.found: list[Diagnostic] = []
        self.size = 0
        self.done: set[str] = set()
        """Paths that are in it: a file may be named beside its directory."""

    def fail(self, path: str, reason: str, *helps: str, code: str = "GP106") -> None:
        shown = _shown(path)
        label = Label(Source(shown, ""), NOWHERE)
        self.found.append(Diagnostic(code, f"cannot read `{shown}`: {reason}", label, helps=helps))

    def directory(self, top: str) -> None:
        """Reads all again if a file vanished meanwhile: an editor that replaces one makes no set without it."""
        before = list(self.named), list(self.found), self.size, set(self.done)
        vanished: list[str] = []
        paths: list[str] = []
        for _ in range(_TRIES):
            self.named, self.found, self.size, self.done = list(before[0]), list(before[1]), before[2], set(before[3])
            paths = self._paths(top)
            vanished = [path for path in paths if not self.file(path, os.path.relpath(path, top))]
            if not vanished:
                break
        for path in vanished:
            self.fail(path, "it vanished meanwhile")
        if not paths and len(self.found) == len(before[1]):
            self.fail(top, "no policies are in it", f"the name of a policy file ends in {SUFFIX}")

    def _paths(self, top: str) -> list[str]:
        names = self._names(top)
        paths = [os.path.join(top, name) for name in names if is_policy_file(name)]
        if TESTS in names:
            tests = os.path.join(top, TESTS)
            paths += [os.path.join(tests, name) for name in self._names(tests) if is_policy_file(name)]
        if len(paths) > MOST_FILES:
            self.fail(top, f"more than {MOST_FILES} policy files", code="GP108")
        return paths[:MOST_FILES]

    def _names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except OSError as error:
            self.fail(directory, _reason(error))
            return []

    def file(self, path: str, name: str) -> bool:
        """Reads one file, once. False: there is none."""
        if os.path.abspath(path) in self.done:
            return True
        if _shown(name) != name:
            self.fail(path, "its name is not UTF-8 text", "give the file another name")
            return os.path.lexists(path)
        try:
            content = _content(path)
        except FileNotFoundError:
            if not os.path.islink(path):
                return False
            self.fail(path, "it is a link to nothing")
        except OSError as error:
            self.fail(path, _reason(error))
        else:
            self.content(_shown(path), name, content)
            self.done.add(os.path.abspath(path))
        return True

    def content(self, shown: str, name: str, content: str | bytes) -> None:
        within, self.size = self.size <= MOST_BYTES, self.size + len(content)
        if self.size > MOST_BYTES:
            if within:
                self.fail(shown, f"the files before it and this have more than {MOST_BYTES >> 20} MiB", code="GP108")
        elif isinstance(content, str):
            self.named.append((name, Source(shown, _plain(content))))
        else:
            try:
                self.named.append((name, Source(shown, _plain(content.decode("utf-8")))))
            except UnicodeDecodeError as error:
                self.found.append(_not_utf8(shown, content, error.start))


def _content(path: str) -> bytes:
    """Never waits for a pipe, and reads no more than counts."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", closefd=True) as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "")
        if not stat.S_ISREG(mode):
            raise OSError(errno.ENXIO, "")
        return file.read(MOST_BYTES + 1)


_REASONS = {
    errno.EISDIR: "it is a directory, not a file",
    errno.ENXIO: "it is no regular file",
    errno.ELOOP: "it is a link that leads back to itself",
    errno.EACCES: "permission denied",
    errno.ENOTDIR: "it is not a directory",
    errno.ENOENT: "it does not exist",
}


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or (os.strerror(error.errno) if error.errno else "it cannot be read").lower()


def _shown(path: str) -> str:
    """A path as it can be printed, whatever its bytes are."""
    return os.fsencode(path).decode("utf-8", "replace")


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _not_utf8(shown: str, content: bytes, at: int) -> Diagnostic:
    offset = len(_plain(content[:at].decode("utf-8")))
    source = Source(shown, _plain(content.decode("utf-8", "replace")))
    label = Label(source, Span(offset, offset + 1), f"the byte 0x{content[at]:02x}")
    return Diagnostic("GP106", "this is not UTF-8 text", label, helps=("save the file in UTF-8",))


# -------------------------------------------------------------------------------------------------------- assembling


def _library(named: list[tuple[str, Source]], found: list[Diagnostic]) -> Library:
    files: list[ast.File] = []
    broken: list[str] = []
    for _, source in named:
        file, problems = parse(source)
        found += problems
        if file is not None:
            files.append(file)
        if problems:
            known = {policy.name.text for policy in file.policies} if file is not None else set()
            broken += [name for name in policy_names(source) if name not in known]
    policies: dict[str, tuple[ast.Policy, ast.File]] = {}
    for file in files:
        for policy in file.policies:
            first = policies.setdefault(policy.name.text, (policy, file))
            if first[0] is not policy:
                found.append(_twice(policy, file, *first))
    applies = [(item, file) for file in files for item in file.applies]
    elsewhere = next(((item, file) for item, file in applies if file is not applies[0][1]), None)
    if elsewhere is not None:
        found.append(_two_sites(*elsewhere, *applies[0]))
    tests = [(item, file) for file in files for item in file.tests]
    names, sources = tuple(name for name, _ in named), tuple(source for _, source in named)
    return Library(sources, tuple(files), tuple(found), names, policies, applies, tests, tuple(broken))


def _twice(policy: ast.Policy, file: ast.File, first: ast.Policy, first_file: ast.File) -> Diagnostic:
    return Diagnostic(
        "GP205",
        f"two policies are called `{policy.name.text}`",
        Label(file.source, policy.name.span, "the second"),
        (Label(first_file.source, first.name.span, "the first"),),
        ("give one of them another name, or delete it",),
    )


def _two_sites(item: ast.Apply, file: ast.File, first: ast.Apply, first_file: ast.File) -> Diagnostic:
    return Diagnostic(
        "GP311",
        "`apply` lines are in more than one file",
        Label(file.source, item.span, "here"),
        (Label(first_file.source, first.span, "and here"),),
        (f"keep all of them in one, for example in `{first_file.source.name}`",),
    )
