"""What stands between a peer and the daemon: may it ask that, what is changed for it, what of the answer it may see."""

import time
from collections.abc import Awaitable, Callable

import trio
from attrs import Factory, frozen

from gpud.control import wire
from gpud.control.audit import Audit
from gpud.control.authority import Change, Denied, Owner, Peer, Rules
from gpud.control.changes import Changes
from gpud.control.feeds import Looks
from gpud.control.pace import Pace
from gpud.control.server import Streamed
from gpud.control.sight import Sight
from gpud.engine.state import State, Tenant

CHANGES_AT_ONCE, CHANGES_PER_S = 20, 5.0
"""Of one user that is no operator: each writes the state file, and a line. Who asks for more waits."""
LONGEST_WAIT_S = 2.0
_AUDITED = (wire.AskStop, wire.AskReload, wire.AskRollback)

Answer = Callable[[wire.Ask], Awaitable[wire.Answer]]


@frozen(kw_only=True)
class Authorised:
    """The answerer of a daemon, before `answer` and `changes`, which believe that whoever asks may."""

    rules: Rules
    state: State
    audit: Audit
    answers: Answer
    changes: Changes
    looks: Callable[[Peer, Looks], Awaitable[wire.Answer | Streamed]]
    """Shows only what a peer may see."""
    pace: Pace = Factory(lambda: Pace(at_once=CHANGES_AT_ONCE, per_s=CHANGES_PER_S))

    async def answer(self, peer: Peer, ask: wire.Ask) -> wire.Answer | Streamed:
        sight = Sight(self.state, peer, self.rules)
        job: int | None = getattr(ask, "job", None)
        tenant = self._tenant(job)
        try:
            self.rules.check(peer, ask, _owner(tenant))
        except Denied as denied:
            self.audit.denied(peer, ask, job, str(denied))
            return wire.ErrorAnswer(code="refused", text=str(denied))
        hidden = tenant is None or (not sight.whole and job not in sight.own)
        if job is not None and hidden and not isinstance(ask, wire.AskJournal):
            return wire.ErrorAnswer(code="unknown", text=self._missing(job, sight))
        if isinstance(ask, Looks):
            return await self.looks(peer, ask)
        if isinstance(ask, Change):
            return await self._change(peer, ask, sight)
        answer = await self.answers(ask)
        if isinstance(ask, _AUDITED):
            self.audit.changed(peer, ask, None, _result(answer))
        # What is new since the question was put is seen by what the peer may see now.
        sight = sight if sight.whole else Sight(self.state, peer, self.rules)
        if isinstance(answer, wire.JobOfAnswer) and not sight.whole and answer.job.id not in sight.own:
            return wire.ErrorAnswer(code="unknown", text="that process belongs to no job of yours")
        seen: wire.Answer = sight.seen(answer)
        return seen

    async def _change(self, peer: Peer, ask: Change, sight: Sight) -> wire.Answer:
        operator = self.rules.is_operator(peer)
        if not operator:
            now = time.monotonic()
            wait_s = self.pace.wait_s(peer.uid, now)
            if wait_s > LONGEST_WAIT_S:
                return wire.ErrorAnswer(code="busy", text="too many changes at once; try again in a few seconds")
            await trio.sleep(wait_s)
        answer = await self.changes.answer(peer, ask, operator=operator)
        self.audit.changed(peer, ask, ask.job, _result(answer))
        seen: wire.Answer = sight.seen(answer)
        return seen

    def _tenant(self, job: int | None) -> Tenant | None:
        return self.changes.tenant(job) if job is not None else None

    def _missing(self, job: int, sight: Sight) -> str:
        yours = "" if sight.whole else " of yours"
        there = sorted(job for job in sight.own if job in self.state.tenants)
        known = f"jobs{yours} now: {', '.join(map(str, there[:20]))}" if there else f"there are no jobs{yours} now"
        ended = sight.whole and 0 < job < self.state.next_job
        what = f"job {job} has ended" if ended else f"there is no job {job}{yours}"
        return f"{what}; {known} (gpud ps)"


def _owner(tenant: Tenant | None) -> Owner | None:
    if tenant is None:
        return None
    return Owner(job=tenant.id, name=tenant.name, user=tenant.who.user, uid=tenant.who.uid)


def _result(answer: wire.Answer) -> str:
    match answer:
        case wire.ErrorAnswer():
            return f"not done: {answer.text}"
        case wire.DoneAnswer():
            return answer.text
        case wire.ReloadAnswer():
            return answer.reload.text
    return "done"
