"""W3C trace context, as `TRACEPARENT` has it: who called, and what a job's program is told. Pure; ids are hex."""

import re
from hashlib import blake2b
from typing import NamedTuple

VARIABLE = "TRACEPARENT"
LONGEST = 256
"""Characters that are looked at: a later version may have more than the 55 of this one."""
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Context(NamedTuple):
    """A span, and whether its trace is recorded."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def text(self) -> str:
        """As the variable has it."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse(text: str) -> Context | None:
    """None: it is none. A later version's may have more to it, which means nothing here."""
    found = _FORM.fullmatch(text)
    if found is None or len(text) > LONGEST:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Context(trace_id, span_id, bool(int(flags, 16) & 1))


def of_job(seed: str, job: int, began_ns: int, caller: Context | None) -> Context:
    """The span of a job, the same for whoever asks with the same words. It joins its caller's trace; without one it
    has a trace of its own."""
    digest = blake2b(f"{seed} {job} {began_ns}".encode(), digest_size=24).hexdigest()
    if caller is None:
        return Context(digest[:32], digest[32:])
    return Context(caller.trace_id, digest[32:], caller.sampled)
