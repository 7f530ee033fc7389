"""From one set of policies to another: states carried over, everybody sorted anew, all pages written. Pure.

Nobody is ever killed by it. A job that the new set would not let in goes on, in whatever class takes it.
"""

from gpud.engine import division, edges, memory_swap, runs, signals, ticking
from gpud.engine.board import Board
from gpud.engine.classify import Placed, place_everywhere
from gpud.engine.peers import update_client
from gpud.engine.standing import class_text, forget
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.events import BoardChanged
from gpud.model.ids import Slot, uuid_text


def needs(state: State, board: Board) -> ticking.Needs:
    """What a reading for the new set must bring."""
    reads = {name for applied in board.applied for name in applied.reads}
    everybody = {(client.id, slot) for client in state.clients.values() for slot in client.slots()}
    return ticking.Needs(
        histograms=frozenset(everybody if "wait_p99" in reads else ()),
        delays=frozenset(everybody if "delay_p99" in reads else ()),
        host="host.memory_free" in reads,
    )


def swap(state: State, event: BoardChanged, now: int) -> list[Effect]:
    """All pages are written once `Reloaded` comes."""
    board: Board = event.board
    before = {job: class_text(state, tenant) for job, tenant in state.tenants.items()}
    changes = _plan(state, board)
    state.board = board
    state.board_generation += 1
    state.strikes = {}
    were = dict(state.runs)
    for slot, device in state.devices.items():
        run, anew = runs.carry(were[slot], state.stack_for(device))
        state.runs[slot] = run
        changes += [f"{name} starts anew" for name in anew]
    swapped = set(state.moves.devices)
    memory_swap.sync(state, now)
    pinned = _sort_anew(state)
    changes += [
        f"job {job} ({state.tenants[job].name}) is {class_text(state, state.tenants[job]) or 'in no class'} now, "
        f"was {was or 'in none'}"
        for job, was in before.items()
        if class_text(state, state.tenants[job]) != was
    ]
    effects: list[Effect] = []
    if event.reading is not None:
        signals.take(state, event.reading, now)
    for slot in sorted(state.runs):
        effects += runs.tick_device(state, slot, now)
        effects += runs.compare(slot, were[slot], state.runs[slot])
    for client in list(state.clients.values()):
        effects += update_client(state, client)
    ticking.plan(state, now)
    changes = list(dict.fromkeys([*changes, *pinned]))
    text = f"policies {board.digest[:8] or 'none'} in force ({event.why}, number {state.board_generation})"
    return [
        *effects,
        *division.settle(state, now),
        *edges.settle(state, now),
        do.SaveState(),
        do.Record(level="info", text=": ".join([text, *(["; ".join(changes)] if changes else [])]), kind=""),
        do.Reloaded(generation=state.board_generation, digest=board.digest, why=event.why, changes=tuple(changes)),
        *_wake(state, swapped - state.moves.devices.keys()),
    ]


def _wake(state: State, slots: set[Slot]) -> list[Effect]:
    """Memory is not swapped there any more: hooks, which may be asleep, bring in what is out, and keep nothing. Each
    message about the lock has an epoch, and none of them is 0."""
    return [
        do.SendLockAgain(client=client.id, slots=frozenset({slot}), epoch=max(state.locks.last_epoch, 1))
        for slot in sorted(slots)
        for client in state.clients_on(slot)
        if client.session is not None and client.id in state.heard
    ]


def _sort_anew(state: State) -> list[str]:
    """Returns a sentence for each pin that means nothing any more, or something again."""
    said: list[str] = []
    for tenant in state.tenants.values():
        was = _is_pinned(tenant.placed)
        tenant.placed = place_everywhere(state.board, tenant.facts, tenant.pin)
        forget(tenant)
        if tenant.pin is not None and was and not _is_pinned(tenant.placed):
            said.append(f"job {tenant.id} stays pinned to {tenant.pin}, which no policy has now: its labels decide")
    return said


def _is_pinned(placed: dict[str, Placed]) -> bool:
    return any(one.how == "pinned" for one in placed.values())


def _plan(state: State, board: Board) -> list[str]:
    """What is different, device by device."""
    changes: list[str] = []
    for slot, device in sorted(state.devices.items()):
        was = {applied.name: applied.program.digest for applied in state.runs[slot].stack}
        now = {applied.name: applied.program.digest for applied in board.stack(device.uuid, device.index)}
        where = f"on device {slot} ({uuid_text(device.uuid)[:12]})"
        changes += [f"{name} does not apply {where} any more" for name in was if name not in now]
        changes += [f"{name} applies {where}" for name in now if name not in was]
        changes += [f"{name} has changed {where}" for name in now if was.get(name, now[name]) != now[name]]
    return changes
