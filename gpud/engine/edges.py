"""Whether hooks must tell of their edges, device by device: not where somebody looks at presence every few milliseconds
anyway, nor where nobody wants to know. A message costs far more than a look. Pure."""

from gpud.engine import division
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.ids import Slot


def settle(state: State, now: int) -> list[Effect]:
    """Called once after an event that may have changed it. Whoever is to tell of edges again may have gone active just
    before it read that: there is one more look."""
    effects: list[Effect] = []
    for slot in sorted(state.runs):
        told = needed(state, slot, now)
        if told == state.told.get(slot, True):
            continue
        state.told[slot] = told
        effects.append(do.TellEdges(slot=slot, told=told))
        if told and next(state.clients_on(slot), None) is not None:
            again = now + division.STEP_NS
            if _watches(state, slot):
                state.tick_due_ns = again if state.tick_due_ns is None else min(state.tick_due_ns, again)
            if _moves(state, slot):
                state.levels_due_ns = again if state.levels_due_ns is None else min(state.levels_due_ns, again)
    return effects


def needed(state: State, slot: Slot, now: int) -> bool:
    """By policies that wait for edges while nobody is active, or by levels that rest."""
    if _moves(state, slot) and slot not in state.stepping:
        return True
    return not lately(state, slot, now) and _watches(state, slot)


def lately(state: State, slot: Slot, now: int) -> bool:
    """Policies have just seen somebody active there: they go on looking often for a while."""
    return slot in state.active_ns and now - state.active_ns[slot] < division.LINGER_NS


def _watches(state: State, slot: Slot) -> bool:
    run = state.runs[slot]
    return any(applied.watches and not ran.failed for applied, ran in zip(run.stack, run.ran, strict=True))


def _moves(state: State, slot: Slot) -> bool:
    division = state.divisions.get(slot)
    return division is not None and division.moves
