"""Jobs that a policy ends: their processes are signalled as by `gpud kill`, and the policy's line is in the audit."""

import math

import trio
from attrs import Factory, frozen

from gpud.control.audit import Audit
from gpud.control.changes import Changes, Ended
from gpud.model.effects import EndJob
from gpud.model.errors import Refused


@frozen(kw_only=True)
class Ending:
    """Of a daemon."""

    changes: Changes
    audit: Audit
    _asked: tuple[trio.MemorySendChannel[EndJob], trio.MemoryReceiveChannel[EndJob]] = Factory(
        lambda: trio.open_memory_channel[EndJob](math.inf)
    )

    def end(self, effect: EndJob) -> None:
        self._asked[0].send_nowait(effect)

    async def run(self) -> None:
        """Until cancelled; one after the other, since /proc may hang."""
        async for effect in self._asked[1]:
            tenant = self.changes.tenant(effect.job)
            if tenant is None:
                continue  # it has ended meanwhile
            try:
                result = await self.changes.kill(tenant, effect.signal, None)
            except (Refused, Ended) as error:
                result = str(error)
            self.audit.ended(effect, result)
