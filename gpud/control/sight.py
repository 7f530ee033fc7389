"""What of an answer a peer may see: others' jobs are taken out, and where a sentence names one it says `another user's
job`. Pure.
"""

import re
from collections.abc import Iterable
from typing import Any

import attrs
import msgspec

from gpud.control.authority import Peer, Rules, Sees
from gpud.engine.state import State
from gpud.model.live_views import Decision, JobRow
from gpud.model.views import JobStats, JobView, UnmanagedView

NOBODY = "another user's job"
_JOB = re.compile(r"\bjob (\d+)\b")
_REST = re.compile(r"(?:, [^()]*)?\)")
"""After a job's name: its class, and the end of the parenthesis."""
_OWN_WORDS = ("name", "command", "labels")
"""Fields of rows that are shown: not sentences of ours."""
_ONE_JOB = ("holder", "held_by")
_SITE = ("reload", "reject", "knob")
"""Kinds of decisions that are about no job."""


class Sight:
    """Of one peer, now."""

    def __init__(self, state: State, peer: Peer, rules: Rules) -> None:
        self._peer = peer
        self.whole = rules.sees(peer) is Sees.ALL
        """Nothing is hidden from it."""
        tenants = (*state.tenants.values(), *(one.tenant for one in state.waiting))
        self.own = frozenset(int(tenant.id) for tenant in tenants if self.whole or tenant.who.uid == peer.uid)
        """Jobs that it may see."""
        self._names = {} if self.whole else {int(tenant.id): tenant.name for tenant in tenants}

    def text(self, text: str) -> str:
        """A sentence without others' jobs."""
        if self.whole or "job " not in text:
            return text
        parts, at = [], 0
        for found in _JOB.finditer(text):
            if found.start() < at:
                continue  # in a name
            number, end = int(found[1]), self._end_of_name(text, found.end(), int(found[1]))
            parts += [text[at : found.start()], text[found.start() : end] if number in self.own else NOBODY]
            at = end
        return "".join([*parts, text[at:]])

    def _end_of_name(self, text: str, at: int, job: int) -> int:
        """Where `(train, high)` after a job's number ends. What stands in the name is its user's: nothing is to be read
        of it, so where it is not as it should be, all ends that may be meant are taken in."""
        if not text.startswith(" (", at):
            return at
        head = f" ({self._names.get(job, '')}"
        rest = _REST.match(text, at + len(head)) if job in self._names and text.startswith(head, at) else None
        if rest is not None:
            return rest.end()
        if job in self.own:
            return at
        end = text.rfind(")", at)
        return len(text) if end < 0 else end + 1

    def seen(self, value: Any) -> Any:
        """The same of an answer, or of any part of it."""
        return value if self.whole else self._seen(value)

    def _seen(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return type(value)(self._seen(one) for one in value if not self._is_hidden(one))
        if isinstance(value, dict):
            return {key: self._seen(one) for key, one in value.items()}
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **self._changed(value, value.__struct_fields__))
        if attrs.has(type(value)):
            return attrs.evolve(value, **self._changed(value, [field.name for field in attrs.fields(type(value))]))
        return value

    def _changed(self, value: Any, names: Iterable[str]) -> dict[str, Any]:
        pairs = ((name, getattr(value, name)) for name in names)
        return {name: now for name, before in pairs if (now := self._field(name, before)) is not before}

    def _field(self, name: str, value: Any) -> Any:
        if name in _OWN_WORDS:
            return value
        if name in _ONE_JOB and isinstance(value, int):
            return value if value in self.own else None
        if name == "jobs" and isinstance(value, tuple) and all(isinstance(one, int) for one in value):
            return tuple(job for job in value if job in self.own)
        return self._seen(value)

    def _is_hidden(self, row: Any) -> bool:
        match row:
            case JobRow():
                return row.uid != self._peer.uid
            case JobView():
                return row.id not in self.own
            case JobStats():
                return row.job.id not in self.own
            case UnmanagedView():
                return row.user != self._peer.user
            case Decision():
                return row.kind not in _SITE if row.job is None else row.job not in self.own
        return False
