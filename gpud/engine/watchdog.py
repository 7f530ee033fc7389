"""Policies that take too long, or fail. Pure: the time comes from `state.cpu_ns`."""

from gpud.engine.board import Applied
from gpud.engine.state import Ran, State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.units import MILLISECOND, SECOND, format_duration

LONGEST_NS = 1 * MILLISECOND
"""CPU time of one tick of one policy: more is a strike. (Wall time would eject good policies on a busy machine.)"""
STRIKES = 3
WITHIN_NS = 10 * SECOND


def judge(state: State, applied: Applied, ran: Ran, spent_ns: int, now: int) -> list[Effect]:
    """After a tick that took so much CPU time."""
    if spent_ns <= LONGEST_NS:
        return []
    digest = applied.program.digest
    strikes = state.strikes[digest] = [at for at in state.strikes.get(digest, ()) if now - at < WITHIN_NS] + [now]
    took = f"a tick of the policy {applied.name} took {format_duration(spent_ns)} of CPU time"
    if len(strikes) < STRIKES:
        return [do.Record(level="warning", text=f"{took}, over {format_duration(LONGEST_NS)}: strike")]
    del state.strikes[digest]
    text = f"{took}, the third over {format_duration(LONGEST_NS)} within 10s"
    return failed(applied, ran, text, state.board_generation)


def failed(applied: Applied, ran: Ran, text: str, generation: int) -> list[Effect]:
    """It does not tick any more; what it decided last holds until another set of policies comes."""
    ran.failed = True
    return [
        do.Record(level="warning", text=f"the policy {applied.name} is put out of action: {text}"),
        do.StruckOut(policy=applied.name, text=text, generation=generation),
    ]
