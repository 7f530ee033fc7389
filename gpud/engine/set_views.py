"""What commands show of sets of policies. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from gpud.engine.history import Entry
from gpud.engine.loading import PolicySet, Rejected
from gpud.model.policy_views import FileView, HistoryView, RejectedView
from gpud.policies.diagnostics import MOST, Diagnostic
from gpud.policies.formats import as_data
from gpud.policies.render import human, one_line

LONGEST = 100_000
"""Characters of all that is wrong, as an answer has bounds."""


def short(digest: str) -> str:
    """`3f2a`: enough to tell a set from the others at hand."""
    return digest[:4]


def text_of(rejected: Rejected) -> str:
    """Everything that is wrong, without colour, each line ended."""
    details = list(rejected.details[:MOST])
    if len(rejected.details) > MOST:
        details.append(f"… and {len(rejected.details) - MOST} more")
    text = findings_text(rejected.findings) + ("\n\n".join(details) + "\n" if details else "")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …\n"


def findings_text(findings: Sequence[Diagnostic]) -> str:
    """As `gpud policy check` prints them, without colour."""
    return human(findings)


def rejected_view(digest: str, rejected: Rejected, at_ns: int, count: int) -> RejectedView:
    """`count`: attempts since a set was loaded, this one with them."""
    return RejectedView(
        digest=digest,
        at_ns=at_ns,
        count=count,
        summary=rejected.summary,
        text=text_of(rejected),
        findings=tuple(_cut(as_data(finding)) for finding in rejected.findings[:MOST]),
    )


def _cut(data: Any) -> Any:
    """A name may be as long as a file; an answer has bounds."""
    if isinstance(data, str):
        return one_line(data)
    if isinstance(data, dict):
        return {key: _cut(value) for key, value in data.items()}
    return [_cut(item) for item in data] if isinstance(data, list) else data


def file_views(shown: PolicySet) -> tuple[FileView, ...]:
    """In the order of their names."""
    files = {id(file.source): file for file in shown.library.files}
    views = []
    for name, source in zip(shown.files, shown.library.sources, strict=True):
        file = files.get(id(source))
        views.append(
            FileView(
                name=name,
                lines=len(source.text.splitlines()),
                policies=tuple(policy.name.text for policy in file.policies) if file else (),
                tests=len(file.tests) if file else 0,
                applies=len(file.applies) if file else 0,
            )
        )
    return tuple(views)


def _some(names: tuple[str, ...]) -> tuple[str, ...]:
    """Twenty sets of five hundred long names would be no answer."""
    more = (f"… and {len(names) - MOST} more",) if len(names) > MOST else ()
    return names[:MOST] + more


def history_views(entries: Iterable[Entry], running: int) -> list[HistoryView]:
    """`running`: number of the one that runs."""
    return [
        HistoryView(
            number=entry.number,
            digest=entry.digest,
            began_ns=entry.began_ns,
            how=entry.how,
            files=_some(tuple(entry.files)),
            applied=entry.applied,
            running=entry.number == running,
            proved=entry.proved,
            failed=entry.failed,
        )
        for entry in entries
    ]
