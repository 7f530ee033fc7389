"""A set of policies from its files: read, checked, placed on devices, compiled. Blocking and without trio: it runs in a
thread, for as long as its caller waits."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from attrs import frozen

from gpud.engine.board import Board, build_board
from gpud.engine.enforced import ENFORCED
from gpud.policies.check.whole import check_library
from gpud.policies.diagnostics import Diagnostic, has_errors
from gpud.policies.library import Library, from_texts, read_directory
from gpud.policies.placement import DeviceFacts
from gpud.policies.plugins.declare import Plugins
from gpud.policies.render import summary
from gpud.policies.site import place


class Rejected(Exception):
    """A set that must not run. Nothing has changed."""

    def __init__(self, text: str, findings: Sequence[Diagnostic] = (), details: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.summary = text
        """One line."""
        self.findings = tuple(findings)
        self.details = tuple(details)
        """What is wrong beside the findings: tests that fail."""


@frozen(kw_only=True, eq=False)
class Texts:
    """A set as read."""

    digest: str
    """Hex: of all its files, and of `applied`."""
    files: Mapping[str, str]
    """Name below the directory → text."""
    applied: str | None
    """As Config.applied."""
    library: Library


@frozen(kw_only=True, eq=False)
class PolicySet:
    """A set that may run."""

    texts: Texts
    board: Board
    devices: tuple[DeviceFacts, ...]
    """Those that it was placed on."""
    warnings: tuple[Diagnostic, ...]

    @property
    def digest(self) -> str:
        return self.texts.digest

    @property
    def files(self) -> Mapping[str, str]:
        return self.texts.files

    @property
    def library(self) -> Library:
        return self.texts.library


def read(directory: Path, applied: str | None) -> Texts:
    """The set that a directory holds. What cannot be read becomes findings, for which `load` rejects it."""
    library = read_directory(directory)
    files = {name: source.text for name, source in zip(library.names, library.sources, strict=True)}
    return Texts(digest=_digest(library, applied), files=files, applied=applied, library=library)


def of_files(files: Mapping[str, str], applied: str | None) -> Texts:
    """The set of files that were kept."""
    library = from_texts(files)
    return Texts(digest=_digest(library, applied), files=dict(sorted(files.items())), applied=applied, library=library)


def _digest(library: Library, applied: str | None) -> str:
    """A file that cannot be read counts, too: the set without it is another one."""
    unread = [finding.message for finding in library.diagnostics if finding.code in ("GP106", "GP108")]
    if applied is None and not unread:
        return library.digest
    return sha256("\n".join([library.digest, applied or "", *unread]).encode("utf-8", "surrogatepass")).hexdigest()


def load(
    texts: Texts, devices: Sequence[DeviceFacts], plugins: Plugins, claims: frozenset[str] | None = None
) -> PolicySet:
    """Checks the whole set, places it, compiles it. `claims`: as check_library has it. Raises Rejected with all
    findings."""
    library = texts.library
    found = check_library(library, plugins, devices, texts.applied, claims, ENFORCED, whole=True)
    if has_errors(found):
        raise Rejected(summary(found), found)
    placement, _ = place(library, devices, plugins, texts.applied)
    if not placement.applied:
        raise Rejected("these policies would run nowhere", found)
    return PolicySet(
        texts=texts,
        board=build_board(placement, texts.digest, plugins),
        devices=tuple(devices),
        warnings=tuple(found),
    )
