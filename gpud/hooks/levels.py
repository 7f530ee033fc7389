"""One device, divided: the arrays that a step in C works on. Made anew whenever the engine decides on another division;
what goes on from step to step is taken over."""

from collections.abc import Callable, Iterable
from typing import Any

from gpud.hooks._pages import ffi, lib
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.levels import Barred, Division, Level, Motion

NONE = lib.GPUD_NONE
_MOTIONS = tuple(Motion)
Places = Callable[[ClientId], tuple[Any, Any, Any]]
"""A client's control, presence and activity page; NULL for one that cannot be seen."""
_LASTING = (
    *("cap_ns", "at_ns", "cap_ppm", "cap_flags", "burst_ns", "window_ns", "wanted_ns", "asks_ppm", "used_ppm", "wants"),
    *("charged_ns", "faults", "strikes", "strike_ns", "barred", "barred_ns", "claims_ns", "claims_spent_ns"),
)
"""Of a tenant, besides its lag and its parts."""
_SEEN = ("seen", "edges", "wanted_ns", "idle_since_ns", "spent_ns", "spent_at_ns", "refundable_ns", "unseen_ns")
"""Of a client, besides its counts."""


class Divided:
    """Not to be used any more once one of its clients' pages is unmapped, but for `forget`."""

    def __init__(
        self, slot: Slot, division: Division, places: Places, before: "Divided | None", resumed: Iterable[Level] = ()
    ) -> None:
        self.slot = slot
        self.division = division
        clients = [client for tenant in division.tenants for client in tenant.clients]
        groups = [total.members for total in division.totals] + [unit.members for unit in division.units]
        members = [member for group in groups for member in group]
        self._clients = ffi.new("struct gpud_level_client[]", len(clients))
        self._tenants = ffi.new("struct gpud_level_tenant[]", len(division.tenants))
        self._totals = ffi.new("struct gpud_level_total[]", len(division.totals))
        self._units = ffi.new("struct gpud_level_unit[]", len(division.units))
        self._pools = ffi.new("struct gpud_level_pool[]", len(division.pools))
        self._members = ffi.new("uint32_t[]", len(members))
        self._asks = ffi.new("struct gpud_ask[]", max(len(clients), len(division.tenants), 1))
        self.rows: dict[ClientId, int] = {client.client: row for row, client in enumerate(clients)}
        self.tenants: dict[JobId, int] = {tenant.tenant: row for row, tenant in enumerate(division.tenants)}
        self._fill_clients(places)
        self._fill_groups()
        if before is not None:
            self._take_over(before)
        self._resume(resumed)
        self._all = ffi.new("struct gpud_divided *")
        whole = self._all
        whole.device, whole.clients, whole.client_count = slot, self._clients, len(clients)
        whole.tenants, whole.tenant_count = self._tenants, len(division.tenants)
        whole.totals, whole.total_count = self._totals, len(division.totals)
        whole.units, whole.unit_count = self._units, len(division.units)
        whole.pools, whole.pool_count = self._pools, len(division.pools)
        whole.members, whole.asks = self._members, self._asks
        if before is not None:
            whole.at_ns, whole.wanting, whole.waiting = before._all.at_ns, before._all.wanting, before._all.waiting

    def amend(self, division: Division) -> bool:
        """The same but for how large totals are? Then that is so from now on."""
        if not division.has_shape_of(self.division):
            return False
        self.division = division
        for to, total in zip(self._totals, division.totals, strict=True):
            to.amount = total.amount
        return True

    def step(self, now: int) -> Motion:
        """Looks, moves on, publishes."""
        found: int = lib.gpud_levels_step(self._all, now)
        return _MOTIONS[found]

    def barred(self) -> dict[JobId, Barred]:
        """Who is not believed, as of the last step."""
        if not self._all.barred:
            return {}
        found = {tenant: self._tenants[row].barred for tenant, row in self.tenants.items()}
        return {tenant: Barred(why) for tenant, why in found.items() if why != lib.GPUD_BARRED_NOT}

    def forget(self, client: ClientId) -> None:
        """Its pages are about to be unmapped."""
        row = self.rows.get(client)
        if row is not None:
            self._clients[row].control = ffi.NULL
            self._clients[row].presence = self._clients[row].activity = ffi.NULL

    def end(self) -> None:
        """Nobody divides the device any more: nobody is there beyond anybody's table."""
        for client in self._clients:
            if client.control != ffi.NULL:
                device = client.control.device[self.slot]
                device.others_active, device.others_lag_ns = 0, -(2**63)

    def levels(self) -> list[Level]:
        """As of the last step."""
        found = []
        for tenant, row in self.tenants.items():
            at = self._tenants[row]
            turns = at.unit != NONE and at.share_ppm
            spent = {client: self._clients[self.rows[client]] for client in self._clients_of(row)}
            found.append(
                Level(
                    tenant=tenant,
                    slot=self.slot,
                    cap_ns=at.cap_ns - at.charged_ns,
                    cap_ppm=None if at.cap_ppm == NONE else at.cap_ppm,
                    lag_ns=at.lag_ns - (at.charged_ns * 1_000_000 // at.share_ppm if turns else 0),
                    share_ppm=at.share_ppm if turns else 0,
                    at_ns=at.at_ns,
                    spent=tuple((client, seen.spent_ns) for client, seen in spent.items() if seen.seen),
                    busy_ppm=at.used_ppm,
                    faults=at.faults,
                    barred=Barred(at.barred) if at.barred != lib.GPUD_BARRED_NOT else None,
                    burst_ns=min(at.burst_ns, 2**62),
                )
            )
        return found

    def _clients_of(self, row: int) -> list[ClientId]:
        return [client.client for client in self.division.tenants[row].clients]

    def _fill_clients(self, places: Places) -> None:
        row = 0
        for number, tenant in enumerate(self.division.tenants):
            at = self._tenants[number]
            at.tenant, at.unit, at.trusted, at.cap_ppm = tenant.tenant, NONE, 1, NONE
            at.hard_ppm = NONE if tenant.hard_ppm is None else tenant.hard_ppm
            at.soft_ppm = NONE if tenant.soft_ppm is None else tenant.soft_ppm
            at.first, at.count = row, len(tenant.clients)
            at.part = [2**64 - 1] * lib.GPUD_TOTALS
            for client in tenant.clients:
                to = self._clients[row]
                to.control, to.presence, to.activity = places(client.client)
                to.client, to.tenant, to.rank = client.client, number, client.rank
                to.flags = client.looks * lib.GPUD_CLIENT_LOOKS + client.counted * lib.GPUD_CLIENT_COUNTED
                to.resume_after_ns = client.resume_after_ns
                to.peer_count = len(client.peers)
                to.peers = [self.rows[peer] for peer in client.peers]
                to.part = [2**64 - 1] * lib.GPUD_TOTALS
                at.awaited += client.awaited
                row += 1

    def _fill_groups(self) -> None:
        at = 0
        for number, total in enumerate(self.division.totals):
            to = self._totals[number]
            to.kind, to.amount, to.window_ns = total.kind, total.amount, total.window_ns
            to.first, to.count = at, len(total.members)
            at = self._enter(total.members, at)
        for number, unit in enumerate(self.division.units):
            group = self._units[number]
            group.pool, group.weight = unit.pool, unit.weight
            group.fixed_ppm = NONE if unit.fixed_ppm is None else unit.fixed_ppm
            group.first, group.count = at, len(unit.members)
            at = self._enter(unit.members, at)
            for member in unit.members:
                self._tenants[self.tenants[member]].unit = number
        for number, pool in enumerate(self.division.pools):
            self._pools[number].period_ns, self._pools[number].open_ppm = pool.period_ns, pool.open_ppm

    def _enter(self, members: Iterable[JobId], at: int) -> int:
        for member in members:
            self._members[at] = self.tenants[member]
            at += 1
        return at

    def _take_over(self, before: "Divided") -> None:
        for tenant, row in self.tenants.items():
            if tenant not in before.tenants:
                continue
            to, old = self._tenants[row], before._tenants[before.tenants[tenant]]
            for name in _LASTING:
                setattr(to, name, getattr(old, name))
            ffi.memmove(to.part, old.part, ffi.sizeof(to.part))
            if to.unit != NONE and old.unit != NONE:
                to.lag_ns, to.share_ppm = old.lag_ns, old.share_ppm
        for client, row in self.rows.items():
            if client not in before.rows:
                continue
            seen, last = self._clients[row], before._clients[before.rows[client]]
            for name in _SEEN:
                setattr(seen, name, getattr(last, name))
            for name in ("counts", "used", "latest", "part"):
                ffi.memmove(getattr(seen, name), getattr(last, name), ffi.sizeof(getattr(seen, name)))
        totals = {total.key: number for number, total in enumerate(before.division.totals)}
        for number, total in enumerate(self.division.totals):
            if total.key in totals:
                to, old = self._totals[number], before._totals[totals[total.key]]
                to.level_ns, to.begun = old.level_ns, old.begun

    def _resume(self, levels: Iterable[Level]) -> None:
        """After a restart: from where the daemon before has left them."""
        for level in levels:
            row = self.tenants.get(level.tenant)
            if row is None:
                continue
            at = self._tenants[row]
            at.cap_ns, at.at_ns, at.lag_ns, at.used_ppm = level.cap_ns, level.at_ns, level.lag_ns, level.busy_ppm
            at.cap_ppm = NONE if level.cap_ppm is None else level.cap_ppm
            at.burst_ns = 2**62  # whatever it was: it is cut off where the cap is set anew
            at.share_ppm = level.share_ppm if at.unit != NONE else 0
            for client, spent in level.spent:
                seen = self.rows.get(client)
                if seen is not None:
                    to = self._clients[seen]
                    to.seen, to.spent_ns, to.spent_at_ns = 1, spent, level.at_ns
                    to.unseen_ns = spent
