"""Who holds what of one device's memory, and who must give how much for whom. Pure.

    owned + pool + residue = total

owned: what clients have on the device; residue: what the driver holds beside it (contexts, modules, programs without
gpud); pool: free. A client's own word (its activity page) is what counts; between two looks the ledger adds what is on
its way, so that nobody is asked twice for the same bytes and no byte is granted twice.
"""

from collections.abc import Collection, Iterable, Mapping

from attrs import Factory, define, frozen

from gpud.model.ids import ClientId


@frozen(kw_only=True)
class Held:
    """Of one client on the device, bytes."""

    resident: int = 0
    """On the device, and able to leave it."""
    host: int = 0
    """In host slots, and not on the device."""
    lazy: int = 0
    """Neither: addresses without contents."""
    pinned: int = 0
    """On the device, and unable to leave it."""
    used_ns: int = 0
    """When it last used the device: who is coldest goes first by `oldest`."""

    @property
    def owned(self) -> int:
        return self.resident + self.pinned


@frozen(kw_only=True)
class Plan:
    """For one who shall come in."""

    now: int
    """Bytes that may come in, as there is room: that which is free, which is leaving, and which `leave` gives."""
    leave: tuple[tuple[ClientId, int], ...]
    """Who is asked for how much, in this order."""
    short: int
    """What nobody can give."""


NOTHING = Held()
STEP = 16 << 20
"""So much more is looked for at a time, where there is less than there should be."""


@define(kw_only=True)
class Ledger:
    """Of one device."""

    total: int
    residue: int = 0
    held: dict[ClientId, Held] = Factory(dict)
    leaving: dict[ClientId, int] = Factory(dict)
    """Asked to leave, and still on the device."""
    coming: dict[ClientId, int] = Factory(dict)
    """Granted, and not on the device yet."""

    @property
    def owned(self) -> int:
        return sum(held.owned for held in self.held.values())

    @property
    def pool(self) -> int:
        """Free. Below zero: the figures of clients and driver do not fit together, and nothing is granted."""
        return self.total - self.residue - self.owned

    @property
    def free(self) -> int:
        """Of the pool, what nobody was granted. Below zero while what was granted is still on its way out."""
        return self.pool - sum(self.coming.values())

    def learn(self, client: ClientId, held: Held) -> None:
        """What its page says now. What it has let go is not on its way any more; what it has taken in, neither."""
        before = self.held.get(client, NOTHING)
        self.held[client] = held
        self._less(self.leaving, client, before.resident - held.resident)
        self._less(self.coming, client, held.owned - before.owned)
        if client in self.leaving:
            self._less(self.leaving, client, self.leaving[client] - held.resident)

    def learn_short(self, lack: int) -> None:
        """Who lacks so much finds no memory, though there should be some: not all of it is there, or not in pieces of
        its size."""
        self.residue = max(self.residue, self.total - self.owned - max(lack - STEP, 0))

    def gone(self, client: ClientId) -> None:
        """It is dead, and the driver has taken its memory back."""
        for kept in (self.held, self.leaving, self.coming):
            kept.pop(client, None)

    def plan(
        self,
        client: ClientId,
        want: int,
        *,
        may_leave: Collection[ClientId],
        evict: str = "oldest",
        keep: int = 0,
        room: Mapping[ClientId, int] | None = None,
    ) -> Plan:
        """What must happen so that `want` bytes of a client can come in, and `keep` stay free. Changes nothing.

        `may_leave`: who does not have the device. `room`: bytes that each of them can put somewhere; None: all. Nobody
        is asked for more than is missing, less what others are giving already.
        """
        missing = max(want - (self.free - keep) - sum(self.leaving.values()), 0)
        leave: list[tuple[ClientId, int]] = []
        for victim in self._order(may_leave, client, evict):
            if not missing:
                break
            can = max(self.held[victim].resident - self.leaving.get(victim, 0), 0)
            if room is not None:
                can = min(can, room.get(victim, 0))
            count = min(can, missing)
            if count:
                leave.append((victim, count))
                missing -= count
        there = self.free + sum(self.leaving.values()) + sum(count for _, count in leave) - keep
        return Plan(now=min(want, max(there, 0)), leave=tuple(leave), short=missing)

    def lacks(
        self, want: int, *, may_leave: Iterable[ClientId], keep: int, room: Mapping[ClientId, int], shared: float
    ) -> int:
        """What nobody could give, if somebody who has nothing on the device yet were to come in now with so much, and
        whoever else is on the way in stayed out. `room`: what each can put where nobody else can; `shared`: beyond
        that, all of them together."""
        there, beyond = self.pool + sum(self.leaving.values()) - keep, 0
        for victim in may_leave:
            can = max(self.held.get(victim, NOTHING).resident - self.leaving.get(victim, 0), 0)
            own = min(can, room.get(victim, 0))
            there += own
            beyond += can - own
        there += int(min(beyond, max(shared, 0)))
        return max(want - there, 0)

    def ask(self, client: ClientId, count: int) -> None:
        """A client is asked to let so much go."""
        self.leaving[client] = self.leaving.get(client, 0) + count

    def refused(self, client: ClientId) -> None:
        """It cannot, or not all: the rest stays where it is."""
        self.leaving.pop(client, None)

    def grant(self, client: ClientId, count: int) -> None:
        """So much may come in: of what is free, and of what is on its way out, as it gets there. Raises ValueError
        where there is not so much: then nothing has changed."""
        there = self.free + sum(self.leaving.values())
        if count > max(there, 0):
            raise ValueError(f"{count} bytes were granted of {there} that are free or about to be")
        if count:
            self.coming[client] = self.coming.get(client, 0) + count

    def given_up(self, client: ClientId) -> None:
        """It takes nothing more in: what it was granted and has not taken is free."""
        self.coming.pop(client, None)

    def _order(self, may_leave: Iterable[ClientId], client: ClientId, evict: str) -> list[ClientId]:
        there = [one for one in may_leave if one != client and one in self.held]
        if evict == "largest":
            return sorted(there, key=lambda one: (-self.held[one].resident, self.held[one].used_ns, one))
        return sorted(there, key=lambda one: (self.held[one].used_ns, one))

    @staticmethod
    def _less(kept: dict[ClientId, int], client: ClientId, count: int) -> None:
        if client in kept and count > 0:
            kept[client] -= count
            if kept[client] <= 0:
                del kept[client]
