"""A line of `gpud doctor`."""

from collections.abc import Iterator

from attrs import frozen

OK, WARN, FAIL = "ok", "warn", "fail"


@frozen(kw_only=True)
class Finding:
    """One line of the doctor's report."""

    check: str
    result: str
    """`ok`, `warn` (something will not work, or not well) or `fail` (nothing will)."""
    text: str
    remedy: str = ""


Findings = Iterator[Finding]
