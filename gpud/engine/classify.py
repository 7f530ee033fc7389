"""What a launcher asked for → what the job is, and where each policy puts it. Pure."""

import os.path
import re
from collections.abc import Mapping

from attrs import frozen

from gpud.engine import claims, labels
from gpud.engine.board import Applied, Board
from gpud.model.errors import Refused
from gpud.model.events import Who
from gpud.model.text import one_line
from gpud.policies.label_values import limits, read_label
from gpud.policies.tenants import TenantFacts

UNCLASSIFIED = "unclassified"
"""What screens show for a tenant that no class of an arbiter takes."""
_KEYS = ("class", "name", "command", "gpu", "gpus", "mem", "compute", "exe", "traceparent")
"""Of a LAUNCH, beside `label.K`."""
_POD = re.compile(r"pod([0-9a-f]{8}[-_](?:[0-9a-f]{4}[-_]){3}[0-9a-f]{12})")


@frozen(kw_only=True)
class Asked:
    """What a LAUNCH says, judged for its form."""

    name: str
    pin: str | None
    """The class it asks for by name."""
    labels: dict[str, str]
    command: str
    exe: str
    gpu: str | None
    gpus: int = 0
    """How many devices, whichever; 0: not by number."""
    memory_bytes: int | None = None
    """At most so much on each device; None: as the policy says."""
    compute_ppm: int | None = None
    """Of its GPU time, likewise."""
    traceparent: str = ""
    """The caller's, as it is in its environment; "": none."""


@frozen
class Placed:
    """Where one policy puts a tenant."""

    job_class: str | None
    """None: no class takes it."""
    how: str
    """`match`, `pinned`, `none`."""


def read_launch(asked: tuple[tuple[str, str], ...], command: str) -> Asked:
    """Reads the pairs of a LAUNCH. Raises Refused with a sentence for the user."""
    found: dict[str, str] = {}
    plain: dict[str, str] = {}
    for key, value in asked:
        label = key.removeprefix("label.")
        if label == key:
            if key not in _KEYS:
                raise Refused(f"this daemon does not know what {key!r} asks for; install the same gpud for both")
            plain[key] = value
            continue
        labels.check_label(label, value)
        if found.setdefault(label, value) != value:
            raise Refused(
                f"the label {label!r} is given twice, as {found[label]!r} and {value!r}; a label has one value"
            )
    command = one_line(plain.get("command") or command)
    exe = plain.get("exe") or command.split(" ")[0]
    name = one_line(plain.get("name") or "") or os.path.basename(command.split(" ")[0]) or "?"
    if len(name) > labels.LONGEST:
        raise Refused(f"the name {name[:40]!r}… is longer than {labels.LONGEST} characters")
    return Asked(
        name=name,
        pin=plain.get("class"),
        labels=found,
        command=command,
        exe=exe,
        gpu=plain.get("gpu"),
        gpus=_number(plain, "gpus", 1, 8) or 0,
        memory_bytes=_number(plain, "mem", 2**20, 2**61),
        compute_ppm=_number(plain, "compute", 1, 1_000_000),
        traceparent=plain.get("traceparent", ""),
    )


def _number(plain: Mapping[str, str], key: str, least: int, most: int) -> int | None:
    text = plain.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise Refused(f"{key} is {text[:40]!r}, which is no number from {least:,} to {most:,}")
    return int(text)


def facts_of(who: Who, job_labels: Mapping[str, str], exe: str) -> TenantFacts:
    """What a policy's `match` may look at. `exe`: of the program, where `who` is the `gpud run` before it."""
    pod = _POD.search(who.cgroup)
    return TenantFacts(
        labels=job_labels,
        exe=exe or who.exe,
        cgroup=who.cgroup,
        user=who.user,
        group=who.group,
        namespace="",  # no cgroup names it
        pod=pod.group(1).replace("_", "-") if pod else "",
    )


def place(applied: Applied, facts: TenantFacts, pin: str | None) -> Placed:
    """One policy's word. A pin holds for arbiters that have such a class; limiters always go by `match`."""
    if applied.arbiter is not None and pin is not None and _has(applied, pin):
        return Placed(pin, "pinned")
    try:
        found = applied.program.classify(facts)
    except Exception:  # a policy's fault must not cost a job its start, nor the daemon its life
        found = None
    return Placed(found.name, "match") if found is not None else Placed(None, "none")


def place_everywhere(board: Board, facts: TenantFacts, pin: str | None) -> dict[str, Placed]:
    """By the digest of each policy (with its arguments) that applies somewhere."""
    return {applied.program.digest: place(applied, facts, pin) for applied in board.applied}


def admit(board: Board, asked: Asked, who: Who, allowed: claims.Claims, system: bool) -> dict[str, Placed]:
    """Where a new job of `gpud run` belongs. Raises Refused: a claim that is not allowed, a class that is not there, no
    class that takes it, a label with a limit that cannot be read."""
    claimed = list(asked.labels.items())
    if asked.pin is not None:
        check_class(board.arbiters, asked.pin)
        claimed.append((claims.CLASS_KEY, asked.pin))
    claims.judge(allowed, system, who, claimed)
    for applied in board.applied:
        for kind, key in applied.label_amounts:
            if key in asked.labels:
                read_label(kind, key, asked.labels[key])
    placed = place_everywhere(board, facts_of(who, asked.labels, asked.exe), asked.pin)
    arbiters = board.arbiters
    if arbiters and all(placed[applied.program.digest].job_class is None for applied in arbiters):
        raise Refused(_no_class(arbiters[0]))
    for applied in board.applied:
        job_class = placed[applied.program.digest].job_class
        if job_class is not None:
            limits(applied.program.ir.class_named(job_class), asked.labels)
    return placed


def check_class(arbiters: tuple[Applied, ...], name: str) -> None:
    """Raises Refused with the classes of the arbiters when none has this one."""
    if not arbiters:
        raise Refused(f"unknown class {name!r}; no policy arbitrates here, so there is no class to choose")
    if not any(_has(applied, name) for applied in arbiters):
        known = "; ".join(f"the policy {a.name} has {', '.join(_classes(a))}" for a in _by_name(arbiters))
        raise Refused(f"unknown class {name!r}; {known}")


def _has(applied: Applied, name: str) -> bool:
    return name in _classes(applied)


def _classes(applied: Applied) -> tuple[str, ...]:
    return tuple(job_class.name for job_class in applied.program.ir.classes)


def _by_name(arbiters: tuple[Applied, ...]) -> list[Applied]:
    return list({applied.name: applied for applied in arbiters}.values())


def _no_class(arbiter: Applied) -> str:
    source = arbiter.program.ir.source
    matches = (
        f"{job_class.name} takes {' '.join(source.text[slice(*job_class.match.span)].split())}"
        for job_class in arbiter.program.ir.classes
    )
    return (
        f"no class of the policy {arbiter.name} takes this job: {'; '.join(matches)}; give it such labels, or choose "
        f"with --class {_classes(arbiter)[0]}"
    )
