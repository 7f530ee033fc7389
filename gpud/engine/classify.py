"""What a launcher asked for → what the job is. Pure."""

import os.path

from attrs import frozen

from gpud.engine.preempt_mix import PreemptMix
from gpud.model.errors import Refused

_LONGEST = 253
"""Characters of a label's key or value, and of a name."""


@frozen(kw_only=True)
class Classified:
    """A job as admitted."""

    name: str
    job_class: str
    claimed: str | None
    """The class it asked for by name."""
    labels: dict[str, str]
    command: str
    gpu: str | None


def classify(asked: tuple[tuple[str, str], ...], command: str, policy: PreemptMix) -> Classified:
    """Reads the pairs of a LAUNCH. Raises Refused with a sentence for the user."""
    labels: dict[str, str] = {}
    plain: dict[str, str] = {}
    for key, value in asked:
        label = key.removeprefix("label.")
        if label == key:
            if key not in ("class", "name", "command", "gpu"):
                raise Refused(f"this daemon does not know what {key!r} asks for; install the same gpud for both")
            plain[key] = value
        elif not label or len(label) > _LONGEST or len(value) > _LONGEST:
            raise Refused(
                f"the label {label[:40]!r} has no key, or is longer than {_LONGEST} characters; write --label k=v"
            )
        else:
            labels[label] = value
    command = plain.get("command") or command
    name = plain.get("name") or os.path.basename(command.split(" ")[0]) or "?"
    if len(name) > _LONGEST:
        raise Refused(f"the name {name[:40]!r}… is longer than {_LONGEST} characters")
    return Classified(
        name=name,
        job_class=policy.classify(labels, plain.get("class")),
        claimed=plain.get("class"),
        labels=labels,
        command=command,
        gpu=plain.get("gpu"),
    )
