"""A device of 1 GiB whose memory is swapped, and clients whose hooks do what they are told when a test says so."""

from gpud.engine import memory_swap
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Slot
from gpud.model.units import MILLISECOND
from tests.engine.conftest import World, board, new_state, only

ZERO = Slot(0)
MIB = 1 << 20
SWAPS = """
  class job { match any }
  arbitrate exclusive { max_hold = 10s  min_hold = 0s  grace = 2s  idle_release = 500ms }
  swap { tiers = [host(max = 4GiB)] }
"""


class Swaps(World):
    """Clients whose hooks do what they are told, when the test says so. The device has 1 GiB."""

    def __init__(self, policy: str = SWAPS) -> None:
        super().__init__(new_state(board(("swaps", policy))))
        self.rows: dict[ClientId, Counters] = {}
        self.numbers = 0

    @property
    def held(self) -> dict[tuple[ClientId, Slot], Counters]:
        return {(client, ZERO): found for client, found in self.rows.items() if client in self.state.clients}

    def join(self, lazy: int = 0, resident: int = 0) -> ClientId:
        client = self.low()
        self.rows[client] = Counters(lazy_bytes=lazy, resident_bytes=resident, used_bytes=lazy + resident)
        return client

    def set(self, client: ClientId, **fields: int) -> None:
        self.rows[client] = self.rows[client]._replace(**fields)

    def ask(self, client: ClientId) -> list[Effect]:
        self.numbers += 1
        return self.react(
            ev.LockAsked(
                client=client, request=self.numbers, slots=frozenset({ZERO}), explicit=False, wait_ns=None,
                held=self.held,
            )
        )  # fmt: skip

    def epoch(self) -> int:
        turn = self.state.locks.lines[ZERO].turn
        return turn.epoch if turn is not None else 1

    def is_in(self, client: ClientId, short: bool = False) -> list[Effect]:
        """What it lacked has come, unless `short`."""
        row = self.rows[client]
        if not short:
            come = row.host_bytes + row.lazy_bytes
            self.set(client, resident_bytes=row.resident_bytes + come, host_bytes=0, lazy_bytes=0)
        return self.react(
            ev.LockIsIn(
                client=client, slots=frozenset({ZERO}), epoch=self.epoch(), bytes=0, short=short, took_ns=1,
                held=self.held,
            )
        )  # fmt: skip

    def back(self, client: ClientId) -> list[Effect]:
        return self.react(
            ev.LockBack(
                client=client, slots=frozenset({ZERO}), epoch=self.epoch(), overrun=False, never=False,
                held=self.held,
            )
        )  # fmt: skip

    def leaves(self, asked: do.SwapOut, moved: int | None = None, code: int = memory_swap.DONE) -> list[Effect]:
        """It does what it was asked, or less."""
        moved = asked.bytes if moved is None else moved
        row = self.rows[asked.client]
        self.set(asked.client, resident_bytes=row.resident_bytes - moved, host_bytes=row.host_bytes + moved)
        return self.react(
            ev.Swapped(
                client=asked.client, slot=asked.slot, request=asked.request, code=code, bytes=moved, held=self.held
            )
        )

    def slots(self, client: ClientId, count: int, arrives: bool = True) -> list[Effect]:
        effects = self.react(ev.SlotsAsked(client=client, slot=ZERO, request=1, bytes=count, held=self.held))
        for made in only(effects, do.MakeHostSlots) if arrives else []:
            self.set(client, slots_bytes=self.rows[client].slots_bytes + made.bytes)
        return effects

    def look(self, ns: int) -> list[Effect]:
        return self.ticks(ns, self.rows)

    def has(self, client: ClientId) -> bool:
        turn = self.state.locks.lines[ZERO].turn
        return turn is not None and client in turn.clients and turn.revoked_ns is None

    def fill(self, count: int) -> ClientId:
        """A client that has had a turn, and has so much on the device."""
        client = self.join(lazy=count)
        self.ask(client)
        self.is_in(client)
        return client

    def passes(self, one: ClientId, other: ClientId) -> list[Effect]:
        """The turn goes from one to the other."""
        effects = self.ask(other)
        while not self.has(other):
            effects += self.look(600 * MILLISECOND)
            if only(effects, do.SendLockRevoked):
                effects += self.back(one)
        return effects
