"""What commands show of the set of policies: what runs, what was refused, what a change does, what ran before."""

from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class RejectedView:
    """The last attempt that did not become the running set."""

    digest: str
    """"" when the directory could not be read at all."""
    at_ns: int
    """Unix time."""
    count: int
    """Attempts since a set was loaded."""
    summary: str
    """One line: `2 errors in 1 file`, `a test fails`."""
    text: str
    """All findings, as `gpud policy check` prints them, without colour."""
    findings: tuple[dict[str, Any], ...] = ()
    """The same as data, as `gpud policy check --format json` has it."""


@frozen(kw_only=True)
class SetView:
    """The set of policies that runs."""

    number: int
    """In the history; 0: the built-in `open`, since nothing else could be loaded."""
    digest: str
    """Hex, of all its files and of `applied`."""
    directory: str
    applied: str | None
    """What `gpud serve --policy` said; it takes the place of the `apply` lines."""
    since_ns: int
    """Unix time."""
    how: str
    """What made it run: `start`, `files`, `hangup`, `asked`, `rollback`, `struck out`, `last good`."""
    probation_ns: int
    """What is left of it; 0: it is over."""
    differs: str = ""
    """Why it is not what the directory holds; "" when it is."""
    rejected: RejectedView | None = None


@frozen(kw_only=True)
class FileView:
    """A file of a set."""

    name: str
    lines: int
    policies: tuple[str, ...]
    tests: int
    applies: int


@frozen(kw_only=True)
class ChangeView:
    """One difference between two sets on a device."""

    sign: str
    """`+` comes, `-` goes, `~` changes, `!` a remark."""
    policy: str
    line: int
    """Of the new text; of the old one for what goes; 0: of no line."""
    text: str
    """`low.max_inflight = 1 → 2`."""


@frozen(kw_only=True)
class DevicePlanView:
    """What a change of the set does on some devices."""

    devices: tuple[int, ...]
    """Slots."""
    others: bool
    """And on every device without a plan of its own."""
    before: str
    """`preempt-mix(quiet = 5ms), quotas`; "" for none."""
    after: str
    changes: tuple[ChangeView, ...]


@frozen(kw_only=True)
class ReloadView:
    """What came of an attempt to change the set."""

    result: str
    """`loaded`, `unchanged`, `rejected`."""
    digest: str
    """Of the set that was tried."""
    text: str
    """One sentence."""
    warnings: str = ""
    """Findings that reject nothing, as text."""
    rejected: RejectedView | None = None
    plan: tuple[DevicePlanView, ...] = ()
    tests: str = ""
    """`13 passed`, `4 passed, 9 not run within 2 s`; "" where none had to run."""
    check_ns: int = 0
    tests_ns: int = 0
    passed_ns: int = 0
    """Monotonic: all checks and tests had passed then."""
    applied_ns: int = 0
    """Monotonic: all pages were written."""


@frozen(kw_only=True)
class HistoryView:
    """A set that ran."""

    number: int
    digest: str
    began_ns: int
    """Unix time."""
    how: str
    files: tuple[str, ...]
    applied: str | None
    running: bool
    proved: bool
    """It ran through its probation."""
    failed: str
    """Why it was given up; "" when it was not."""
