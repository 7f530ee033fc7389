"""A device divided by the real steps (C) with hooks that obey what these publish, on a clock of its own. For tests: no
process, no page file, no waiting.

    device = DividedDevice(division)          # the engine's word: who is there, units, totals
    device.loads[JobId(1)] = Load(kernel_ns=MILLISECOND)
    device.run(SECOND)
    device.used(JobId(1))                     # GPU time, as the device has it

Launches are modelled as gate_decide.c and gate_share.c decide them; kernels run one after the other in slices, as on a
time-sliced device, without a cost of switching.
"""

from collections import deque
from typing import Any

from attrs import Factory, define

from gpud.hooks._pages import ffi, lib
from gpud.hooks.levels import Divided
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.levels import Division, Level, Motion
from gpud.model.units import MICROSECOND, MILLISECOND, SECOND

STEP_NS = 50 * MICROSECOND
SLICE_NS = 1 * MILLISECOND
TICK_NS = 5 * MILLISECOND
NONE, HAS, ASKS = 0, 1, 2


@define(kw_only=True)
class Load:
    """What a process would do if nobody held it: launch kernels, as many as its window takes."""

    kernel_ns: int
    window_ns: int = 2 * MILLISECOND
    on_ns: int = 0
    """It works for so long …"""
    off_ns: int = 0
    """… and pauses for so long; 0: it never pauses."""
    gap_ns: int = 0
    """Between the end of a kernel and the launch of the next, on the host."""
    real_ns: int | None = None
    """How long a kernel really is, where the estimate is wrong."""


@define(kw_only=True)
class _Process:
    client: ClientId
    tenant: JobId
    peers: tuple[ClientId, ...]
    control: Any
    presence: Any
    activity: Any
    queue: deque[int] = Factory(deque)
    """Real time that is left of each kernel."""
    inflight_ns: int = 0
    used_ns: int = 0
    ready_ns: int = 0
    """It launches nothing before."""


