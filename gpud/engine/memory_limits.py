"""`limit { memory, over_memory }`: how much device memory a job may hold, and what becomes of an allocation beyond it.
Pure."""

import math
from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from gpud.engine.board import Applied, nanoseconds
from gpud.engine.state import Tenant
from gpud.policies.label_values import readable
from gpud.policies.quantities import show_value
from gpud.policies.types import Type
from gpud.policies.values import Choice


@frozen(kw_only=True)
class Limit:
    """Of one job on one device, by the tightest policy."""

    bytes: int | None
    """None: unlimited."""
    wait_ns: int
    """How long an allocation that does not fit may wait; 0: it fails at once."""
    applied: Applied | None
    """None: no policy says anything."""
    job_class: str
    by: str = ""
    """Who has set it, beside the policies."""

    @property
    def place(self) -> str:
        """`quotas.gpol:15`, where the limit stands, or who set it; "" without one."""
        if self.by:
            return f"set by {self.by}"
        if self.applied is None or self.bytes is None:
            return ""
        return self._line("memory")

    @property
    def waits_at(self) -> str:
        """Likewise, where it stands that an allocation that does not fit waits."""
        return self._line("over_memory") if self.wait_ns else ""

    def _line(self, name: str) -> str:
        assert self.applied is not None
        ir = self.applied.program.ir
        limit = ir.class_named(self.job_class).limit
        assert limit is not None
        return f"{ir.source.name}:{ir.source.position(limit.settings[name].span.start)[0]}"


NO_LIMIT = Limit(bytes=None, wait_ns=0, applied=None, job_class="")


def limit_of(stack: Sequence[Applied], tenant: Tenant) -> Limit:
    """Of several the least holds, and what its policy says of allocations beyond it; of equal ones, who fails them."""
    found: list[Limit] = []
    for applied in stack:
        placed = tenant.placed.get(applied.program.digest)
        if placed is None or placed.job_class is None:
            continue
        said: dict[str, Any] = readable(applied.program.ir.class_named(placed.job_class), tenant.labels)
        if "memory" in said or "over_memory" in said:
            most = said.get("memory", math.inf)
            found.append(
                Limit(
                    bytes=None if most is None or most == math.inf else int(most),
                    wait_ns=_wait_ns(said.get("over_memory")),
                    applied=applied,
                    job_class=placed.job_class,
                )
            )
    return min(
        found, key=lambda limit: (math.inf if limit.bytes is None else limit.bytes, limit.wait_ns), default=NO_LIMIT
    )


def limit_for(stack: Sequence[Applied], tenant: Tenant) -> Limit:
    """Likewise, or what a person has said of this job, where that is less."""
    found, said = limit_of(stack, tenant), tenant.memory
    if said is None or (found.bytes is not None and found.bytes <= said.value):
        return found
    return evolve(found, bytes=said.value, by=said.by.name)


def promise_of(applied: Applied, tenant: Tenant) -> int:
    """What one policy's limit promises a job, bytes; 0: nothing."""
    return limit_of((applied,), tenant).bytes or 0


def shown(count: float) -> str:
    """As the language writes it: `24GiB`."""
    return str(show_value(count, Type.BYTES))


def _wait_ns(word: object) -> int:
    if isinstance(word, Choice) and word.word == "wait":
        return nanoseconds(word.argument)
    return 0