class DividedDevice:
    """Slot 0, from the second 100 on."""

    def __init__(self, division: Division, resumed: tuple[Level, ...] = (), now: int = 100 * SECOND) -> None:
        self.now = now
        self.loads: dict[JobId, Load] = {}
        self.processes: dict[ClientId, _Process] = {}
        self.motion = Motion.SETTLED
        self.divided: Divided | None = None
        self.stepping = True
        """A daemon is there."""
        self.hidden: set[ClientId] = set()
        """Clients that the daemon does not see when it divides: they have not come back yet."""
        self._turn: deque[ClientId] = deque()
        self._left_ns = 0
        self._next_tick = now
        self.idle_ns = 0
        self.divide(division, resumed)

    def divide(self, division: Division, resumed: tuple[Level, ...] = (), anew: bool = False) -> None:
        """The engine decides anew. `anew`: another daemon, which remembers only what is resumed."""
        for tenant in division.tenants:
            for client in tenant.clients:
                process = self.processes.get(client.client)
                if process is None:
                    process = self.processes[client.client] = _Process(
                        client=client.client,
                        tenant=tenant.tenant,
                        peers=client.peers,
                        control=ffi.new("struct gpud_control_page *"),
                        presence=ffi.new("struct gpud_presence_page *"),
                        activity=ffi.new("struct gpud_activity_page *"),
                    )
                process.peers = client.peers
                words = process.control.device[0]
                words.tenant, words.peer_count = tenant.tenant, len(client.peers)
        before = None if anew else self.divided
        self.divided = Divided(Slot(0), division, self._places, before, resumed)
        self.motion = self.divided.step(self.now)

    def words(self, client: int) -> Any:
        """What its control page says."""
        return self.processes[ClientId(client)].control.device[0]

    def presence(self, client: int) -> Any:
        """What it says of itself."""
        return self.processes[ClientId(client)].presence.device[0]

    def used(self, tenant: int) -> int:
        """GPU time so far."""
        return sum(process.used_ns for process in self.processes.values() if process.tenant == tenant)

    def run(self, ns: int) -> dict[JobId, float]:
        """Time passes. Returns what part of it each tenant has had the device."""
        before = {tenant: self.used(tenant) for tenant in {p.tenant for p in self.processes.values()}}
        end = self.now + ns
        while self.now < end:
            if self.now >= self._next_tick and self.stepping:
                self._next_tick = self.now + TICK_NS
                assert self.divided is not None
                self.motion = self.divided.step(self.now)
            for process in self.processes.values():
                self._launch(process)
            self._work(STEP_NS)
            self.now += STEP_NS
        return {tenant: (self.used(tenant) - used) / ns for tenant, used in sorted(before.items())}

    def lag(self, client: int, of: int | None = None) -> int:
        """How far a tenant is behind, as this client reads it: its own, or that of the client in its table."""
        me, words = self.processes[ClientId(client)], self.words(client)
        if of is None:
            base, t0, rate = words.share_base_ns, words.share_t0_ns, words.share_rate_ppm
            tenant = me.tenant
        else:
            entry = words.peers[me.peers.index(ClientId(of))]
            base, t0, rate = entry.share_base_ns, entry.share_t0_ns, entry.share_rate_ppm
            tenant = self.processes[ClientId(of)].tenant
        spent = sum(self.presence(c).spent_ns for c in (me.client, *me.peers) if self.processes[c].tenant == tenant)
        return int((base + rate * (self.now - t0) // 10**6 - spent) * 10**6 // rate)

    def cap(self, client: int) -> int:
        """What its tenant may still use, as this client reads it."""
        me, words = self.processes[ClientId(client)], self.words(client)
        own = [c for c in (me.client, *me.peers) if self.processes[c].tenant == me.tenant]
        spent = sum(self.presence(c).spent_ns for c in own)
        level = words.cap_base_ns + words.cap_rate_ppm * (self.now - words.cap_t0_ns) // 10**6 - spent
        return int(min(level, words.cap_burst_ns))

    def _places(self, client: ClientId) -> tuple[Any, Any, Any]:
        process = self.processes[client]
        if client in self.hidden:
            return ffi.NULL, ffi.NULL, ffi.NULL
        return process.control, process.presence, process.activity

    def _wants(self, process: _Process) -> bool:
        load = self.loads.get(process.tenant)
        if load is None or self.now < process.ready_ns:
            return False
        return not load.off_ns or self.now % (load.on_ns + load.off_ns) < load.on_ns

    def _launch(self, process: _Process) -> None:
        """As many launches as pass now."""
        own = process.presence.device[0]
        own.waiting = 0
        load = self.loads.get(process.tenant)
        while load is not None and self._wants(process):
            if process.inflight_ns and process.inflight_ns + load.kernel_ns > load.window_ns:
                own.full_ns = self.now
                break
            if self.cap(process.client) <= 0 and not self._alone(process):
                own.waiting, own.turn = 1, NONE
                break
            own.turn = self._turn_of(process)
            if own.turn == ASKS:
                own.waiting = 1
                break
            own.spent_ns += load.kernel_ns
            process.inflight_ns += load.kernel_ns
            process.queue.append(load.real_ns or load.kernel_ns)
            if load.gap_ns:
                process.ready_ns = 2**63
        active = int(bool(process.queue) or (bool(own.active) and self._wants(process)))
        if active != own.active:
            own.edges += 1
            own.active, own.idle_since_ns = active, self.now
        if not active and not own.waiting:
            own.turn = NONE

    def _alone(self, process: _Process) -> bool:
        """A soft cap does not hold while nobody else wants the device."""
        words = process.control.device[0]
        others = [self.presence(peer) for peer in process.peers if self.processes[peer].tenant != process.tenant]
        wanted = any(other.active or other.waiting for other in others) or words.others_lag_ns != -(2**63)
        return bool(words.cap_flags & lib.GPUD_CAP_SOFT) and not wanted

    def _turn_of(self, process: _Process) -> int:
        words, own = process.control.device[0], process.presence.device[0]
        if words.share_rate_ppm == 0:
            return NONE
        lag, turn_ns = self.lag(process.client), words.share_turn_ns
        others: dict[JobId, tuple[int, int, int]] = {}
        for index, peer in enumerate(process.peers):
            its, tenant = self.presence(peer), self.processes[peer].tenant
            if its.turn == NONE or tenant == process.tenant or words.peers[index].share_rate_ppm == 0:
                continue
            _, turn, full = others.get(tenant, (0, ASKS, 0))
            has = HAS if HAS in (turn, its.turn) else ASKS
            others[tenant] = (self.lag(process.client, peer), has, max(full, its.full_ns))
        if words.others_lag_ns != -(2**63):
            others[JobId(2**32)] = (words.others_lag_ns, ASKS, 0)
        if own.turn == HAS and all(other - lag <= turn_ns for other, _, _ in others.values()):
            return HAS
        for tenant, (other, turn, full) in others.items():
            if turn == ASKS and (other > lag or (other == lag and tenant < process.tenant)):
                return ASKS
            is_full = full and full + max(turn_ns // 8, MILLISECOND) > self.now
            if turn == HAS and is_full and lag - other <= turn_ns:
                return ASKS
        return HAS

    def _work(self, ns: int) -> None:
        """The device works on what is queued, a slice of each process after the other."""
        for process in self.processes.values():
            if process.queue and process.client not in self._turn:
                self._turn.append(process.client)
        while ns > 0 and self._turn:
            process = self.processes[self._turn[0]]
            self._left_ns = self._left_ns or SLICE_NS
            done = min(ns, self._left_ns, process.queue[0])
            process.queue[0] -= done
            process.used_ns += done
            self._left_ns -= done
            ns -= done
            if process.queue[0] == 0:
                process.queue.popleft()
                load = self.loads.get(process.tenant)
                process.inflight_ns = process.inflight_ns - load.kernel_ns if load and process.queue else 0
                if load is not None and load.gap_ns:
                    process.ready_ns = self.now + load.gap_ns
            if not process.queue:
                self._turn.popleft()
                self._left_ns = 0
            elif self._left_ns == 0:
                self._turn.rotate(-1)
        self.idle_ns += ns
